"""The confidence of results: an estimate of the probability that each answers the query.

A fused score is relative to the best hit, so it says nothing about a store that does not hold the answer. The evidence
here is absolute, or tells by how much a result exceeds all others. Naming a thing is not answering a question about it:
if a query names something and says more, the words outside of the name count.

`benchmarks/confidence.py` fits the log odds, docs/benchmarks.md has the figures.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fourfold.engine.pipeline import Outcome
from fourfold.native.rankings import values_of
from fourfold.ranking.fusion import LEAST_SPREAD, NO_HITS, RERANK
from fourfold.ranking.plan import AUTO, BUILT_IN
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Numbers, Ranking, SearchResponse

if TYPE_CHECKING:
    from fourfold.retrieval import Ints


class Evidence(NamedTuple):
    """What is known about one result; 0 where nothing is known."""

    nearness: float = 0.0
    """Position of the cosine between the store's average (0) and 1."""
    words: float = 0.0
    """Share of the query's words, weighted by rarity, that its text contains or that are its tags.

    If the query names something and says more, only the words outside of the name count.
    """
    lead: float = 0.0
    """How far its cosine exceeds that of every other item."""
    lead_words: float = 0.0
    """How far its share of all words of the query exceeds that of every other item."""
    alone: float = 0.0
    """`lead_words` x `words`: near 1 if no other item contains what the query asks; naming alone does not raise it.

    Or the square of the share of the query that are its tags: a tag that is one word of many is weak evidence.
    """
    asked: float = 0.0
    """How surely it is at the other end of a relation that the query asks for."""
    first: float = 0.0
    """1 for the first result."""
    read: float = 0.0
    """How relevant the built-in reranker finds it, between 0 and 1; 0 if that has not read it."""


class Fit(NamedTuple):
    """Log odds of an answer: a constant, and what 1 of each piece of evidence adds."""

    constant: float
    per: Evidence

    def log_odds(self, evidence: Evidence) -> float:
        return self.constant + sum(map(operator.mul, self.per, evidence))


BOTH: Final = Fit(-5.25, Evidence(nearness=4.75, words=1.65, lead=7.3, alone=4.4, asked=6.25, first=1.45))
VECTORS: Final = Fit(-6.15, Evidence(nearness=8.0, lead=5.4, first=1.5))
"""Without keyword search."""
WORDS: Final = Fit(-3.4, Evidence(words=1.6, lead_words=5.8, asked=5.25, first=1.3))
"""For items without a cosine."""
READ: Final = Fit(-5.8, Evidence(nearness=3.25, words=1.05, lead=4.5, alone=4.4, asked=6.85, first=0.85, read=3.7))
"""For items that the built-in reranker has read."""
READ_SCALE: Final = 4.0
"""Its scores are logits, from -11 to 11; differences near 0 count most."""

LARGEST_EXPONENT: Final = 700.0
"""A cosine far below the average of nearly equal vectors has odds that no float can hold."""


def confidence(evidence: Evidence, fit: Fit = BOTH, log_odds: float = 0.0) -> float:
    """`log_odds`: what further retrievers add."""
    return round(1 / (1 + math.exp(min(LARGEST_EXPONENT, -fit.log_odds(evidence) - log_odds))), 6)


CoverageOf = Callable[[Sequence[int]], Mapping[int, float]]


