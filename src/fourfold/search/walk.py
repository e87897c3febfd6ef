"""Scores from relations: how near an item is to what the query names, or to what the other retrievers found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from fourfold.limits import CANDIDATES, EXPAND_SEEDS
from fourfold.model import Background, Hit
from fourfold.search.fusion import in_order

LinkKind = Literal["own", "edge", "mentions", "mentioned-by"]

NEARNESS: Final[Mapping[LinkKind, float]] = {"own": 1.0, "mentions": 1.0, "edge": 0.8, "mentioned-by": 0.5}
"""What a link of each kind passes on."""


class Link(NamedTuple):
    """A way from a starting point (a node of the query, or an item) to an item."""

    source: int
    item: int
    kind: LinkKind
    weight: float
    degree: int
    """How many such links the thing in between has: a name that everything mentions says little."""


def linked(strengths: Mapping[int, float], links: Iterable[Link], limit: int = CANDIDATES) -> tuple[Hit, ...]:
    """The items that the links lead to, by the sum of what reaches them."""
    scores: dict[int, float] = {}
    for link in links:
        passed = strengths[link.source] * NEARNESS[link.kind] * link.weight * _damping(link.degree)
        scores[link.item] = scores.get(link.item, 0.0) + passed
    rounded = {item: round(score, 9) for item, score in scores.items()}
    return tuple(Hit(item, rounded[item]) for item in in_order(rounded)[:limit])


def _damping(degree: int) -> float:
    return 1 / (1 + math.log(max(degree, 1)))


def longest(names: Sequence[str]) -> list[str]:
    """Without names that are only a part of another one: `new york city`, not `york` too."""
    padded = [f" {name} " for name in names]
    return [name for name in names if not any(f" {name} " in other and f" {name} " != other for other in padded)]


def seeds(lists: Mapping[str, Sequence[Hit]], backgrounds: Mapping[str, Background | None]) -> dict[int, float]:
    """The ten best of the semantic and keyword hits, each with its strength in 0..1."""
    strengths: dict[int, float] = {}
    for name in ("semantic", "keyword"):
        hits = lists.get(name, ())[:EXPAND_SEEDS]
        if not hits:
            continue
        background = backgrounds.get(name)
        floor = background.mean if background is not None and name == "semantic" else 0.0
        span = hits[0].score - floor
        for hit in hits:
            strength = (hit.score - floor) / span if span > 0 else 1.0
            strengths[hit.id] = max(strengths.get(hit.id, 0.0), strength)
    return {item: strengths[item] for item in in_order(strengths)[:EXPAND_SEEDS] if strengths[item] > 0}
