"""How sure an answer is (B14, C2), from absolute evidence.

A fused score cannot say it: it is relative to the best hit, and the best of a store that knows nothing is still the
best. Four things are absolute. The cosine, which sentence embeddings put near 0.2 for unrelated texts and above 0.5 for
an answer. The coverage, the share of the query's words found in the item, counted by their rarity. The share of its
words that the item's tags say; a word that is a tag counts like one in the text. And the relation: whether the item is
what the query names, or a stored relation joins it to that. Each sees what the others miss (a paraphrase shares no
words, a product code has no neighbours, the owner of a service looks nothing like it), so they add up on the scale of
log odds: all weak is a no, two strong are a yes, one strong alone is about even.

The slopes of cosine and coverage are near a logistic fit on two collections, made a little steeper by hand; that of the
relation was set on the demo, so that a stored relation alone is even. docs/quality-tried.md has the figures, also for
collections that set nothing. It cannot tell an answer from a near miss: with the answer taken out of the store the next
best still has a median of 0.27 to 0.81.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

BIAS: Final = -5.5
PER_COSINE: Final = 8.5
PER_COVERAGE: Final = 5.0
PER_RELATION: Final = 6.5

COSINE_ALONE: Final = (-5.5, 13.0)
"""Bias and slope where no words are known, as without a keyword index: 0.15 is nothing, 0.65 is sure."""
COVERAGE_ALONE: Final = (-4.0, 6.5)
"""The same without vectors: all words found is likely, never certain."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the retrievers know of one item; None where one had nothing to say."""

    cosine: float | None = None
    coverage: float | None = None
    """Share of the query's words that stand in the text, by their rarity."""
    tags: float = 0.0
    """Share of the query's words that the item's tags say."""
    relation: float = 0.0
    """How surely the item is what the query names, or joined to it by a stored relation."""


def result_confidence(evidence: Evidence) -> float:
    """0..1, rising with each part of the evidence; 0 without any."""
    if evidence == Evidence():
        return 0.0
    return _logistic(_text_odds(evidence) + PER_RELATION * min(1.0, evidence.relation))


def _text_odds(evidence: Evidence) -> float:
    """Log odds by vectors, words and tags."""
    words = min(1.0, max(0.0, evidence.coverage or 0.0, evidence.tags))
    if evidence.cosine is None:
        return COVERAGE_ALONE[0] + COVERAGE_ALONE[1] * words
    odds = BIAS + PER_COSINE * evidence.cosine + PER_COVERAGE * words
    alone = COSINE_ALONE[0] + COSINE_ALONE[1] * evidence.cosine
    return max(odds, alone) if evidence.coverage is None else odds


def response_confidence(results: Iterable[float]) -> float:
    """A response is as sure as its surest result; an empty one is not."""
    return max(results, default=0.0)


def _logistic(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))