class Judge:
    """What is known about the results of one search."""

    def __init__(self, outcome: Outcome, first: int | None, unnamed: CoverageOf | None = None) -> None:
        """`first`: the first result. `unnamed`: the coverage of the words that are in no name, if they count alone."""
        none = Ranking(NO_HITS)
        graph, semantic = outcome.rankings.get("graph", none), outcome.rankings.get("semantic", none)
        self._tags, self._named, self._asked = outcome.rankings.get("tags", none).evidence, graph.related, graph.answers
        self._cosines, self._coverage, self._unnamed = outcome.raw("semantic"), outcome.coverage, unnamed
        self._searched_words = "keyword" in outcome.rankings
        self._average = 0.0 if semantic.background is None else semantic.background.mean
        self._span = max(1 - self._average, LEAST_SPREAD)
        self._nearest, self._most_words = _best_two(self._cosines), _best_two(self._coverage)
        self._read: Mapping[int, float] = outcome.raw(RERANK) if outcome.plan.rerank in (AUTO, BUILT_IN) else {}
        self._others = [(spec.log_odds, outcome.raw(name)) for name, spec in RETRIEVERS.items() if spec.log_odds]
        self._first = first

    def confidences(self, ids: Ints) -> list[float]:
        """The estimated probability of each item that it answers."""
        estimates: list[float] = []
        for item, cosine, evidence in self.evidence(ids):
            added = self._added(item) if self._others else 0.0
            if evidence.read:
                estimates.append(confidence(evidence, READ, added))
            elif cosine is None:
                estimates.append(confidence(evidence, WORDS, added))
            elif self._searched_words:
                estimates.append(confidence(evidence, BOTH, added))
            else:
                estimates.append(max(confidence(evidence, BOTH, added), confidence(evidence, VECTORS, added)))
        return estimates

    def evidence(self, ids: Ints) -> list[tuple[int, float | None, Evidence]]:
        """Each item with its cosine and its evidence."""
        items = ids.tolist()
        unnamed = None if self._unnamed is None else self._unnamed(items)
        cosines, coverage = _numbers(ids, self._cosines, self._coverage)
        return [
            (item, cosine, self._evidence(item, cosine, words or 0.0, unnamed))
            for item, cosine, words in zip(items, cosines, coverage, strict=True)
        ]

    def _evidence(self, item: int, cosine: float | None, words: float, unnamed: Mapping[int, float] | None) -> Evidence:
        nearness = lead = 0.0
        if cosine is not None:
            nearness, lead = (cosine - self._average) / self._span, _lead(cosine, self._nearest)
        tags = self._tags.get(item, 0.0) if self._tags else 0.0
        named = 0.0 if self._searched_words else self._named.get(item, 0.0)
        coverage = min(1.0, max(words if unnamed is None else unnamed.get(item, 0.0), tags, named))
        lead_words = _lead(words, self._most_words)
        alone = min(1.0, max(lead_words * coverage, tags**2))
        related = self._asked.get(item, 0.0) if self._asked else 0.0
        first = float(item == self._first)
        read = 1 / (1 + math.exp(-self._read[item] / READ_SCALE)) if item in self._read else 0.0
        return Evidence(nearness, coverage, lead, lead_words, alone, related, first, read)

    def _added(self, item: int) -> float:
        return sum([odds * min(1.0, max(0.0, scores.get(item) or 0.0)) for odds, scores in self._others])


def _numbers(ids: Ints, *tables: Mapping[int, float]) -> list[list[float | None]]:
    """The numbers of a few ids in each table; None for a missing one."""
    columns = [table.columns if isinstance(table, Numbers) else () for table in tables]
    return [
        [None if math.isnan(number) else number for number in numbers]
        if isinstance(table, Numbers)
        else [table.get(item) for item in ids.tolist()]
        for table, numbers in zip(tables, values_of(ids, columns), strict=True)
    ]


def _best_two(numbers: Mapping[int, float]) -> tuple[float, float]:
    columns = [hits.scores for hits in numbers.columns] if isinstance(numbers, Numbers) else [[*numbers.values()]]
    best = np.partition(np.concatenate([_NONE, *columns]), -2)
    return float(best[-1]), float(best[-2])


_NONE: Final = np.zeros(2)


def _lead(mine: float, best: tuple[float, float]) -> float:
    """How far the best number exceeds the second best; 0 for the others."""
    return max(0.0, mine - best[1]) if mine >= best[0] else 0.0


# ---------------------------------------------------------------- cut

LEAST: Final = 0.05
"""Confidence of a first result that is plausible; below it, nothing answers."""
SHARE: Final = 0.125
"""Least confidence of the other results, as a share of that of the first."""


def without_unlikely(response: SearchResponse) -> SearchResponse:
    """The response without results that most likely do not answer, and a note that counts them."""
    every, first = response.results, response.confidence
    kept = tuple(result for result in every if first >= LEAST and result.confidence >= SHARE * first)
    if len(kept) == len(every):
        return response
    note = f"left out as less likely answers: {len(every) - len(kept)} of {len(every)} results; cut=off shows them"
    return replace(response, confidence=first if kept else 0.0, results=kept, notes=(*response.notes, note))
