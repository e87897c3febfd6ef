"""What the comparison asks of every search engine, and what all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from corpus import Corpus, recall_of

Vector: TypeAlias = npt.NDArray[np.float32]
Mode: TypeAlias = Literal["hybrid", "keyword", "vector"]
ClientKind: TypeAlias = Literal["threads", "processes"]
Value = TypeVar("Value")

MODES: tuple[Mode, ...] = ("hybrid", "keyword", "vector")
DEPTH = 200
TOP = 10
BATCH = 1000
RANK_CONSTANT = 60
TUNED_RECALL = 0.95
TUNING_QUERIES = 200
MEGABYTE = 1_000_000


class Engine(Protocol):
    """A search engine with its data in one folder; every search returns the keys of its best ten items."""

    label: str
    packages: tuple[str, ...]
    environment: str = ""
    """A variable that it cannot run without: the address of a server."""
    client_kinds: tuple[ClientKind, ...] = ("processes",)
    """How several clients share it: threads of one process, or a process each."""

    def __init__(self, folder: Path) -> None: ...

    def build(self, corpus: Corpus) -> None:
        """Store and index everything, then close."""
        ...

    def tune(self, corpus: Corpus) -> str:
        """Choose the search settings for what was built; return the settings in words."""
        ...

    def open(self) -> None:
        """Open what was built, ready for searches."""
        ...

    def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Search with words and vector together."""
        ...

    def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        ...

    def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...

    def megabytes(self, folder: Path) -> float:
        """What the data takes on disk."""
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MEGABYTE

    def processes(self) -> list[int]:
        """Other processes that work for this one: a server's."""
        return []


def ask(engine: Engine, mode: Mode, text: str, vector: Vector) -> list[str]:
    """Search in one of the modes."""
    if mode == "hybrid":
        return engine.hybrid(text, vector)
    if mode == "keyword":
        return engine.keyword(text)
    return engine.vector(text, vector)


def tuned(corpus: Corpus, ladder: Sequence[Value], search: Callable[[Value, Vector], list[str]]) -> tuple[Value, float]:
    """The first setting of a ladder whose vector search finds enough of the true ten nearest, and its recall."""
    count = min(TUNING_QUERIES, corpus.query_count)
    queries, truth = corpus.query_vectors()[:count], corpus.neighbours(TOP)[:count]
    setting, recall = ladder[0], 0.0
    for setting in ladder:
        recall = recall_of([search(setting, query) for query in queries], truth)
        if recall >= TUNED_RECALL:
            break
    return setting, recall


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
