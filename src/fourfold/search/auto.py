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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from fourfold.model import RETRIEVERS, Background, Hit, Hits
from fourfold.search.fusion import Fusion, Part, columns, fuse, grid_for
from fourfold.search.weights import scaled_to_one

if TYPE_CHECKING:
    from fourfold.model import Floats

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
    unlisted: Mapping[str, Sequence[Hit]] = field(default_factory=dict[str, Sequence[Hit]])
    """What semantic and keyword say of that which only other lists hold."""
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
    fixed: Mapping[str, float] | None = None
    """Weights that stay as they are, even if they do not sum to 1; chosen ones are scaled to that of semantic."""


def fuse_auto(inputs: AutoInputs) -> Fusion:
    """Weights are scaled to sum 1 over the lists that have hits; a retriever's is that of both of its lists."""
    lists = {name: columns(hits) for name, hits in inputs.lists.items() if hits}
    raw = {name: _joined(hits, inputs.unlisted.get(name, ())) for name, hits in lists.items()}
    shares = _chosen(inputs, raw) if inputs.weights is None else _given(inputs.weights, lists)
    acting = [name for name in (*RETRIEVERS, WALK, SHARED) if name in lists]
    fixed = inputs.fixed or {}
    weights = _beside(fixed, shares, acting) if fixed else scaled_to_one(shares, acting)
    grid = grid_for(math.fsum(weights.values()))
    average = inputs.backgrounds.get("semantic")
    parts = [_part(name, len(lists[name]), raw[name], average, weight, grid) for name, weight in weights.items()]
    return fuse(parts, {**fixed, **_reported(weights)})


def _beside(fixed: Mapping[str, float], shares: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """The fixed weights, and the chosen ones by the same measure: that of semantic, if it is fixed."""
    scale = fixed["semantic"] / shares["semantic"] if "semantic" in fixed else 1.0
    weights = {name: fixed.get(name, shares[name] * scale) for name in names}
    return {name: weight for name, weight in weights.items() if weight > 0}


def _joined(hits: Hits, others: Sequence[Hit]) -> Hits:
    """Both; of an item in both, what the list says of it."""
    if not others:
        return hits
    more = columns(others)
    if not set(hits.ids.tolist()).isdisjoint(more.ids.tolist()):
        new = ~np.isin(more.ids, hits.ids)
        more = Hits(more.ids[new], more.scores[new])
    return Hits(np.concatenate([hits.ids, more.ids]), np.concatenate([hits.scores, more.scores]))


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


def _chosen(inputs: AutoInputs, raw: Mapping[str, Hits]) -> dict[str, float]:
    tags = {"tags": TAGS * inputs.tagged**2, SHARED: SHARED_TAGS}
    return {**_text_shares(inputs, raw), "graph": GRAPH, WALK: STEPS, **tags}


def _text_shares(inputs: AutoInputs, raw: Mapping[str, Hits]) -> Mapping[str, float]:
    """Semantic and keyword, which share 1 between them."""
    if not ("semantic" in raw and "keyword" in raw):
        return {"semantic": 1.0, "keyword": 1.0}
    background = inputs.backgrounds.get("semantic")
    if background is None:
        return TEXT_FALLBACK
    coverage = max(inputs.coverage.values(), default=UNKNOWN_COVERAGE)
    fall = _fall(inputs.lists["keyword"], inputs.items)
    nearness = _nearness(raw["semantic"], background)
    log_odds = NEARNESS * nearness + inputs.unknown - min(1.0, coverage) - fall - WORDS
    share = 1 / (1 + math.exp(-log_odds))  # from 0.047 to 0.982: what only one of them found stays in the ranking
    return {"semantic": share, "keyword": 1 - share}


def _nearness(cosines: Hits, background: Background) -> float:
    """0: the best is no nearer than the store's average. 1: it is the query itself."""
    best = float(cosines.scores.max())
    return min(1.0, max(0.0, (best - background.mean) / max(1 - background.mean, LEAST_SPREAD)))


def _fall(words: Sequence[Hit], items: int) -> float:
    """What a hit further down lacks of the best, as a share of it; all, where there are not as many."""
    least, most = FALL_TO
    place = min(most, max(least, items // FALL_PART)) if items else most
    scores = columns(words).scores
    best = float(scores.max())
    return 1.0 - (float(scores[place - 1]) / best if len(scores) >= place and best > 0 else 0.0)


# ---------------------------------------------------------------- scaled scores


def _part(name: str, listed: int, raw: Hits, average: Background | None, weight: float, grid: float) -> Part:
    if name == "semantic":
        return Part(name, weight, listed, raw, _cosine_values(raw.scores, average, weight, grid))
    positive = raw.scores > 0
    if not positive.all():
        listed = int(np.count_nonzero(positive[:listed]))
        raw = Hits(raw.ids[positive], raw.scores[positive])
    scaled = _relations(raw.scores, weight) if name in ("graph", WALK) else _shares_of_best(raw.scores, weight)
    return Part(name, weight, listed, raw, (scaled + grid) - grid)


def _relations(scores: Floats, weight: float) -> Floats:
    """A distant relation stays weak, even if it is the best there is; more than one whole relation is not better."""
    return weight * np.minimum(scores, 1.0)


def _shares_of_best(scores: Floats, weight: float) -> Floats:
    return scores * (weight / scores.max()) if len(scores) else scores


def _cosine_values(scores: Floats, background: Background | None, weight: float, grid: float) -> Floats:
    """Cosines between the store's average and the query's best; those below it in what is left of the scale.

    Where nothing is above the average (a narrow filter), the worst takes its place.
    """
    best, worst = float(scores.max()), float(scores.min())
    if best == worst:
        return np.full(len(scores), (weight + grid) - grid)
    average = background.mean if background is not None and -1 < background.mean < best else worst
    above = weight * (1 - BELOW_AVERAGE) / (best - average)
    below = weight * BELOW_AVERAGE / max(1 + average, 1e-9)
    base = weight * BELOW_AVERAGE + grid
    return ((scores - average) * np.where(scores >= average, above, below) + base) - grid
