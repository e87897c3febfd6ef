"""Fusion of ranked lists into one: by reciprocal ranks (`rrf`), by min-max scaled scores (`weighted`), or `auto`.

Every ranking is sorted best first, ties by id. Within a list, equal scores share the best rank of their group, in `rrf`
and in explanations: ids only decide the order of the output.

A score is exactly the sum of its contributions: each contribution is rounded to one grid of binary fractions, on which
floats add without rounding. So the order of the lists does not matter, and equal evidence gives equal scores.

`auto` scales the scores of all retrievers for all candidates, with weights chosen per query. Four numbers in 0..1 set
the balance between vectors and words. Nearness: the position of the best cosine between the store's average and 1.
Unknown: the share of the query's words, weighted by rarity, that occur in no item. Coverage: the share that occurs in
one item. Fall: how far the 50th BM25 score lies below the best (in a small store an earlier one). The odds of vectors
against words are

    e^(4 x nearness + unknown - coverage - fall - 0.5)

A near vector and unknown words favour vectors; words that occur together in one item, and in few others, favour words.
For a query in prose over source code, 2 x the share of the store that is code is added to the exponent. Words cannot
find items in another language, but vectors can: 2 x the share of such items x (1 - unknown) is added.
docs/ranking.md computes an example by hand; docs/benchmarks.md has the gain and notes/quality-tried.md the
alternatives.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fourfold.frozen import value
from fourfold.native import bindings, rankings
from fourfold.native.rankings import FusionList
from fourfold.ranking.plan import scaled_to_one
from fourfold.ranking.retrievers import EXPANSIONS, LIST_SCALES, LIST_SHARES, RETRIEVERS
from fourfold.retrieval import Background, Contribution, Hit, Hits, Ranking, Tuning

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
    numbers = np.arange(1, len(scores) + 1)
    numbers[1:][scores[1:] == scores[:-1]] = 1
    return np.maximum.accumulate(numbers)


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
        places = [bindings.places(part.raw.ids, ids) for part in parts]
        columns = [part.contributions(indexes) for part, indexes in zip(parts, places, strict=True)] or [
            [None] * len(ids)
        ]
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
    distinct, totals = bindings.sums(np.concatenate(ids), np.concatenate(values))
    order = bindings.order(distinct, totals)
    return Fusion(Hits(distinct[order], totals[order]), applied, lambda: parts)


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


# ---------------------------------------------------------------- reranking
#
# A model that reads query and text together orders the best candidates. Its list is one more part of the score, so it
# moves candidates and never replaces the ranking. The candidate at its rank r gets
#
#     RERANK_SHARE x the best fused score / r
#
# Ranks instead of scores: models score on different scales, and one model's scale differs from query to query.
# docs/benchmarks.md has the gain.

RERANK: Final = "rerank"
"""The source of the model's part of a score, and its name in `degraded`, notes and timings."""
RERANK_SHARE: Final = 0.3
"""The most that the model adds to a score, as a share of the best fused score."""
FEWEST_RERANKED: Final = 2
"""With fewer scored candidates there is nothing to order."""


def with_rerank(fusion: Fusion, scores: Mapping[int, float]) -> Fusion:
    """Add the part of a model that gave these items these scores.

    The other parts are rounded to a coarser grid, on which the larger sums, also with the bonus of a file name, are
    exact.
    """
    highest = max(fusion.scores.values(), default=0.0)
    if len(scores) < FEWEST_RERANKED or highest <= 0:
        return fusion
    raw = ranked(scores, len(scores))
    weight, grid = RERANK_SHARE * highest, grid_for(2 * highest)
    parts = [part._replace(values=(part.values + grid) - grid) for part in fusion.parts]
    values = (weight / ranks(raw.scores) + grid) - grid
    return fuse([*parts, Part(RERANK, weight, len(raw), raw, values)], fusion.weights)


# ---------------------------------------------------------------- relations
#
# A stored relation leads away from what a query names. It answers a query that asks for it: the item at its other end
# gets more than every other one. It does not answer any other query: the item stays below the best one by text.

