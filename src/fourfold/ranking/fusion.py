"""Fusion of ranked lists into one, by reciprocal ranks (`rrf`) or by min-max scaled scores (`weighted`).

Every ranking is sorted best first, ties by id. Within a list, equal scores share the best rank of their group, in `rrf`
and in explanations: ids only decide the order of the output.

A score is exactly the sum of its contributions: each contribution is rounded to one grid of binary fractions, on which
floats add without rounding. So the order of the lists does not matter, and equal evidence gives equal scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fourfold import native
from fourfold.frozen import value
from fourfold.native.fusion import values_of
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Contribution, Hit, Hits, Numbers

if TYPE_CHECKING:
    from fourfold.retrieval import Floats, Ints

FEW_TIES: Final = 10
"""Maximum length of a list of equal scores that still counts as evidence in `rrf`."""
_DECIMALS: Final = 9
"""Decimals kept in scores that are sums, so that the order of addition does not change the order of the results."""
NO_HITS: Final = Hits(np.empty(0, np.int64), np.empty(0))


def in_order(hits: Hits) -> Hits:
    places = np.lexsort((hits.ids, -hits.scores))
    return Hits(hits.ids[places], hits.scores[places])


def ranks(scores: Floats) -> Ints:
    """Return the ranks, from 1, of sorted scores; equal neighbours share the best rank of their group."""
    found = np.arange(1, len(scores) + 1)
    found[1:][scores[1:] == scores[:-1]] = 1
    return np.maximum.accumulate(found)


def ranked(scores: Mapping[int, float], limit: int) -> Hits:
    """Round the scores, and return the best `limit` of them."""
    ids = np.fromiter(scores, np.int64, len(scores))
    values = np.round(np.fromiter(scores.values(), np.float64, len(scores)), _DECIMALS)
    best = np.lexsort((ids, -values))[:limit]
    return Hits(ids[best], values[best])


def with_factors(ranked: Hits, factors: Mapping[int, float]) -> Hits:
    """Multiply each score by its factor (default 1) and sort again."""
    return in_order(Hits(ranked.ids, ranked.scores * [factors.get(id, 1.0) for id in ranked.ids.tolist()]))


class Part(NamedTuple):
    """Contribution of one list to a fusion."""

    source: str
    weight: float
    listed: int
    """Number of hits that the retriever listed."""
    raw: Hits
    """The listed hits in their order, then scores of unlisted items; NaN for items without a score."""
    values: Floats
    """Amount added to the fused score of each hit in `raw`."""

    def contributions(self, places: Ints) -> list[Contribution | None]:
        """Return the contributions of the hits at these places, None for a place below 0."""
        positions: list[int] = places.tolist()
        listed: list[int] = ranks(self.raw.scores[: self.listed]).tolist()
        columns = zip(positions, self.values[places].tolist(), self.raw.scores[places].tolist(), strict=True)
        return [
            Contribution(
                self.source,
                listed[place] if place < self.listed else None,
                None if math.isnan(raw) else raw,
                value / self.weight,
                self.weight,
                value,
            )
            if place >= 0
            else None
            for place, value, raw in columns
        ]


@value
class Fusion:
    """A fused ranking. Contributions are computed on request, for the few items that are shown."""

    hits: Hits
    """Best first, ties by id."""
    weights: Mapping[str, float]
    """Weights as applied, for every retriever."""
    make_parts: Callable[[], Sequence[Part]] = tuple

    @cached_property
    def parts(self) -> Sequence[Part]:
        """What each list contributes; most callers do not ask."""
        return self.make_parts()

    @cached_property
    def ids(self) -> list[int]:
        return self.hits.ids.tolist()

    @cached_property
    def scores(self) -> Mapping[int, float]:
        return self.hits.by_id()

    @property
    def ranked(self) -> list[Hit]:
        return list(self.hits)

    def listed(self, source: str) -> frozenset[int]:
        """Return the ids that a retriever listed, as far as they count."""
        parts = (part.raw.ids[: part.listed].tolist() for part in self.parts if part.source == source)
        return frozenset(next(parts, ()))

    def contributions(self, id: int) -> tuple[Contribution, ...]:
        """Return the contributions that sum to the score of `id`; empty if it is not in the ranking."""
        return self.lines(np.array([id], np.int64))[0]

    def lines(self, ids: Ints) -> list[tuple[Contribution, ...]]:
        """Return the contributions to each of several ids."""
        parts = [part for part in self.parts if len(part.values)]
        places = [native.places(part.raw.ids, ids) for part in parts]
        columns = [part.contributions(found) for part, found in zip(parts, places, strict=True)] or [[None] * len(ids)]
        return [tuple(line for line in lines if line is not None) for lines in zip(*columns, strict=True)]


def rrf(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float], k: int = 60) -> Fusion:
    """Sum weight / (k + rank) over the lists; ranks start at 1 and equal scores share a rank.

    A long list of equal scores adds nothing if another list has distinct ones, because it does not rank its items.
    """
    grid = grid_for(math.fsum(weights.values()) / (k + 1))
    acting = _acting(lists, weights)
    silent = {name for name, hits in acting if _is_all_ties(hits)} if len(acting) > 1 else set[str]()
    if len(silent) == len(acting):
        silent.clear()
    parts = [_rrf_part(name, hits, weights[name], k, grid, silent=name in silent) for name, hits in acting]
    return fuse(parts, weights)


def weighted(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float]) -> Fusion:
    """Sum the weighted scores, min-max scaled within each list; an item missing from a list gets 0 from it."""
    grid = grid_for(math.fsum(weights.values()))
    parts = [_weighted_part(name, hits, weights[name], grid) for name, hits in _acting(lists, weights)]
    return fuse(parts, weights)


def fuse(parts: Sequence[Part], weights: Mapping[str, float]) -> Fusion:
    """Add up the values of the parts, which must lie on one grid."""
    applied = with_all_retrievers(weights)
    if not parts:
        return Fusion(NO_HITS, applied)
    ids, values = [part.raw.ids for part in parts], [part.values for part in parts]
    found, totals = native.sums(np.concatenate(ids), np.concatenate(values))
    order = native.order(found, totals)
    return Fusion(Hits(found[order], totals[order]), applied, lambda: parts)


def with_all_retrievers(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights, with 0 for retrievers that have none."""
    return {**dict.fromkeys(RETRIEVERS, 0.0), **weights}


