"""Kills, faults, damage and many clients, over real stores in real processes."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trust_child
from memory_fixtures import either

__all__ = ["either", "trust_child"]  # the latter puts what children import on the path


@pytest.fixture
def fast_folder() -> Iterator[Path]:
    """A folder on a memory file system where there is one, for tests that do not depend on real syncs."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