TEXTS: Final = ("semantic", "keyword")
RELATION: Final = "relation"
"""The source of what is added to items that a query asks for by a relation."""
ANSWER_SHARE: Final = 1.01
"""What the best of these gets, as a share of the best score: enough to come first without any other evidence."""


def with_answers(fusion: Fusion, answers: Mapping[int, float]) -> Fusion:
    """Add ANSWER_SHARE of the best score, times their share, to the scores of items that a query asks for."""
    highest = max(fusion.scores.values(), default=0.0) if answers else 0.0
    if highest <= 0:
        return fusion
    raw, weight = ranked(answers, len(answers)), ANSWER_SHARE * highest
    grid = grid_for(highest + weight)
    parts = [part._replace(values=(part.values + grid) - grid) for part in fusion.parts]
    values = (weight * raw.scores + grid) - grid
    return fuse([*parts, Part(RELATION, weight, len(raw), raw, values)], fusion.weights)


HELD_SHARES: Final[Mapping[str, float]] = {"auto": 0.85, "weighted": 0.85, "rrf": 0.98}
"""How high an item that is held back may come, as a share of the best one by text: the age of that one, as presets
weigh it, must not let it pass again."""
NAMED_COVERAGE: Final = 0.6
"""What the query names may pass the best item by text if it covers this share of what that one covers of the query."""


def _best_by_text(parts: Sequence[Part]) -> int | None:
    """The item with the highest sum of vectors and words; None if neither lists anything."""
    texts = [part for part in parts if part.source in TEXTS]
    if not texts:
        return None
    ids, sums = bindings.sums(
        np.concatenate([part.raw.ids for part in texts]), np.concatenate([part.values for part in texts])
    )
    return int(ids[sums == sums.max()].min())


def held_back(
    fusion: Fusion,
    linked: Collection[int],
    named: Collection[int] = (),
    coverage: Mapping[int, float] = MappingProxyType({}),
    share: float = HELD_SHARES["auto"],
) -> Fusion:
    """Let nothing pass the best item by text because of its links, by reducing what they add.

    What the walk and shared tags add lifts an item up to the best one by text. Two kinds stay below `share` of that:
    items that only links lead to, and items that a name in the query belongs to, but which contain little else of it:
    a note about Anna does not answer when Anna bought the tickets. `coverage`: the share of the query's words that an
    item contains.
    """
    expanded = any(part.source in LIFTING for part in fusion.parts)
    best = _best_by_text(fusion.parts) if linked or named or expanded else None
    if best is None or best in linked or (best == fusion.hits.ids[0] and not (linked or named)):
        return fusion
    least = NAMED_COVERAGE * coverage.get(best, 0.0)
    held = {*linked, *(item for item in named if coverage.get(item, 0.0) < least)} - {best}
    highest = float(fusion.hits.scores[fusion.hits.ids == best][0])
    count = int(np.count_nonzero(fusion.hits.scores > share * highest))
    above = [
        (item, score, (share if item in held else 1.0) * highest)
        for item, score in zip(fusion.hits.ids[:count].tolist(), fusion.hits.scores[:count].tolist(), strict=True)
        if item in held or (expanded and score > highest)
    ]
    if not above:
        return fusion
    wanted = np.array([item for item, _, _ in above], np.int64)
    is_held = np.array([item in held for item, _, _ in above])
    grid = grid_for(above[0][1])
    step = math.ulp(grid)
    excess = np.array([(score - most + grid) - grid + step * place for place, (_, score, most) in enumerate(above, 1)])
    parts: list[Part] = []
    for part in reversed(fusion.parts):
        if part.source in (GRAPH, *LIFTING) and len(part.raw):
            places, values = bindings.places(part.raw.ids, wanted), part.values.copy()
            listed = (places >= 0) & is_held if part.source == GRAPH else places >= 0
            taken = np.where(listed, np.minimum(excess, values[places]), 0.0)
            values[places[listed]] -= taken[listed]
            excess -= taken
            part = part._replace(values=values)
        parts.append(part)
    return fuse(parts[::-1], fusion.weights)


# ---------------------------------------------------------------- auto

