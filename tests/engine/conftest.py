"""Memory over a real store; the model is replaced by one that costs nothing, but for the few tests that ask for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from engine_support import NOTES, Opener, WordEmbedder

from fourfold.memory import Memory


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens stores and closes them when the test is over; `store` is the folder's name."""
    memories: list[Memory] = []

    async def open_memory(store: str | Path = "store", **options: Any) -> Memory:
        memory = await Memory.open(tmp_path / store, **{"embedder": WordEmbedder(), **options})
        memories.append(memory)
        return memory

    yield open_memory
    for memory in memories:
        await memory.close()


@pytest.fixture
async def memory(opened: Opener) -> Memory:
    return await opened()


@pytest.fixture
async def office(memory: Memory) -> Memory:
    """A memory that holds NOTES, with their vectors."""
    await memory.add_many(NOTES, wait=True)
    return memory
