"""Work in bulk gives way to searches: both need the interpreter, which one thread has at a time.

A search asks for the interpreter again after each of its many calls of SQLite and numpy, and whoever computes meanwhile
keeps it for five milliseconds each time. So a search says that it is under way, and whoever stores or builds in this
process stops between small pieces of work, for about as long as it has worked: neither keeps the other from going on.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_PIECE = 0.001
"""Seconds of work after which a search gets its turn."""
_LONGEST_PIECE = 0.004
"""What took longer was mostly the disk's time, which is not the interpreter's."""
_PATIENCE = 1.0
"""For how long a search is let go on, in parts of the piece before."""

T = TypeVar("T")


class _Searches:
    """How many are under way in this process."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._count = 0
        self.none = threading.Event()
        self.none.set()

    def add(self, count: int) -> None:
        with self._changing:
            self._count += count
            if self._count:
                self.none.clear()
            else:
                self.none.set()


class _Bulk(threading.local):
    """What a thread does."""

    since: float | None = None
    """When its piece of work began; None if it need not give way."""


_searches = _Searches()
_bulk = _Bulk()


@contextmanager
def searching() -> Generator[None]:
    """Around what somebody waits for."""
    _searches.add(1)
    try:
        yield
    finally:
        _searches.add(-1)


@contextmanager
def in_bulk() -> Generator[None]:
    """What this thread does inside gives way wherever it can."""
    before, _bulk.since = _bulk.since, time.perf_counter()
    try:
        yield
    finally:
        _bulk.since = before


def give_way() -> None:
    """Lets searches go on for a moment, if this thread works in bulk and has done so for a moment."""
    if _bulk.since is None:
        return
    seconds = _seconds_due(_bulk.since)
    if seconds:
        _searches.none.wait(seconds)
        _bulk.since = time.perf_counter()


def paced(rows: Iterable[T]) -> Iterator[T]:
    """The same rows, between which a thread that works in bulk gives way."""
    if _bulk.since is None:
        return iter(rows)
    return _paced(rows)


def _paced(rows: Iterable[T]) -> Iterator[T]:
    for row in rows:
        give_way()
        yield row


async def giving_way(since: float) -> float:
    """The same for a coroutine, which has worked since then; since when its next piece of work goes on."""
    seconds = _seconds_due(since)
    await asyncio.sleep(seconds)
    return time.perf_counter() if seconds else since


def _seconds_due(since: float) -> float:
    """What searches are due after a piece of work; 0 where none is under way, or the piece goes on."""
    worked = time.perf_counter() - since
    return 0.0 if worked < _PIECE or _searches.none.is_set() else min(worked, _LONGEST_PIECE) * _PATIENCE