FALL_RANKS: Final = (10, 50)
ITEMS_PER_FALL_RANK: Final = 25
"""The fall is measured at rank items / 25, limited to `FALL_RANKS`."""
UNKNOWN_COVERAGE: Final = 0.5
"""Coverage assumed if the store does not report it."""
LEAST_SPREAD: Final = 1e-9
TEXT_FALLBACK: Final[Mapping[str, float]] = {"semantic": 0.6, "keyword": 0.4}
"""Weights if the store's average cosine is unknown: the best fixed pair over 12 collections."""
BELOW_AVERAGE: Final = 0.05
"""Part of the scale reserved for cosines below the store's average, so that these keep their order."""
UNKNOWN_AVERAGE: Final = -2.0
GRAPH: Final = "graph"
WALK, SHARED = "walk", "shared"
LIFTING: Final = (WALK, SHARED)
"""Lists of what is connected with the best hits. They say what else belongs to an answer, not what the answer is."""


class TextEvidence(NamedTuple):
    """What a query says about the balance between vectors and words; each number is in 0..1."""

    nearness: float
    unknown: float
    coverage: float
    fall: float
    code: float
    """Share of the store that is source code, times the share of the query that is prose."""
    foreign: float
    """Share of the items in another language than the query, times the share of the query's words that are known."""


class TextOdds(NamedTuple):
    """Coefficients of the evidence in the log odds of vectors against words."""

    nearness: float = 4.0
    unknown: float = 1.0
    coverage: float = -1.0
    fall: float = -1.0
    code: float = 2.0
    foreign: float = 2.0
    prior: float = -0.5
    """In favour of words, the safer retriever where it finds anything."""

    def log_odds(self, evidence: TextEvidence) -> float:
        """x so hits of either retriever keep a score."""
        return self.prior + sum(map(operator.mul, self, evidence))


TEXT_ODDS: Final = TextOdds()


class AutoInputs(NamedTuple):
    lists: Mapping[str, Sequence[Hit]]
    """By retriever, plus `walk` and `shared` (`EXPANSIONS`); each best first."""
    unlisted: Mapping[str, Sequence[Hit]] = MappingProxyType({})
    """Semantic and keyword scores of items that only other retrievers listed."""
    average: Background | None = None
    """Of the store's cosines; None if unknown."""
    weights: Mapping[str, float] | None = None
    """Weights of the caller or the preset; None: chosen from the evidence of this query."""
    coverage: float | None = None
    """The highest share of the query's words, weighted by rarity, that occur in one item; None if unknown."""
    unknown: float = 0.0
    """Share of the query's words, weighted by rarity, that occur in no item."""
    items: int = 0
    """Number of items in the store; 0 if unknown."""
    tagged: float = 1.0
    """Share of the query's words that the tags of one item cover."""
    fixed: Mapping[str, float] | None = None
    """Weights applied unchanged, whatever their sum; chosen weights are scaled to the semantic one."""
    code: float = 0.0
    """Share of the store that is source code, times the share of the query that is prose."""
    foreign: float = 0.0
    """Share of the items that are in another language than the query, but have vectors that can be compared with it."""
    tuning: Tuning | None = None


_SUM_TOLERANCE: Final = 1e-6


def tuned_shares(shares: Mapping[str, float], tuning: Tuning) -> dict[str, float]:
    """Return the shares of the lists, changed by a tuning."""
    changed = dict(shares)
    for name, factor in (("graph", tuning.graph), ("tags", tuning.tags)):
        for part in (name, EXPANSIONS.get(name, name)):
            if part in changed:
                changed[part] *= factor
    semantic, keyword = shares.get("semantic", 0.0), shares.get("keyword", 0.0)
    if semantic > 0 and keyword > 0 and abs(semantic + keyword - 1) < _SUM_TOLERANCE:  # else one of them has no list
        changed["semantic"] = 1 / (1 + keyword / semantic * math.exp(-tuning.balance))
        changed["keyword"] = 1 - changed["semantic"]
    return changed


