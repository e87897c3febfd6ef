"""Which stored chunk of a file each new one goes on from: an edit in one place leaves all others what they were."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence

from fourfold.model import NewItem

Old = tuple[int, str, str]
"""(id, title, text)"""


def continued(old: Sequence[Old], new: Sequence[NewItem]) -> tuple[list[int | None], list[int]]:
    """For each new chunk the id that it goes on under, None for a new one; and the ids that are left over.

    The same title and text come first, then the same text; what is left goes on in its order.
    """
    ids: list[int | None] = [None] * len(new)
    rest = _matched(ids, old, [(chunk.title, chunk.text) for chunk in new], lambda row: row[1:])
    rest = _matched(ids, rest, [chunk.text for chunk in new], lambda row: row[2])
    rest = _matched(ids, rest, [None] * len(new), lambda row: None)
    return ids, [item for item, _, _ in rest]


def _matched(
    ids: list[int | None], old: Sequence[Old], new: Sequence[Hashable], mark: Callable[[Old], Hashable]
) -> list[Old]:
    """Fills places that are free with old chunks of the same mark, in order; the old ones that are left."""
    same: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for row in old:
        same[mark(row)].append(row[0])
    for place, wanted in enumerate(new):
        if ids[place] is None and same[wanted]:
            ids[place] = same[wanted].popleft()
    taken = set(ids)
    return [row for row in old if row[0] not in taken]
