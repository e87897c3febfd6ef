"""Ranked lists become one: by reciprocal ranks (`rrf`) or by min-max scaled scores (`weighted`).

In a list, equal scores share the best rank of their group, in `rrf` and in explanations: an id says nothing of an item,
and decides the order of the output only.

A score is the sum of its contributions, exactly: every contribution is rounded to one grid of binary
fractions, on which floats add without rounding. So neither the order of the lists nor that of the sum matters,
and equal evidence gives equal scores (ties are then broken by id).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from fourfold import native
from fourfold.model import RETRIEVERS, Contribution, Hit, Hits
from fourfold.search.order import in_order, ranks

if TYPE_CHECKING:
    from fourfold.model import Floats, Ints

_PLACE: Final = {name: place for place, name in enumerate(RETRIEVERS)}
FEW_TIES: Final = 10
"""A list of up to this many equal scores still picks its items out; a longer one says nothing (C1)."""
NO_HITS: Final = Hits(np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class Part:
    """What one list gives to a fusion."""

    source: str
    weight: float
    listed: int
    """How many hits the retriever has listed."""
    raw: Hits
    """Those, in its order, then its scores of others that it has something to say of; NaN where it has no score."""
    values: Floats
    """What is added to the score of each of those."""

    @cached_property
    def ranks(self) -> Ints:
        return ranks(self.raw.scores[: self.listed])

    def contributions(self, ids: Ints) -> list[Contribution | None]:
        """One for each id that this list has something to say of."""
        places = native.places(self.raw.ids, ids)
        told = zip(places.tolist(), self.values[places].tolist(), self.raw.scores[places].tolist(), strict=True)
        return [self._line(place, value, raw) if place >= 0 else None for place, value, raw in told]

    def _line(self, place: int, value: float, raw: float) -> Contribution:
        rank, known = int(self.ranks[place]) if place < self.listed else None, None if math.isnan(raw) else raw
        return Contribution(self.source, rank, known, value / self.weight, self.weight, value)


@dataclass(frozen=True)
class Fusion:
    """One ranking. Hits and contributions are made when they are asked for: most candidates never are."""

    hits: Hits
    """Best first, ties by id."""
    weights: Mapping[str, float]
    """As applied, for all four retrievers."""
    parts: tuple[Part, ...] = ()

    @cached_property
    def ids(self) -> list[int]:
        return self.hits.ids.tolist()

    @cached_property
    def scores(self) -> Mapping[int, float]:
        return self.hits.by_id()

    @property
    def ranked(self) -> list[Hit]:
        return list(self.hits)

    def top(self, n: int) -> list[Hit]:
        return list(self.hits[:n])

    def contributions(self, id: int) -> tuple[Contribution, ...]:
        """The lines whose values sum to the score of this id; none for an id that is not in the ranking."""
        return self.lines(np.array([id], np.int64))[0]

    def lines(self, ids: Ints) -> list[tuple[Contribution, ...]]:
        """The same for several ids."""
        told = [part.contributions(ids) for part in self.parts if len(part.raw)] or [[None] * len(ids)]
        return [tuple(line for line in lines if line is not None) for lines in zip(*told, strict=True)]


def rrf(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float], k: int = 60) -> Fusion:
    """S1.3, C1: the sum over lists of weight / (k + rank), with ranks from 1; equal scores share a rank.

    A long list of equal scores beside others adds nothing: it does not tell which of its items are meant.
    """
    grid = grid_for(math.fsum(weights.values()) / (k + 1))
    acting = _acting(lists, weights)
    silent = {name for name, hits in acting if _tells_nothing(hits)} if len(acting) > 1 else set[str]()
    if len(silent) == len(acting):
        silent.clear()
    parts = [_rrf_part(name, hits, weights[name], k, grid, silent=name in silent) for name, hits in acting]
    return fuse(parts, weights)


def weighted(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float]) -> Fusion:
    """S3.3: the weighted sum of scores that are min-max scaled over what each list returned; absent is 0."""
    grid = grid_for(math.fsum(weights.values()))
    parts = [_weighted_part(name, hits, weights[name], grid) for name, hits in _acting(lists, weights)]
    return fuse(parts, weights)


def fuse(parts: Sequence[Part], weights: Mapping[str, float]) -> Fusion:
    """Adds the values of the parts, which lie on one grid."""
    applied = {**dict.fromkeys(RETRIEVERS, 0.0), **weights}
    if not parts:
        return Fusion(NO_HITS, applied)
    ids, values = (part.raw.ids for part in parts), (part.values for part in parts)
    totals = Hits(*native.sums(np.concatenate([*ids]), np.concatenate([*values])))
    return Fusion(in_order(totals), applied, tuple(parts))


def columns(hits: Sequence[Hit]) -> Hits:
    """Each id once: of one that stands twice, its first and best place counts, and it takes no second one."""
    if isinstance(hits, Hits):
        return hits
    first = {hit.id: hit.score for hit in reversed(hits)}
    ids = list(dict.fromkeys(hit.id for hit in hits))
    return Hits(np.array(ids, np.int64), np.array([first[id] for id in ids], np.float64))


def scores_of(hits: Hits, ids: Ints) -> list[float | None]:
    """The scores of a few ids, where they have one."""
    if not hits:
        return [None] * len(ids)
    places = native.places(hits.ids, ids)
    told = zip(places.tolist(), hits.scores[places].tolist(), strict=True)
    return [score if place >= 0 else None for place, score in told]


def others(own: Ints, lists: Sequence[Ints]) -> list[int]:
    """The ids of the lists that are not among its own, in order."""
    return np.sort(native.distinct(np.concatenate([own, *lists]))[len(own) :]).tolist()


def grid_for(largest: float) -> float:
    """A power of two above the largest total: (x + grid) - grid is x on the grid."""
    return math.ldexp(1.0, math.frexp(largest)[1])


def _acting(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float]) -> list[tuple[str, Hits]]:
    """The lists that have hits and a weight, in an order that does not depend on the caller."""
    acting = [(name, columns(hits)) for name, hits in lists.items() if hits and weights.get(name, 0.0) > 0]
    return sorted(acting, key=lambda named: (_PLACE.get(named[0], len(_PLACE)), named[0]))


def _tells_nothing(hits: Hits) -> bool:
    return len(hits) > FEW_TIES and bool((hits.scores == hits.scores[0]).all())


def _rrf_part(name: str, hits: Hits, weight: float, k: int, grid: float, *, silent: bool) -> Part:
    values = np.zeros(len(hits)) if silent else weight / (k + ranks(hits.scores))
    return Part(name, weight, len(hits), hits, (values + grid) - grid)


def _weighted_part(name: str, hits: Hits, weight: float, grid: float) -> Part:
    low, span = hits.scores.min(), np.ptp(hits.scores)
    scaled = (hits.scores - low) / span if span else np.ones(len(hits))
    return Part(name, weight, len(hits), hits, (weight * scaled + grid) - grid)
