"""The contract of a store is tested on every store, in every state that it may be in when it is asked."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance_subjects import KINDS, make

_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: what a disk does to a store is tested elsewhere."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name) / "store"


@pytest.fixture(autouse=True)
def indexed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server with pg_textsearch indexes everything, however little it is; the plain one nothing."""
    if "textsearch" in request.node.name:
        monkeypatch.setattr("fourfold.stores.postgres.upkeep.WORDED", 1)
        monkeypatch.setattr("fourfold.stores.postgres.vectors.INDEXED", 1)


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Any]:
    subject = make(request.param, folder)
    yield subject
    await subject.close()
