"""Which stored chunk of a file each new one goes on from: an edit in one place leaves all others what they were."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from fourfold.model import NewItem


def continued(old: Sequence[tuple[int, str, str]], new: Sequence[NewItem]) -> tuple[list[int | None], list[int]]:
    """For each new chunk the id that it goes on under, None for a new one; and the ids that are left over.

    `old`: (id, title, text). The same title and text come first; what is left goes on in its order.
    """
    same: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
    for item, title, text in old:
        same[title, text].append(item)
    kept = [same[chunk.title, chunk.text].popleft() if same[chunk.title, chunk.text] else None for chunk in new]
    taken = set(kept)
    rest = deque(item for item, _, _ in old if item not in taken)
    ids = [item if item is not None else rest.popleft() if rest else None for item in kept]
    return ids, list(rest)
