"""Scores from relations: how near an item is to what the query names, or to what the other retrievers found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from fourfold.limits import CANDIDATES, EXPAND_SEEDS
from fourfold.model import Hits
from fourfold.search.fusion import Fusion
from fourfold.search.order import ranked

LinkKind = Literal["own", "edge", "mentions", "mentioned-by", "names"]

NEARNESS: Final[Mapping[LinkKind, float]] = {
    "own": 1.0,
    "mentions": 1.0,
    "edge": 0.8,
    "mentioned-by": 0.5,
    "names": 0.1,
}
"""What a link of each kind passes on.

A text chooses what it mentions; by whom it is mentioned says less of it. That a text has a name in it which the query
has too (`names`) is what keyword search finds by itself.
"""


PERHAPS: Final = 0.25
"""The strength of what is called by words of the query that are not spelled as a name: `find`, `high school`."""
BEST_HIT: Final = 0.35
"""The strength of the best hit by text; what the query names has 1."""

LEAST_START: Final = 0.05


class Link(NamedTuple):
    """A way from a starting point (a node of the query, or an item) to an item."""

    source: int
    item: int
    kind: LinkKind
    weight: float
    degree: int
    """How many ways lead over what lies between: the links of each end, multiplied. Who knows everybody says little."""


def named(strengths: Mapping[int, float], links: Iterable[Link]) -> dict[int, float]:
    """The items that belong to the starting points themselves, by how much each is meant."""
    found: dict[int, float] = {}
    for link in links:
        if link.kind == "own":
            found[link.item] = max(found.get(link.item, 0.0), strengths[link.source] * _damping(link.degree))
    return found


def related(strengths: Mapping[int, float], links: Iterable[Link]) -> dict[int, float]:
    """How surely each item is what the query names, or is joined to it by a stored relation.

    However many other relations there are: for a ranking a hub says little, but what it is joined to is known.
    """
    found: dict[int, float] = {}
    for link in links:
        if link.kind in ("own", "edge"):
            sure = strengths[link.source] * NEARNESS[link.kind] * min(1.0, link.weight)
            found[link.item] = max(found.get(link.item, 0.0), sure)
    return found


def linked(strengths: Mapping[int, float], links: Iterable[Link], limit: int = CANDIDATES) -> Hits:
    """The items that the links lead to, by the sum of what reaches them."""
    scores: dict[int, float] = {}
    for link in links:
        scores[link.item] = scores.get(link.item, 0.0) + _passed(strengths[link.source], link)
    return ranked(scores, limit)


def _passed(strength: float, link: Link) -> float:
    """Over a mention, which nobody has said to matter, from a doubtful start only the square of its strength."""
    carried = strength if link.kind in ("own", "edge") else strength**2
    return carried * NEARNESS[link.kind] * link.weight * _damping(link.degree)


def _damping(degree: int) -> float:
    return 1 / (1 + math.log(max(degree, 1)))


def longest(names: Sequence[str]) -> list[str]:
    """Without names that are only a part of another one: `new york city`, not `york` too."""
    padded = [f" {name} " for name in names]
    return [name for name in names if not any(f" {name} " in other and f" {name} " != other for other in padded)]


def seeds(texts: Fusion, named: Mapping[int, float]) -> dict[int, float]:
    """Where a walk starts, each item with its strength in 0..1: what the query names, and the ten best by text.

    A good hit is not yet what the question is about, one with half of the best one's score counts a quarter of it, and
    a poor one starts nothing.
    """
    best = [hit for hit in texts.top(EXPAND_SEEDS) if hit.score > 0]
    found = {hit.id: BEST_HIT * (hit.score / best[0].score) ** 2 for hit in best}
    strengths = {item: strength for item, strength in found.items() if strength >= LEAST_START}
    for item, strength in named.items():
        strengths[item] = max(strengths.get(item, 0.0), strength)
    return strengths
