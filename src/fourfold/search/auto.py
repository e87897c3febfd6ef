"""`auto`: true scores of every retriever for every candidate, weighted by the evidence of this query.

Four numbers between 0 and 1 decide between vectors and words. Nearness: where the best cosine lies between the store's
average and 1. Unknown: the share of the query's words, counted by rarity, that no item has. Coverage: the share that
one item has. Fall: how much less than the best BM25 score the fiftieth is (in a small store an earlier one). The odds
of vectors against words are

    e^(4 x nearness + unknown - coverage - fall - 1)

A near vector speaks for vectors, and so do words that the store does not use; words that stand together in one item,
and in few others, speak for words. docs/ranking.md has the formula by hand, docs/quality.md what it gains,
docs/quality-tried.md what else was tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from fourfold.model import RETRIEVERS, Background, Hit
from fourfold.search.fusion import Fusion, Part, fuse, grid_for, scores_of, unique
from fourfold.search.weights import scaled_to_one

TEXTS: Final = ("semantic", "keyword")
GRAPH: Final = 0.7
"""Share of what the query names, beside semantic + keyword = 1."""
STEPS: Final = 0.7
"""Share of the walk from there and from the best hits. Measured in docs/quality-graph.md, like the share above."""
TAGS: Final = 1.0
"""Share of the tags, if they say the whole query. If they say half of its words, it is a quarter of this: a tag that is
one word of many says little."""
SHARED_TAGS: Final = 0.15
"""Share of what carries the tags of the best hits. From 0.1 to 0.2 it gains wherever items have tags."""
NEARNESS: Final = 4.0
WORDS: Final = 1.0
"""Log odds for words before there is evidence: where they find something, they are the safer half."""
FALL_TO: Final = (10, 50)
FALL_PART: Final = 25
"""The fall is measured at the fiftieth, in a small store at a twenty-fifth of it, but not before the tenth."""
UNKNOWN_COVERAGE: Final = 0.5
"""Where a store does not say how many of the words an item has."""
LEAST_SPREAD: Final = 1e-9
TEXT_FALLBACK: Final[Mapping[str, float]] = {"semantic": 0.4, "keyword": 0.6}
"""Where the store's average cosine is not known: the best fixed pair over 12 collections."""
BELOW_AVERAGE: Final = 0.05
"""The part of the scale for cosines under the store's average, which so keep their order."""
WALK: Final = "walk"
SHARED: Final = "shared"
EXPANSIONS: Final[Mapping[str, str]] = {"graph": WALK, "tags": SHARED}
"""By retriever: the list of what it finds when it goes on from the best hits."""

Scores: TypeAlias = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class AutoInputs:
    lists: Mapping[str, Sequence[Hit]]
    """By retriever, and `walk` and `shared`: the graph and the tags from the best hits. Best first."""
    scores: Mapping[str, Scores] = field(default_factory=dict[str, Scores])
    """Scores of semantic and keyword for what the other lists hold."""
    backgrounds: Mapping[str, Background | None] = field(default_factory=dict[str, "Background | None"])
    weights: Mapping[str, float] | None = None
    """Of the caller or the preset; None: chosen by the evidence of this query."""
    coverage: Scores = field(default_factory=dict[int, float])
    """Share of the query's words, by their rarity, that stand in an item."""
    unknown: float = 0.0
    """Share of them that stand in none."""
    items: int = 0
    """How many items the store has; 0: not known."""
    tagged: float = 1.0
    """Share of the query's words that the tags of one item say."""


def fuse_auto(inputs: AutoInputs) -> Fusion:
    """Weights are scaled to sum 1 over the lists that have hits; a retriever's is that of both of its lists."""
    inputs = replace(inputs, lists={name: unique(hits) for name, hits in inputs.lists.items() if hits})
    raw = {name: {**inputs.scores.get(name, {}), **scores_of(hits)} for name, hits in inputs.lists.items()}
    shares = _chosen(inputs, raw) if inputs.weights is None else _given(inputs.weights, inputs.lists)
    weights = scaled_to_one(shares, [name for name in (*RETRIEVERS, WALK, SHARED) if name in inputs.lists])
    grid = grid_for(math.fsum(weights.values()))
    parts = [_part(inputs, name, raw[name], weight, grid) for name, weight in weights.items()]
    return fuse(parts, _reported(weights))


