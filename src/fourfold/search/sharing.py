"""Scores from tags that items share with the best hits: what somebody has filed beside the answer is often one too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate, takewhile

from fourfold.limits import CANDIDATES, HUB
from fourfold.model import Hits
from fourfold.search.order import ranked

Use = tuple[int, str, int]
"""An item, a tag that it carries, and how many items do."""


def telling(uses: Mapping[str, int]) -> list[str]:
    """Tags that lead from one item to another, rarest first: none that stands on too many, and not too much in all."""
    few = sorted((count, tag) for tag, count in uses.items() if 1 < count <= HUB)
    reached = accumulate(count for count, _ in few)
    return [tag for (_, tag), _ in takewhile(lambda pair: pair[1] <= CANDIDATES, zip(few, reached, strict=True))]


def rarity(uses: int) -> float:
    """What one tag says: less, the more items carry it."""
    return 1 / (1 + math.log(max(uses, 1)))


def sharing(strengths: Mapping[int, float], carried: Iterable[Use], limit: int = CANDIDATES) -> Hits:
    """Items by the tags that they share with a start: each tag passes on the strength of the best start beside it.

    Not of all of them, nor of the item itself: many keywords would then be as good as the right ones.
    """
    scores: dict[int, float] = {}
    for uses, items in _by_tag(carried):
        starts = sorted(((strengths[item], item) for item in items if item in strengths), reverse=True)
        (best, first), (second, _) = [*starts, _NOTHING, _NOTHING][:2]
        passed, to_the_first = best * rarity(uses), second * rarity(uses)
        for item in items:
            scores[item] = scores.get(item, 0.0) + (to_the_first if item == first else passed)
    return ranked({item: score for item, score in scores.items() if score > 0}, limit)


_NOTHING = (0.0, 0)


def _by_tag(carried: Iterable[Use]) -> Iterable[tuple[int, list[int]]]:
    """How many items carry a tag, and those of them that may be found."""
    found: dict[str, tuple[int, list[int]]] = {}
    for item, tag, uses in carried:
        found.setdefault(tag, (uses, []))[1].append(item)
    return found.values()