FILE_NAME: Final = "file name"
"""The source of the bonus for a file that the query names."""
FILE_NAME_PRESETS: Final = frozenset({"auto", "files"})


def with_file_names(fusion: Fusion, files: Mapping[str, Sequence[int]]) -> Fusion:
    """Give the best chunk of each named file a bonus that exceeds all other scores."""
    if not files:
        return fusion
    scores = fusion.scores
    best = np.array(sorted({max(ids, key=lambda id: scores.get(id, 0.0)) for ids in files.values()}), np.int64)
    highest = max(scores.values(), default=0.0)
    bonus = math.ldexp(1.0, math.frexp(highest)[1]) if highest > 0 else 1.0  # a power of two: sums stay exact
    unscored = Hits(best, np.full(len(best), np.nan))
    return fuse([*fusion.parts, Part(FILE_NAME, 1.0, 0, unscored, np.full(len(best), bonus))], fusion.weights)


def columns(hits: Sequence[Hit]) -> Hits:
    """Convert hits to columns; of an id that occurs twice, the first and best occurrence is kept."""
    if isinstance(hits, Hits):
        return hits
    first = {hit.id: hit.score for hit in reversed(hits)}
    ids = list(dict.fromkeys(hit.id for hit in hits))
    return Hits(np.array(ids, np.int64), np.array([first[id] for id in ids], np.float64))


def values_at(ids: Ints, *asked: tuple[Mapping[int, float], float | None]) -> list[list[float | None]]:
    """The numbers of a few ids in each of several mappings, with the default of each."""
    tables = [numbers.columns if isinstance(numbers, Numbers) else () for numbers, _ in asked]
    return [
        [default if math.isnan(number) else number for number in found]
        if isinstance(numbers, Numbers)
        else [numbers.get(item, default) for item in ids.tolist()]
        for (numbers, default), found in zip(asked, values_of(ids, tables), strict=True)
    ]


def scaled_to_one(weights: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """Return the weights of `names` scaled to sum 1; empty if all are zero."""
    kept = {name: weights[name] for name in names if weights.get(name, 0.0) > 0}
    total = math.fsum(kept.values())
    return {name: weight / total for name, weight in kept.items()}


def grid_of(weights: Mapping[str, float]) -> float:
    """Return the grid of scores that are at most the sum of the weights."""
    return grid_for(math.fsum(weights.values()))


def grid_for(largest: float) -> float:
    """Return a power of two above the largest total; (x + grid) - grid rounds x to the grid."""
    return math.ldexp(1.0, math.frexp(largest)[1])


def _acting(lists: Mapping[str, Sequence[Hit]], weights: Mapping[str, float]) -> list[tuple[str, Hits]]:
    """The lists that have hits and a weight, in an order that does not depend on the caller."""
    acting = [(name, columns(hits)) for name, hits in lists.items() if hits and weights.get(name, 0.0) > 0]
    place = {name: number for number, name in enumerate(RETRIEVERS)}
    return sorted(acting, key=lambda named: (place.get(named[0], len(place)), named[0]))


def _is_all_ties(hits: Hits) -> bool:
    return len(hits) > FEW_TIES and bool((hits.scores == hits.scores[0]).all())


def _rrf_part(name: str, hits: Hits, weight: float, k: int, grid: float, *, silent: bool) -> Part:
    values = np.zeros(len(hits)) if silent else weight / (k + ranks(hits.scores))
    return Part(name, weight, len(hits), hits, (values + grid) - grid)


def _weighted_part(name: str, hits: Hits, weight: float, grid: float) -> Part:
    low, span = hits.scores.min(), np.ptp(hits.scores)
    scaled = (hits.scores - low) / span if span else np.ones(len(hits))
    return Part(name, weight, len(hits), hits, (weight * scaled + grid) - grid)
