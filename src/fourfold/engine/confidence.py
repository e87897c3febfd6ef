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
from fourfold.native.rankings import values_and_best
from fourfold.ranking.fusion import LEAST_SPREAD, NO_HITS, RERANK
from fourfold.ranking.plan import AUTO, BUILT_IN
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Hits, Numbers, Ranking, SearchResponse

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


BOTH: Final = Fit(-5.25, Evidence(nearness=4.65, words=1.7, lead=7.65, alone=4.4, asked=6.1, first=1.45))
VECTORS: Final = Fit(-5.95, Evidence(nearness=7.55, lead=5.85, first=1.45))
"""Without keyword search."""
WORDS: Final = Fit(-3.4, Evidence(words=1.55, lead_words=5.65, asked=5.15, first=1.4))
"""For items without a cosine."""
READ: Final = Fit(-5.8, Evidence(nearness=3.2, words=1.05, lead=4.75, alone=4.35, asked=6.75, first=0.9, read=3.65))
"""For items that the built-in reranker has read."""
READ_SCALE: Final = 4.0
"""Its scores are logits, from -11 to 11; differences near 0 count most."""

LARGEST_EXPONENT: Final = 700.0
"""A cosine far below the average of nearly equal vectors has odds that no float can hold."""


def confidence(evidence: Evidence, fit: Fit = BOTH, log_odds: float = 0.0) -> float:
    """`log_odds`: what further retrievers add."""
    total = fit.constant + sum(map(operator.mul, fit.per, evidence)) + log_odds
    return round(1 / (1 + math.exp(-total)), 6) if total > -LARGEST_EXPONENT else 0.0


CoverageOf = Callable[[Sequence[int]], Mapping[int, float]]


class Judge:
    """What is known about the results of one search."""

    def __init__(self, outcome: Outcome, first: int | None, unnamed: CoverageOf | None = None) -> None:
        """`first`: the first result. `unnamed`: the coverage of the words that are in no name, if they count alone."""
        rankings = outcome.rankings
        graph, semantic = rankings.get("graph", _SILENT), rankings.get("semantic", _SILENT)
        self._searched_words = "keyword" in rankings
        self._tags, self._asked = rankings.get("tags", _SILENT).evidence, graph.answers
        self._named: Mapping[int, float] = {} if self._searched_words else graph.related
        self._tables = outcome.raw("semantic").columns, _columns(outcome.coverage)
        self._unnamed = unnamed
        self._average = 0.0 if semantic.background is None else semantic.background.mean
        self._span = max(1 - self._average, LEAST_SPREAD)
        self._read: Mapping[int, float] = outcome.raw(RERANK) if outcome.plan.rerank in (AUTO, BUILT_IN) else {}
        self._others = [(spec.log_odds, outcome.raw(name)) for name, spec in RETRIEVERS.items() if spec.log_odds]
        self._first = first

    def confidences(self, ids: Ints) -> list[float]:
        """The estimated probability of each item that it answers."""
        estimates: list[float] = []
        for item, cosine, evidence in self.evidence(ids):
            added = self._added(item) if self._others else 0.0
            fit = READ if evidence.read else WORDS if cosine is None else BOTH
            estimate = confidence(evidence, fit, added)
            if fit is BOTH and not self._searched_words:
                estimate = max(estimate, confidence(evidence, VECTORS, added))
            estimates.append(estimate)
        return estimates

    def evidence(self, ids: Ints) -> list[tuple[int, float | None, Evidence]]:
        """Each item with its cosine and its evidence."""
        items: list[int] = ids.tolist()
        unnamed = None if self._unnamed is None else self._unnamed(items)
        (cosines, nearest, second), (shares, most, next_most) = values_and_best(ids, self._tables)
        judged: list[tuple[int, float | None, Evidence]] = []
        for item, cosine, share in zip(items, cosines, shares, strict=True):
            nearness = lead = alone = 0.0
            if has_cosine := not math.isnan(cosine):
                nearness = (cosine - self._average) / self._span
                lead = cosine - second if cosine >= nearest else 0.0
            words = 0.0 if math.isnan(share) else share
            lead_words = words - next_most if words >= most else 0.0
            covered = words if unnamed is None else unnamed.get(item, 0.0)
            tags = self._tags.get(item, 0.0) if self._tags else 0.0
            named = self._named.get(item, 0.0) if self._named else 0.0
            coverage = min(1.0, max(covered, tags, named) if tags or named else covered)
            if lead_words or tags:
                alone = min(1.0, max(lead_words * coverage, tags**2))
            asked = self._asked.get(item, 0.0) if self._asked else 0.0
            read = 1 / (1 + math.exp(-self._read[item] / READ_SCALE)) if item in self._read else 0.0
            first = 1.0 if item == self._first else 0.0
            evidence = Evidence(nearness, coverage, lead, lead_words, alone, asked, first, read)
            judged.append((item, cosine if has_cosine else None, evidence))
        return judged

    def _added(self, item: int) -> float:
        return sum([odds * min(1.0, max(0.0, scores.get(item) or 0.0)) for odds, scores in self._others])


_SILENT: Final = Ranking(NO_HITS)


def _columns(numbers: Mapping[int, float]) -> Sequence[Hits]:
    """The columns of the numbers; an injected retriever may have given a dict."""
    if isinstance(numbers, Numbers):
        return numbers.columns
    return [Hits(np.array([*numbers], np.int64), np.array([*numbers.values()], np.float64))]


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
