"""How sure an answer is (B14), from absolute evidence.

A fused score cannot say it: it is relative to the best hit, and the best of a store that knows nothing is still the
best. Two things are absolute: the cosine, which sentence embeddings put near 0.2 for texts that have nothing to do with
each other and above 0.5 for an answer, and the coverage, the share of the query's words found, counted by their rarity.
Each sees what the other misses (a paraphrase shares no words, a product code has no neighbours), so they add up on the
scale of log odds: both weak is a no, both strong is a yes, one strong alone is about even.

The constants are near a logistic fit on two collections, made a little steeper by hand. On four, top results that
answer have a median of 0.81 to 0.97, those for questions of another collection 0.02 to 0.05. It cannot tell an answer
from a near miss: with the answer taken out of the store the next best still has a median of 0.27 to 0.81.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

BIAS: Final = -5.5
PER_COSINE: Final = 8.5
PER_COVERAGE: Final = 5.0

COSINE_ALONE: Final = (-5.5, 13.0)
"""Bias and slope where no words are known, as without a keyword index: 0.15 is nothing, 0.65 is sure."""
COVERAGE_ALONE: Final = (-4.0, 6.5)
"""The same without vectors: all words found is likely, never certain."""


def result_confidence(cosine: float | None, coverage: float | None) -> float:
    """0..1, rising with both; None where a retriever has nothing to say of the item."""
    if cosine is None and coverage is None:
        return 0.0
    if coverage is None:
        return _logistic(COSINE_ALONE[0] + COSINE_ALONE[1] * (cosine or 0.0))
    share = min(1.0, max(0.0, coverage))
    if cosine is None:
        return _logistic(COVERAGE_ALONE[0] + COVERAGE_ALONE[1] * share)
    return _logistic(BIAS + PER_COSINE * cosine + PER_COVERAGE * share)


def response_confidence(results: Iterable[float]) -> float:
    """A response is as sure as its surest result; an empty one is not."""
    return max(results, default=0.0)


def _logistic(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))
