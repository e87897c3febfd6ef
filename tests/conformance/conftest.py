"""The contract of a store is tested on every store, in every state that it may be in when it is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import index_servers
import postgres_servers
import pytest
from conformance_subjects import KINDS, make

_MEMORY = Path("/dev/shm")


_SAMPLED = ("test_store_filters", "test_store_reading", "test_store_vectors", "test_store_congruence")
"""What a server with pg_textsearch may do otherwise than a plain one: `make test` has these, `make soak` the rest."""
_ALIKE = ("found_in_other_forms", "found_whole_and_by_their_parts")
"""Servers get terms as numbers: of what happens to words before, random lives have enough."""
_INDEXED = ("test_store_reading",)
"""What an index may do otherwise than PostgreSQL: `make test` has these over Milvus, `make cluster-test` the rest."""
_LIVES = ("[0-", "[1-")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On servers some of it takes long."""
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        if any(f"[{kind}" in item.name or f"-{kind}]" in item.name for kind in index_servers.KINDS):
            if item.path.stem not in _INDEXED or "weaviate" in item.name:
                item.add_marker(pytest.mark.soak)
            continue
        on_server = [kind for kind in postgres_servers.KINDS if kind in item.name]
        if on_server and _is_long(item, on_server == ["textsearch"]):
            item.add_marker(pytest.mark.soak)


def _is_long(item: pytest.Item, textsearch: bool) -> bool:
    if "answers_like_the_oracle" in item.name:
        return not any(life in item.name for life in _LIVES)
    if textsearch and (item.path.stem not in _SAMPLED or "like_with_like" in item.name):
        return True
    return any(part in item.name for part in _ALIKE)


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: what a disk does to a store is tested elsewhere."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name) / "store"


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    subject = make(request.param, folder)
    yield subject
    subject.close()
