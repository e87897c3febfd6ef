"""Fixtures of tests of folders: a store without an embedder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fourfold.memory import Memory


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    opened = Memory.open(tmp_path / "store", embedder="none", background=False)
    yield opened
    opened.close()
