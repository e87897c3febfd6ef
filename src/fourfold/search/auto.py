"""`auto`: true scores of every retriever for every candidate, weighted by the evidence of this query.

A retriever that knows the answer lifts its best hit far above what it says of the rest of the store; one that does not
gives everything about the same score. So three numbers decide between vectors and keywords: how far the best cosine
(c_v) and the best BM25 score (c_k) stand above the store, in standard deviations, and how near the best vector is at
all (r: 0 is the store's average, 1 the query itself). The odds of vectors against keywords are

    c_v x e^(4 r) / c_k^1.5

The constants were picked on eleven collections (240 to 5,183 items, some cut down; two retrievers, no graph or tags).
There it gains 0.004 to 0.118 nDCG@10 over the better single retriever, but loses 0.025 on code, where words say next to
nothing: 0.028 on average. c_v^2 / (c_v^2 + c_k^2 / 2) gains 0.022 and loses 0.070 on code; fixed 0.4 / 0.6 gains 0.025
and loses 0.063. On collections that had no part in the choice expect less, down to a small loss.
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
TAGS: Final = 0.2
"""Share of the tags: many items carry one tag, so it says little about each."""
NEARNESS: Final = 4.0
KEYWORD_TAIL: Final = 1.5
"""BM25 has the longer tail: twice the distance is more than twice the certainty."""
LEAST_SHARE: Final = 0.05
"""Neither semantic nor keyword is ever silenced: what only one of them found stays in the ranking."""
LEAST_SPREAD: Final = 1e-9
TEXT_FALLBACK: Final[Mapping[str, float]] = {"semantic": 0.4, "keyword": 0.6}
"""Where a retriever cannot say how its scores are spread: the best fixed pair over 13 collections."""
BELOW_AVERAGE: Final = 0.05
"""The part of the scale for cosines under the store's average, which so keep their order."""
WALK: Final = "walk"

Scores: TypeAlias = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class AutoInputs:
    lists: Mapping[str, Sequence[Hit]]
    """By retriever, and `walk`: the graph from the best hits. Best first."""
    scores: Mapping[str, Scores] = field(default_factory=dict[str, Scores])
    """Scores of semantic and keyword for what the other lists hold."""
    backgrounds: Mapping[str, Background | None] = field(default_factory=dict[str, "Background | None"])
    weights: Mapping[str, float] | None = None
    """Of the caller or the preset; None: chosen by the evidence of this query."""


def fuse_auto(inputs: AutoInputs) -> Fusion:
    """Weights are scaled to sum 1 over the lists that have hits; the graph's is that of its list and of its walk."""
    inputs = replace(inputs, lists={name: unique(hits) for name, hits in inputs.lists.items() if hits})
    raw = {name: {**inputs.scores.get(name, {}), **scores_of(hits)} for name, hits in inputs.lists.items()}
    shares = _chosen(inputs, raw) if inputs.weights is None else _given(inputs.weights, inputs.lists)
    weights = scaled_to_one(shares, [name for name in (*RETRIEVERS, WALK) if name in inputs.lists])
    grid = grid_for(math.fsum(weights.values()))
    parts = [_part(inputs, name, raw[name], weight, grid) for name, weight in weights.items()]
    return fuse(parts, _reported(weights))


def _given(weights: Mapping[str, float], lists: Mapping[str, Sequence[Hit]]) -> dict[str, float]:
    """The graph's weight, halved between its list and its walk where there are both."""
    graph = weights.get("graph", 0.0) / (2 if "graph" in lists and WALK in lists else 1)
    return {**weights, "graph": graph, WALK: graph}


def _reported(weights: Mapping[str, float]) -> dict[str, float]:
    known = {name: weight for name, weight in weights.items() if name != WALK}
    if WALK in weights:
        known["graph"] = known.get("graph", 0.0) + weights[WALK]
    return known


# ---------------------------------------------------------------- weights


def _chosen(inputs: AutoInputs, raw: Mapping[str, Scores]) -> dict[str, float]:
    return {**_text_shares(inputs, raw), "graph": GRAPH, WALK: STEPS, "tags": TAGS}


def _text_shares(inputs: AutoInputs, raw: Mapping[str, Scores]) -> Mapping[str, float]:
    """Semantic and keyword, which share 1 between them."""
    if not ("semantic" in raw and "keyword" in raw):
        return {"semantic": 1.0, "keyword": 1.0}
    semantic, keyword = (_standing_out(raw[name], inputs.backgrounds.get(name)) for name in ("semantic", "keyword"))
    if semantic is None or keyword is None or semantic + keyword == 0:
        return TEXT_FALLBACK
    evidence = semantic * math.exp(NEARNESS * _nearness(raw["semantic"], inputs.backgrounds["semantic"]))
    share = evidence / (evidence + keyword**KEYWORD_TAIL)
    share = min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)
    return {"semantic": share, "keyword": 1 - share}


def _nearness(cosines: Scores, background: Background | None) -> float:
    mean = background.mean if background is not None else 0.0
    return min(1.0, max(0.0, (max(cosines.values()) - mean) / max(1 - mean, LEAST_SPREAD)))


def _standing_out(raw: Scores, background: Background | None) -> float | None:
    """How far the best hit stands above the store, in standard deviations; None if that cannot be said."""
    if background is None or not background.std > LEAST_SPREAD:
        return None
    return max(0.0, (max(raw.values()) - background.mean) / background.std)


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
