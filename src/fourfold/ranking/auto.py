"""`auto` fusion: the scores of all retrievers for all candidates, with weights chosen per query.

Four numbers in 0..1 set the balance between vectors and words. Nearness: the position of the best cosine between the
store's average and 1. Unknown: the share of the query's words, weighted by rarity, that occur in no item. Coverage:
the share that occurs in one item. Fall: how far the 50th BM25 score lies below the best (in a small store an earlier
one). The odds of vectors against words are

    e^(4 x nearness + unknown - coverage - fall - 1)

A near vector and unknown words favour vectors; words that occur together in one item, and in few others, favour words.
For a query in prose over source code, 2 x the share of the store that is code is added to the exponent. Words cannot
find items in another language, but vectors can: 2 x the share of such items x (1 - unknown) is added.
docs/ranking.md computes an example by hand; docs/quality-collections.md has the gain and docs/quality-tried.md the
alternatives.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from fourfold.native import fusion as native_fusion
from fourfold.native.fusion import FusionList
from fourfold.ranking.fusion import (
    NO_HITS,
    Fusion,
    Part,
    columns,
    fuse,
    grid_of,
    scaled_to_one,
    with_all_retrievers,
)
from fourfold.ranking.retrievers import EXPANSIONS, LIST_SCALES, LIST_SHARES, RETRIEVERS
from fourfold.ranking.tuning import tuned_shares
from fourfold.retrieval import Background, Hit, Hits, Numbers, Tuning

TEXTS: Final = ("semantic", "keyword")
FALL_RANKS: Final = (10, 50)
ITEMS_PER_FALL_RANK: Final = 25
"""The fall is measured at rank items / 25, limited to `FALL_RANKS`."""
UNKNOWN_COVERAGE: Final = 0.5
"""Coverage assumed if the store does not report it."""
LEAST_SPREAD: Final = 1e-9
TEXT_FALLBACK: Final[Mapping[str, float]] = {"semantic": 0.4, "keyword": 0.6}
"""Weights used if the store's average cosine is unknown: the best fixed pair over 12 collections."""
BELOW_AVERAGE: Final = 0.05
"""Part of the scale reserved for cosines below the store's average, so that these keep their order."""
UNKNOWN_AVERAGE: Final = -2.0
WALK: Final = "walk"


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
    prior: float = -1.0
    """In favour of words, the safer retriever where it finds anything."""

    def log_odds(self, evidence: TextEvidence) -> float:
        """Return the log odds; in -3..7, so hits of either retriever keep a score."""
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


def fuse_auto(inputs: AutoInputs) -> Fusion:
    """Fuse the lists, with weights scaled to sum 1 over those that have hits.

    The weight reported for a retriever is the sum over both of its lists.
    """
    lists = {name: hits for name, given in inputs.lists.items() if len((hits := columns(given)).ids)}
    unlisted = {name: columns(hits) for name, hits in inputs.unlisted.items()}
    weights = auto_weights(inputs, lists, unlisted)
    reported = {**(inputs.fixed or {}), **_reported(weights)}
    return fuse_scaled(lists, unlisted, weights, inputs.average, reported)


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
    given = [FusionList(lists[name], unlisted.get(name), LIST_SCALES[name], weight) for name, weight in weights.items()]
    found = native_fusion.fuse(given, mean_of(average), BELOW_AVERAGE, grid_of(weights))

    def parts() -> list[Part]:
        return [Part(*named, *made) for named, made in zip(weights.items(), found.parts(), strict=True)]

    return Fusion(found.hits, with_all_retrievers(reported), parts)


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
    known = {name: weight for name, weight in weights.items() if name in RETRIEVERS}
    for name, expansion in EXPANSIONS.items():
        if expansion in weights:
            known[name] = known.get(name, 0.0) + weights[expansion]
    return known


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


def highest(numbers: Mapping[int, float]) -> float | None:
    """Return the highest number, None if there is none."""
    if not isinstance(numbers, Numbers):
        return max(numbers.values(), default=None)
    known = map(native_fusion.highest, numbers.columns)
    return max([each for each in known if each is not None], default=None)


def _nearness(cosines: tuple[Hits, Hits], background: Background) -> float:
    """Position of the best cosine between the store's average (0) and 1, the query itself (1)."""
    listed, unlisted = cosines
    best = float(listed.scores[0])
    if (further := native_fusion.highest(unlisted)) is not None:  # an approximate index may have missed the best one
        best = max(best, further)
    return min(1.0, max(0.0, (best - background.mean) / max(1 - background.mean, LEAST_SPREAD)))


def _fall(words: Hits, items: int) -> float:
    """Relative drop from the best score to that of a lower rank; 1 if the list is shorter than that rank."""
    least, most = FALL_RANKS
    rank = min(most, max(least, items // ITEMS_PER_FALL_RANK)) if items else most
    scores = words.scores
    best = float(scores[0])
    return 1.0 - (float(scores[rank - 1]) / best if len(scores) >= rank and best > 0 else 0.0)