def fuse_auto(inputs: AutoInputs) -> Fusion:
    """Fuse the lists, with weights scaled to sum 1 over those that have hits.

    The weight reported for a retriever is the sum over both of its lists.
    """
    lists = {name: hits for name, hits in _as_columns(inputs.lists).items() if len(hits.ids)}
    unlisted = _as_columns(inputs.unlisted)
    weights = auto_weights(inputs, lists, unlisted)
    reported = {**(inputs.fixed or {}), **_reported(weights)}
    return fuse_scaled(lists, unlisted, weights, inputs.average, reported)


def _as_columns(lists: Mapping[str, Sequence[Hit]]) -> dict[str, Hits]:
    return {name: hits if isinstance(hits, Hits) else columns(hits) for name, hits in lists.items()}


def auto_weights(inputs: AutoInputs, lists: Mapping[str, Hits], unlisted: Mapping[str, Hits]) -> dict[str, float]:
    """Return the weights of the lists, all of which have hits."""
    if inputs.weights is not None:
        shares = _given(inputs.weights, lists)
    else:
        shares = {**LIST_SHARES, **_text_shares(inputs, lists, unlisted)}
        shares["tags"] *= inputs.tagged**2  # a tag that is one word of many is weak evidence
        if inputs.tuning is not None:
            shares = tuned_shares(shares, inputs.tuning)
    acting = [name for name in LIST_SHARES if name in lists]
    return _beside(inputs.fixed, shares, acting) if inputs.fixed else scaled_to_one(shares, acting)


def fuse_scaled(
    lists: Mapping[str, Hits],
    unlisted: Mapping[str, Hits],
    weights: Mapping[str, float],
    average: Background | None,
    reported: Mapping[str, float],
) -> Fusion:
    """Scale the scores of each list, weigh them and add them up, in the kernel.

    Cosines are scaled from the store's average to the query's best, and lower ones share the bottom of the scale; if no
    cosine is above the average (a narrow filter), the worst one replaces it. Graph scores are used as they are, at most
    1: a distant relation stays weak even if it is the best one. Other scores are shares of the best.
    """
    if not weights:
        return fuse((), reported)
    applied = with_all_retrievers(reported)
    weighed = [FusionList(lists[name], unlisted.get(name), LIST_SCALES[name], each) for name, each in weights.items()]
    fused = rankings.fuse(weighed, mean_of(average), BELOW_AVERAGE, grid_of(weights))

    def parts() -> list[Part]:
        return [Part(*named, *made) for named, made in zip(weights.items(), fused.parts(), strict=True)]

    return Fusion(fused.hits, applied, parts)


def mean_of(average: Background | None) -> float:
    return UNKNOWN_AVERAGE if average is None else average.mean


