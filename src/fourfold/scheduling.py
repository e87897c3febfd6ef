"""Sharing the GIL: bulk work yields to searches, and searches take turns.

A search releases the GIL with each of its many calls of SQLite and numpy, and a thread that computes meanwhile keeps it
for five milliseconds each time. So a search announces itself, and threads that store or build in this process pause
between small pieces of work, for about as long as they have worked: both make progress.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar
from weakref import ref

_PIECE = 0.001
"""Seconds of work after which a bulk thread yields."""
_LONGEST_PIECE = 0.004
"""Longer pieces were mostly spent waiting for the disk, which releases the GIL."""
_POLL_SECONDS = 0.0005
_PATIENCE = 1.0
"""Pause of a bulk thread, as a share of the piece before it."""
T = TypeVar("T")


class Mark:
    """A running block of code."""

    __slots__ = ("__weakref__",)


class Marks:
    """Counts blocks of code that run, each by an object of its own. The caller has a lock for changes.

    The objects are held weakly: a block whose end Ctrl-C cut off counts until its frame is gone. Not a WeakSet, whose
    callbacks are Python code that Ctrl-C may hit.
    """

    def __init__(self) -> None:
        self._marks: list[ref[Mark]] = []

    def __len__(self) -> int:
        return len([mark for mark in self._marks if mark() is not None])

    def add(self, mark: Mark) -> None:
        self._marks = [each for each in self._marks if each() is not None] + [ref(mark)]

    def discard(self, mark: Mark) -> None:
        self._marks = [each for each in self._marks if each() not in (None, mark)]


class _Bulk(threading.local):
    """The bulk work of one thread."""

    since: float | None = None
    """When its current piece began; None if the thread does not yield."""


_searches = Marks()
"""The searches that run in this process."""
_counting = threading.Lock()
_bulk = _Bulk()


def is_crowded() -> bool:
    """Whether several searches run, so that each has at most one processor."""
    return len(_searches) > 1


@contextmanager
def in_bulk() -> Generator[None]:
    """Makes this thread yield to searches inside the block."""
    before, _bulk.since = _bulk.since, time.perf_counter()
    try:
        yield
    finally:
        _bulk.since = before


def give_way() -> None:
    """Pauses for running searches, if this thread does bulk work and its piece has lasted long enough."""
    now = time.perf_counter()
    worked = 0.0 if _bulk.since is None else now - _bulk.since
    if worked >= _PIECE and _searches:
        until = now + min(worked, _LONGEST_PIECE) * _PATIENCE
        while _searches and time.perf_counter() < until:
            time.sleep(_POLL_SECONDS)
        _bulk.since = time.perf_counter()


def paced(rows: Iterable[T]) -> Iterator[T]:
    """Yields the rows; a thread that does bulk work yields to searches between them."""
    return iter(rows) if _bulk.since is None else _paced(rows)


def _paced(rows: Iterable[T]) -> Iterator[T]:
    """Looks at the clock here: a call for each row would cost more than most rows."""
    due = time.perf_counter() + _PIECE
    for row in rows:
        if time.perf_counter() >= due:
            give_way()
            due = time.perf_counter() + _PIECE
        yield row


class _Place(Mark):
    """A turn, or a place in the queue for one."""

    __slots__ = ("barrier",)
    barrier: threading.Lock
    """Free when the turn is granted. Only a place in the queue has one."""


class Turns:
    """FIFO semaphore with a maximum wait. Ctrl-C cannot keep a turn: it ends with the block that has it."""

    def __init__(self, number: int) -> None:
        self._changing = threading.Lock()
        self._number = number
        self._taken = Marks()
        self._waiting: deque[_Place] = deque()

    @contextmanager
    def turn(self, max_wait_seconds: float) -> Generator[bool]:
        """Yields whether a turn came in time."""
        place = _Place()
        try:
            yield self._take(place, max_wait_seconds)
        finally:
            self._leave(place)

    @contextmanager
    def search(self, max_wait_seconds: float) -> Generator[Callable[[], None]]:
        """A turn, or none after the wait, for a search, which counts as running inside the block.

        Yields a function that gives the turn up earlier.
        """
        place = _Place()
        try:
            self._take(place, max_wait_seconds)
            with _counting:
                _searches.add(place)
            yield partial(self._end, place)
        finally:
            self._end(place)

    def _end(self, place: _Place) -> None:
        try:
            self._leave(place)
        finally:
            with _counting:
                _searches.discard(place)

    def _take(self, place: _Place, max_wait_seconds: float) -> bool:
        with self._changing:
            if not self._waiting and len(self._taken) < self._number:
                self._taken.add(place)
                return True
            place.barrier = threading.Lock()
            place.barrier.acquire()
            self._waiting.append(place)
            self._grant()
        granted = place.barrier.acquire(timeout=max_wait_seconds)
        if not granted:
            self._leave(place)
        return granted

    def _leave(self, place: _Place) -> None:
        with self._changing:
            self._taken.discard(place)
            if self._waiting:
                if place in self._waiting:
                    self._waiting.remove(place)
                self._grant()

    def _grant(self) -> None:
        while self._waiting and len(self._taken) < self._number:
            place = self._waiting[0]
            self._taken.add(place)
            with suppress(RuntimeError):  # Ctrl-C came after the release
                place.barrier.release()
            self._waiting.popleft()
