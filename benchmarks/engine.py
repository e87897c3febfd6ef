"""What the comparison asks of every search engine, and what all of them share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from corpus import Corpus

Vector: TypeAlias = npt.NDArray[np.float32]
Mode: TypeAlias = Literal["hybrid", "keyword", "vector"]
Value = TypeVar("Value")

MODES: tuple[Mode, ...] = ("hybrid", "keyword", "vector")
DEPTH = 200
TOP = 10
BATCH = 1000
RANK_CONSTANT = 60


class Engine(Protocol):
    """A search engine with its data in one folder; every search returns the keys of its best ten items."""

    label: str
    packages: tuple[str, ...]

    def __init__(self, folder: Path) -> None: ...

    async def build(self, corpus: Corpus) -> None:
        """Store and index everything, then close."""
        ...

    async def tune(self, corpus: Corpus) -> str:
        """Choose the search settings for what was built; return the settings in words."""
        ...

    async def open(self) -> None:
        """Open what was built, ready for searches."""
        ...

    async def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Search with words and vector together."""
        ...

    async def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        ...

    async def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


def batches(values: Iterable[Value], size: int) -> Iterator[list[Value]]:
    """Cut a stream into lists of at most `size` values."""
    stream = iter(values)
    while batch := list(islice(stream, size)):
        yield batch


def fuse_ranks(*ranked: list[int]) -> list[int]:
    """Merge ranked lists by reciprocal rank fusion and return the best ten."""
    scores: dict[int, float] = {}
    for numbers in ranked:
        for rank, number in enumerate(numbers, 1):
            scores[number] = scores.get(number, 0.0) + 1.0 / (RANK_CONSTANT + rank)
    return sorted(scores, key=scores.__getitem__, reverse=True)[:TOP]
