"""Scores from tags that items share with the best hits: what somebody has filed beside the answer is often one too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate, takewhile

from fourfold.limits import CANDIDATES, HUB, WALK_EDGES
from fourfold.model import Hit
from fourfold.search.fusion import in_order

Use = tuple[int, str, int]
"""An item, a tag that it carries, and how many items do."""


def telling(uses: Mapping[str, int]) -> list[str]:
    """Tags that lead from one item to another, rarest first: none that stands on too many, and not too much in all."""
    few = sorted((count, tag) for tag, count in uses.items() if 1 < count <= HUB)
    reached = accumulate(count for count, _ in few)
    return [tag for (_, tag), _ in takewhile(lambda pair: pair[1] <= WALK_EDGES, zip(few, reached, strict=True))]


def rarity(uses: int) -> float:
    """What one tag says: less, the more items carry it."""
    return 1 / (1 + math.log(max(uses, 1)))


def sharing(strengths: Mapping[int, float], carried: Iterable[Use], limit: int = CANDIDATES) -> tuple[Hit, ...]:
    """Items by the tags that they share with a start: each tag passes on the strength of the best start beside it.

    Not of all of them, nor of the item itself: many keywords would then be as good as the right ones.
    """
    scores: dict[int, float] = {}
    for tag in _by_tag(carried).values():
        starts = sorted(((strengths.get(item, 0.0), item) for item, _ in tag), reverse=True)[:2]
        for item, uses in tag:
            passed = next((strength for strength, start in starts if start != item), 0.0)
            scores[item] = scores.get(item, 0.0) + passed * rarity(uses)
    rounded = {item: round(score, 9) for item, score in scores.items() if score > 0}
    return tuple(Hit(item, rounded[item]) for item in in_order(rounded)[:limit])


def _by_tag(carried: Iterable[Use]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for item, tag, uses in carried:
        found.setdefault(tag, []).append((item, uses))
    return found
