"""Runs the tests of the store contract on every store, in every state in which it can be read."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import index_servers
import pytest
from conformance_subjects import KINDS, make
from store_calls import StoreCalls

from fourfold.storage.sqlite.store import TemporaryStore

_MEMORY = Path("/dev/shm")


_SAMPLED = ("test_store_filters", "test_store_reading", "test_store_vectors", "test_store_congruence")
"""Modules in which indexes of PostgreSQL may differ from its tables: `make test` runs these, `make soak` the rest."""
_ALIKE = ("found_in_other_forms", "found_whole_and_by_their_parts")
"""Tests of analysis, which is the same for all servers; the random operations cover it sufficiently."""
_INDEXED = ("test_store_reading",)
"""Modules in which an index may differ from PostgreSQL: `make test` runs these over Milvus, `make cluster-test` all."""
_LIVES = ("[0-", "[1-")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves tests that take long on servers to `make soak`."""
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        if any(f"[{kind}" in item.name or f"-{kind}]" in item.name for kind in index_servers.KINDS):
            if item.path.stem not in _INDEXED or "weaviate" in item.name or "safe_query" in item.name:
                item.add_marker(pytest.mark.soak)
            continue
        if "postgres" in item.name and _is_long(item):
            item.add_marker(pytest.mark.soak)


def _is_long(item: pytest.Item) -> bool:
    if "answers_like_the_oracle" in item.name:
        return not any(life in item.name for life in _LIVES)
    if "postgres-published" in item.name and (item.path.stem not in _SAMPLED or "like_with_like" in item.name):
        return True
    return any(part in item.name for part in _ALIKE)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a memory file system where there is one; other tests cover real disks."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name) / "store"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    subject = make(request.param, folder)
    yield subject
    subject.close()


@pytest.fixture
def empty() -> Iterator[StoreCalls]:
    """A second store, from which records come or into which they are loaded."""
    subject = StoreCalls(TemporaryStore())
    yield subject
    subject.close()
