"""Ranked lists become one: by reciprocal ranks (`rrf`) or by min-max scaled scores (`weighted`).

A score is the sum of its contributions, exactly: every contribution is rounded to one grid of binary
fractions, on which floats add without rounding. So neither the order of the lists nor that of the sum matters,
and equal evidence gives equal scores (ties are then broken by id).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from operator import itemgetter
from typing import Final

from fourfold.model import RETRIEVERS, Contribution, Hit

_ID: Final = itemgetter(0)
_PLACE: Final = {name: place for place, name in enumerate(RETRIEVERS)}


@dataclass(frozen=True)
class Part:
    """What one list gives to a fusion."""

    source: str
    weight: float
    hits: Sequence[Hit]
    values: Mapping[int, float]
    """What is added to the score of each id."""
    true_scores: Mapping[int, float] | None = None
    """The retriever's scores beyond its list, where they are known."""

    @cached_property
    def ranks(self) -> Mapping[int, int]:
        return dict(zip(map(_ID, self.hits), count(1), strict=False))

    @cached_property
    def raw(self) -> Mapping[int, float]:
        return scores_of(self.hits) if self.true_scores is None else self.true_scores

    def contribution(self, id: int) -> Contribution:
        value = self.values[id]
        return Contribution(self.source, self.ranks.get(id), self.raw.get(id), value / self.weight, self.weight, value)


@dataclass(frozen=True)
class Fusion:
    """One ranking. Hits and contributions are made when they are asked for: most candidates never are."""

    ids: Sequence[int]
    """Best first, ties by id."""
    scores: Mapping[int, float]
    weights: Mapping[str, float]
    """As applied, for all four retrievers."""
    parts: tuple[Part, ...] = ()

    @cached_property
    def ranked(self) -> list[Hit]:
        return self.top(len(self.ids))

    def top(self, n: int) -> list[Hit]:
        return [Hit(id, self.scores[id]) for id in self.ids[:n]]

    def contributions(self, id: int) -> tuple[Contribution, ...]:
        """The lines whose values sum to the score of this id; none for an id that is not in the ranking."""
        return tuple(part.contribution(id) for part in self.parts if id in part.values)


def rrf(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float], k: int = 60) -> Fusion:
    """S1.3: the sum over lists of weight / (k + rank), with ranks from 1."""
    grid = grid_for(math.fsum(weights.values()) / (k + 1))
    parts = [_rrf_part(name, hits, weights[name], k, grid) for name, hits in _acting(lists, weights)]
    return fuse(parts, weights)


def weighted(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float]) -> Fusion:
    """S3.3: the weighted sum of scores that are min-max scaled over what each list returned; absent is 0."""
    grid = grid_for(math.fsum(weights.values()))
    parts = [_weighted_part(name, hits, weights[name], grid) for name, hits in _acting(lists, weights)]
    return fuse(parts, weights)


def fuse(parts: Sequence[Part], weights: Mapping[str, float]) -> Fusion:
    """Adds the values of the parts, which lie on one grid."""
    totals = dict(parts[0].values) if parts else {}
    get = totals.get
    for part in parts[1:]:
        for id, value in part.values.items():
            totals[id] = get(id, 0.0) + value
    return Fusion(in_order(totals), totals, {**dict.fromkeys(RETRIEVERS, 0.0), **weights}, tuple(parts))


def in_order(scores: Mapping[int, float]) -> list[int]:
    """Ids, best first, ties by id."""
    ids = sorted(scores)
    ids.sort(key=scores.__getitem__, reverse=True)
    return ids


def unique(hits: Sequence[Hit]) -> Sequence[Hit]:
    """Each id once: of one that stands twice, its first and best place counts, and it takes no second one."""
    if len(set(map(_ID, hits))) == len(hits):
        return hits
    first = {hit.id: hit for hit in reversed(hits)}
    return [first[id] for id in dict.fromkeys(map(_ID, hits))]


def scores_of(hits: Iterable[Hit]) -> dict[int, float]:
    return {hit.id: hit.score for hit in hits}


def grid_for(largest: float) -> float:
    """A power of two above the largest total: (x + grid) - grid is x on the grid."""
    return math.ldexp(1.0, math.frexp(largest)[1])


def _acting(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float]) -> list[tuple[str, Sequence[Hit]]]:
    """The lists that have hits and a weight, in an order that does not depend on the caller."""
    acting = [(name, unique(hits)) for name, hits in lists.items() if hits and weights.get(name, 0.0) > 0]
    return sorted(acting, key=lambda named: (_PLACE.get(named[0], len(_PLACE)), named[0]))


def _rrf_part(name: str, hits: Sequence[Hit], weight: float, k: int, grid: float) -> Part:
    return Part(name, weight, hits, dict(zip(map(_ID, hits), _by_rank(weight, k, grid, len(hits)), strict=True)))


@lru_cache(maxsize=64)
def _by_rank(weight: float, k: int, grid: float, length: int) -> tuple[float, ...]:
    return tuple((weight / (k + rank) + grid) - grid for rank in range(1, length + 1))


def _weighted_part(name: str, hits: Sequence[Hit], weight: float, grid: float) -> Part:
    raw = scores_of(hits)
    low, high = min(raw.values()), max(raw.values())
    if high == low:
        return Part(name, weight, hits, dict.fromkeys(raw, (weight + grid) - grid), raw)
    span = high - low
    values = {id: (weight * ((score - low) / span) + grid) - grid for id, score in raw.items()}
    return Part(name, weight, hits, values, raw)
