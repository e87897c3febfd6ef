"""Fixtures of the suites, which test_frameworks.py runs in .venv-frameworks."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fourfold import BaseEmbedder, Memory

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"

Opener = Callable[..., Memory]


class Letters(BaseEmbedder):
    """Counts letters: texts with the same words are near to each other."""

    name = "letters"
    dimension = 27

    def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0, *(float(text.lower().count(chr(97 + place))) for place in range(26))] for text in texts]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens stores and closes them when the test is over."""
    memories: list[Memory] = []

    def open_memory(name: str = "store", **options: Any) -> Memory:
        memories.append(Memory.open(tmp_path / name, **{"embedder": Letters(), **options}))
        return memories[-1]

    yield open_memory
    for memory in memories:
        memory.close()


@pytest.fixture
def memory(opened: Opener) -> Memory:
    """A memory with an embedder."""
    return opened()


@pytest.fixture
def bare(opened: Opener) -> Memory:
    """A memory without an embedder, for given vectors."""
    return opened("bare", embedder="none")
