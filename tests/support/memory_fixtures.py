"""Memory over a real store; the model is replaced by one that costs nothing, but for the few tests that ask for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import postgres_servers
import pytest
from engine_support import NOTES, Opener, WordEmbedder

from fourfold import Memory, Settings
from fourfold.storage.sqlite.database import Tuning
from fourfold.storage.sqlite.store import SqliteStore


@pytest.fixture
def tuning() -> dict[str, Any]:
    """Fields of Tuning that a test gives the stores that it opens from then on."""
    return {}


@pytest.fixture
def opened(tmp_path: Path, tuning: dict[str, Any]) -> Iterator[Opener]:
    """Opens stores and closes them when the test is over; `store` is the folder's name."""
    memories: list[Memory] = []

    def open_memory(store: str | Path = "store", **options: Any) -> Memory:
        where = SqliteStore(tmp_path / store, tuning=Tuning(**tuning)) if tuning else tmp_path / store
        patient = Settings(retriever_seconds=60)  # the machine may be under load
        memory = Memory.open(where, **{"embedder": WordEmbedder(), "settings": patient, **options})
        memories.append(memory)
        return memory

    yield open_memory
    for memory in memories:
        memory.close()


@pytest.fixture
def memory(opened: Opener) -> Memory:
    return opened()


@pytest.fixture
def office(memory: Memory) -> Memory:
    """A memory that holds NOTES, with their vectors."""
    memory.add_many(NOTES, wait=True)
    return memory


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """The place of a new store, of one database and of the other."""
    return tmp_path / "store" if request.param == "sqlite" else postgres_servers.fresh()
