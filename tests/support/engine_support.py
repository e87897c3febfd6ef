"""Helpers of the engine tests: an embedder without a model, and shorthand."""

import math
import re
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

from fourfold import Memory, NewItem, SearchResponse
from fourfold.engine import pipeline

Opener = Callable[..., Memory]

DIMENSION = 32


class WordEmbedder:
    """Hashes every word into one of a few dimensions, so that texts with common words are near. Records its texts."""

    def __init__(self, name: str = "words", dimension: int = DIMENSION) -> None:
        self.fingerprint = f"{name}/{dimension}"
        self.dimension: int | None = dimension
        self.texts: list[str] = []
        self.closed = False

    def load(self) -> None: ...

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts.extend(texts)
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> Any:
        assert self.dimension is not None
        found = np.zeros(self.dimension, np.float64)
        for word in re.findall(r"\w+", text.lower()) or [""]:
            found[zlib.crc32(word.encode("utf-8", "replace")) % self.dimension] += 1
        return (found / math.sqrt(found @ found)).astype(np.float32)

    def truncates(self, text: str) -> bool:
        return len(text) > 1000

    def close(self) -> None:
        self.closed = True


class StubbornEmbedder(WordEmbedder):
    """Raises the given error after a number of calls."""

    def __init__(self, calls: int, error: Callable[[], Exception], name: str = "words") -> None:
        super().__init__(name)
        self.left = calls
        self._error = error

    def embed(self, texts: Sequence[str]) -> Any:
        if not self.left:
            raise self._error()
        self.left -= 1
        return super().embed(texts)


class Clock:
    """Replaces the clock of the pipeline by one that only slow calls advance."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._seconds = 0.0
        patch.setattr(pipeline, "time", self)

    def perf_counter(self) -> float:
        return self._seconds

    def slowed(self, call: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        """Wraps the call so that it takes this long."""

        def slow(*args: Any, **options: Any) -> Any:
            self._seconds += seconds
            return call(*args, **options)

        return slow


def eventually(condition: Callable[[], Any]) -> None:
    """Waits until this holds, at most a minute."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true within a minute"
        time.sleep(0.001)


def ids(response: SearchResponse) -> list[int]:
    return [result.id for result in response.results]


def texts(response: SearchResponse) -> list[str]:
    return [result.item.text for result in response.results]


def scored(response: SearchResponse) -> list[tuple[int, float]]:
    return [(result.id, result.score) for result in response.results]


NOTES = (
    NewItem("The router in the cellar has the address 192.168.1.1", tags=("office", "network")),
    NewItem("Coffee beans are kept in the upper drawer of the kitchen", tags=("kitchen",)),
    NewItem("Invoices of 2025 are archived in the grey cabinet", tags=("office", "finance"), kind="fact"),
    NewItem("The printer jams when the paper is damp", tags=("office",)),
    NewItem("Maria waters the plants on Monday", tags=("people",)),
    NewItem("The cellar key hangs behind the kitchen door", tags=("kitchen", "keys")),
    NewItem("Backups of the router settings are made every Friday", tags=("network",)),
    NewItem("Der Drucker braucht neues Papier aus dem grauen Schrank", tags=("office",)),
)
"""Items of a small, realistic store."""


def notes(count: int, word: str = "note") -> list[NewItem]:
    """Different short texts that share words."""
    animals = ("heron", "otter", "badger", "lynx", "marten", "raven", "viper", "stoat")
    return [
        NewItem(f"{word} {number}: the {animals[number % 8]} met the {animals[number // 8 % 8]} at gate {number % 13}")
        for number in range(count)
    ]


TABLES = ("namespaces", "items", "item_tags", "tags", "raw", "sources", "vectors", "nodes", "names", "edges", "changes")


def row_counts(folder: Path) -> dict[str, int]:
    """The numbers of rows, read directly from the database."""
    db = apsw.Connection(str(folder / "fourfold.db"), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return {table: db.execute(f"SELECT count(*) FROM {table}").get for table in TABLES}
    finally:
        db.close()


def files_with(folder: Path, word: str) -> list[Path]:
    """Files below the folder that contain the word, in upper or lower case."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if word.lower().encode() in path.read_bytes().lower()]
