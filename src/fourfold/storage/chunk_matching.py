"""Matches the new chunks of a file to stored ones: an edit in one place leaves all other items as they are."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

from fourfold.model import NewItem
from fourfold.storage.values import FileUpdate

Old = tuple[int, str, str]
"""(id, title, text)"""


class ChunkRows(Protocol):
    """The chunks of files in a database."""

    def stored(self, path: str) -> Sequence[tuple[int, int, str, str]]:
        """(id, number, title, text) of the chunks of a file, in order."""
        ...

    def set_path(self, source: str, target: str) -> None: ...

    def set_numbers(self, path: str, numbers: Mapping[int, int]) -> None:
        """Sets the numbers of chunks by id; the others get negative numbers temporarily."""
        ...

    def forget_state(self, path: str) -> None: ...


def renumber(rows: ChunkRows, file: FileUpdate) -> list[int]:
    """Gives the stored chunks of a file their new path and numbers; returns the chunks that are no longer needed."""
    path, gone = file.state.path, list[int]()
    if file.moved_from is not None:
        rows.forget_state(file.moved_from)
        if rows.stored(path):
            gone = [item for item, *_ in rows.stored(file.moved_from)]
        else:
            rows.set_path(file.moved_from, path)
    if file.chunks is None:
        return gone
    old = rows.stored(path)
    kept, rest = continued([(item, title, text) for item, _, title, text in old], file.chunks)
    numbers = {item: number for number, item in enumerate(kept) if item is not None}
    if any(numbers.get(item) != number for item, number, *_ in old):
        rows.set_numbers(path, numbers)
    return gone + rest


def continued(old: Sequence[Old], new: Sequence[NewItem]) -> tuple[list[int | None], list[int]]:
    """For each new chunk the id of the stored one that it continues, or None; and the ids that are left over.

    The same title and text come first, then the same text; the rest is matched in order.
    """
    ids: list[int | None] = [None] * len(new)
    rest = _matched(ids, old, [(chunk.title, chunk.text) for chunk in new], lambda row: row[1:])
    rest = _matched(ids, rest, [chunk.text for chunk in new], lambda row: row[2])
    rest = _matched(ids, rest, [None] * len(new), lambda row: None)
    return ids, [item for item, _, _ in rest]


def _matched(
    ids: list[int | None], old: Sequence[Old], new: Sequence[Hashable], mark: Callable[[Old], Hashable]
) -> list[Old]:
    """Fills free places with old chunks of the same mark, in order; returns the remaining old ones."""
    same: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for row in old:
        same[mark(row)].append(row[0])
    for place, wanted in enumerate(new):
        if ids[place] is None and same[wanted]:
            ids[place] = same[wanted].popleft()
    taken = set(ids)
    return [row for row in old if row[0] not in taken]