def _beside(fixed: Mapping[str, float], shares: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Join fixed and chosen weights, scaling the chosen ones by the fixed semantic weight if there is one."""
    scale = fixed["semantic"] / shares["semantic"] if "semantic" in fixed else 1.0
    weights = {name: fixed.get(name, shares[name] * scale) for name in names}
    return {name: weight for name, weight in weights.items() if weight > 0}


def _given(weights: Mapping[str, float], lists: Mapping[str, Sequence[Hit]]) -> dict[str, float]:
    """The caller's weights; a retriever's weight is halved between its list and its expansion if both have hits."""
    halved = dict(weights)
    for name, expansion in EXPANSIONS.items():
        if RETRIEVERS[name].expands_weighted:
            parts = 2 if name in lists and expansion in lists else 1
            halved[name] = halved[expansion] = weights.get(name, 0.0) / parts
    return halved


def _reported(weights: Mapping[str, float]) -> dict[str, float]:
    """The weights by retriever: that of its list and that of its expansion together."""
    by_retriever = {name: weight for name, weight in weights.items() if name in RETRIEVERS}
    for name, expansion in EXPANSIONS.items():
        if expansion in weights:
            by_retriever[name] = by_retriever.get(name, 0.0) + weights[expansion]
    return by_retriever


# ---------------------------------------------------------------- weights


def _text_shares(inputs: AutoInputs, lists: Mapping[str, Hits], unlisted: Mapping[str, Hits]) -> Mapping[str, float]:
    """Weights of semantic and keyword, which sum to 1."""
    if not ("semantic" in lists and "keyword" in lists):
        return {"semantic": 1.0, "keyword": 1.0}
    evidence = text_evidence(inputs, lists["keyword"], (lists["semantic"], unlisted.get("semantic", NO_HITS)))
    if evidence is None:
        return TEXT_FALLBACK
    share = 1 / (1 + math.exp(-TEXT_ODDS.log_odds(evidence)))
    return {"semantic": share, "keyword": 1 - share}


def text_evidence(inputs: AutoInputs, words: Hits, cosines: tuple[Hits, Hits]) -> TextEvidence | None:
    """Return the evidence of one query, None if the store's average cosine is unknown.

    `words`: the hits of keyword search. `cosines`: those of vector search, listed and unlisted.
    """
    if inputs.average is None:
        return None
    return TextEvidence(
        nearness=_nearness(cosines, inputs.average),
        unknown=inputs.unknown,
        coverage=UNKNOWN_COVERAGE if inputs.coverage is None else min(1.0, inputs.coverage),
        fall=_fall(words, inputs.items),
        code=inputs.code,
        foreign=inputs.foreign * (1 - inputs.unknown),
    )


def _nearness(cosines: tuple[Hits, Hits], background: Background) -> float:
    """Position of the best cosine between the store's average (0) and 1, the query itself (1)."""
    listed, unlisted = cosines
    best = float(listed.scores[0])
    if len(unlisted.ids):  # an approximate index may have missed the best one
        best = max(best, float(unlisted.scores.max()))
    return min(1.0, max(0.0, (best - background.mean) / max(1 - background.mean, LEAST_SPREAD)))


def _fall(words: Hits, items: int) -> float:
    """Relative drop from the best score to that of a lower rank; 1 if the list is shorter than that rank."""
    least, most = FALL_RANKS
    rank = min(most, max(least, items // ITEMS_PER_FALL_RANK)) if items else most
    scores = words.scores
    best = float(scores[0])
    return 1.0 - (float(scores[rank - 1]) / best if len(scores) >= rank and best > 0 else 0.0)


# ---------------------------------------------------------------- expansion
#
# What links and tags find from the best hits of vectors and words, before all lists are fused:
#
# 1. The lists of vectors and words are fused, with the weights that `auto` gives them.
# 2. The best hits and what the query names are starts (`connections.walk_starts`).
# 3. Links lead from the starts to items (`walk`), and so do tags (`shared`).
# 4. Vectors and words score the items that are in other lists only (`unlisted`).
#
# A store with columns of links and tags does all of it in one call of the kernel; tests compare both ways.

MOST_NAMED: Final = 200
"""Items that the query names, up to which the kernel expands: it compares all of them with each other."""


@value
class Expansion:
    texts: Mapping[str, Hits]
    """The lists of vectors and words that answered."""
    weights: Mapping[str, float]
    """The weights of the lists that have hits and count."""
    average: float
    """Cosine of the store (`mean_of`)."""
    grid: float
    """Of the scores of the fused texts (`grid_of`)."""
    named: Mapping[int, float]
    """Items that the query names, with strengths in 0..1."""
    mentions: float
    """Factor of the mentions of starts (`connections.mention_factor`)."""
    others: Sequence[Ints]
    """Ids in the lists of other retrievers."""
    wanted: frozenset[str]
    """`walk`, `shared` or both."""
    limit: int
    """Of each list that is made."""


@value
class Expanded:
    lists: Mapping[str, Hits]
    """Those that were wanted; none if there is nothing to start from."""
    unlisted: Mapping[str, Ints]
    """For vectors and words, the ids that are in other lists only, unless they were scored."""
    scores: Mapping[str, Ranking]
    """For vectors and words, the scores of these ids."""


def plan_expansion(
    inputs: AutoInputs,
    texts: Mapping[str, Hits],
    named: Mapping[int, float],
    mentions: float,
    others: Sequence[Ints],
    wanted: frozenset[str],
    limit: int,
) -> Expansion:
    weights = auto_weights(inputs, {name: hits for name, hits in texts.items() if len(hits.ids)}, {})
    average, grid = mean_of(inputs.average), grid_of(weights)
    return Expansion(texts, weights, average, grid, named, mentions, others, wanted, limit)