def _given(weights: Mapping[str, float], lists: Mapping[str, Sequence[Hit]]) -> dict[str, float]:
    """The graph's weight, halved between its list and its walk where there are both."""
    graph = weights.get("graph", 0.0) / (2 if "graph" in lists and WALK in lists else 1)
    return {**weights, "graph": graph, WALK: graph}


def _reported(weights: Mapping[str, float]) -> dict[str, float]:
    known = {name: weight for name, weight in weights.items() if name in RETRIEVERS}
    for name, further in EXPANSIONS.items():
        if further in weights:
            known[name] = known.get(name, 0.0) + weights[further]
    return known


# ---------------------------------------------------------------- weights


def _chosen(inputs: AutoInputs, raw: Mapping[str, Scores]) -> dict[str, float]:
    tags = {"tags": TAGS * inputs.tagged**2, SHARED: SHARED_TAGS}
    return {**_text_shares(inputs, raw), "graph": GRAPH, WALK: STEPS, **tags}


def _text_shares(inputs: AutoInputs, raw: Mapping[str, Scores]) -> Mapping[str, float]:
    """Semantic and keyword, which share 1 between them."""
    if not ("semantic" in raw and "keyword" in raw):
        return {"semantic": 1.0, "keyword": 1.0}
    background = inputs.backgrounds.get("semantic")
    if background is None:
        return TEXT_FALLBACK
    coverage = max(inputs.coverage.values(), default=UNKNOWN_COVERAGE)
    fall = _fall([hit.score for hit in inputs.lists["keyword"]], inputs.items)
    nearness = _nearness(raw["semantic"], background)
    log_odds = NEARNESS * nearness + inputs.unknown - min(1.0, coverage) - fall - WORDS
    share = 1 / (1 + math.exp(-log_odds))  # from 0.047 to 0.982: what only one of them found stays in the ranking
    return {"semantic": share, "keyword": 1 - share}


def _nearness(cosines: Scores, background: Background) -> float:
    """0: the best is no nearer than the store's average. 1: it is the query itself."""
    return min(1.0, max(0.0, (max(cosines.values()) - background.mean) / max(1 - background.mean, LEAST_SPREAD)))


def _fall(scores: Sequence[float], items: int) -> float:
    """What a hit further down lacks of the best, as a share of it; all, where there are not as many."""
    least, most = FALL_TO
    place = min(most, max(least, items // FALL_PART)) if items else most
    best = max(scores)
    return 1.0 - (scores[place - 1] / best if len(scores) >= place and best > 0 else 0.0)


# ---------------------------------------------------------------- scaled scores


def _part(inputs: AutoInputs, name: str, raw: Scores, weight: float, grid: float) -> Part:
    if name == "semantic":
        values = _cosine_values(raw, inputs.backgrounds.get(name), weight, grid)
    else:
        values = _relations(raw, weight, grid) if name in ("graph", WALK) else _share_of_best(raw, weight, grid)
    return Part(name, weight, inputs.lists[name], values, raw)


def _relations(raw: Scores, weight: float, grid: float) -> dict[int, float]:
    """A distant relation stays weak, even if it is the best there is; more than one whole relation is not better."""
    return {id: (weight * min(score, 1.0) + grid) - grid for id, score in raw.items() if score > 0}


def _share_of_best(raw: Scores, weight: float, grid: float) -> dict[int, float]:
    best = max(raw.values())
    if best <= 0:
        return {}
    unit = weight / best
    return {id: (score * unit + grid) - grid for id, score in raw.items() if score > 0}


def _cosine_values(raw: Scores, background: Background | None, weight: float, grid: float) -> dict[int, float]:
    """Cosines between the store's average and the query's best; those below it in what is left of the scale.

    Where nothing is above the average (a narrow filter), the worst takes its place.
    """
    best, worst = max(raw.values()), min(raw.values())
    if best == worst:
        return dict.fromkeys(raw, (weight + grid) - grid)
    average = background.mean if background is not None and -1 < background.mean < best else worst
    above = weight * (1 - BELOW_AVERAGE) / (best - average)
    below = weight * BELOW_AVERAGE / max(1 + average, 1e-9)
    base = weight * BELOW_AVERAGE + grid
    return {id: ((score - average) * (above if score >= average else below) + base) - grid for id, score in raw.items()}
