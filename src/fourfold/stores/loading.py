"""Loading an export in pieces, so that an interrupted load can go on: what is kept about it, and what that means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from fourfold.errors import RequestError
from fourfold.stores.base import Record

SETTING = "loading"
"""Where a store keeps the mark of a load that is under way, and how many records it has."""
UNFINISHED = "a move into this store was interrupted: run it again"
_PIECE = 5000


def loaded(kept: str | None, mark: str) -> int | None:
    """How many records of this load are there already; None if it has not begun."""
    if kept is None:
        return None
    known, _, count = kept.partition(" ")
    if known != mark:
        raise RequestError("this store holds a part of another one", "Move that again, or choose an empty target")
    return int(count)


def pieces(records: Iterable[Record], done: int) -> Iterator[tuple[list[Record], int]]:
    """What is left, piece by piece, with how many records there are after it."""
    rest = islice(records, done, None)
    while piece := list(islice(rest, _PIECE)):
        done += len(piece)
        yield piece, done


def note(mark: str, done: int) -> str:
    return f"{mark} {done}"
