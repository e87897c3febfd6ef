"""BM25, the one formula that every store ranks by."""

from __future__ import annotations

import math

K1 = 1.2
B = 0.75
BASE_LENGTH = 50
"""Terms by which every item counts as longer than it is.

Among notes of a line or two, length says little about how much a word means, and plain BM25 puts the tersest first;
among pages it says a lot. A short paragraph added to all makes both right.
"""


def idf(df: float, documents: float) -> float:
    return math.log(1 + (documents - df + 0.5) / (df + 0.5))


def saturation(tf: float, length: float, average_length: float) -> float:
    """How much of its idf a term earns that stands `tf` times in a document of this length."""
    if tf <= 0:
        return 0.0
    relative = (length + BASE_LENGTH) / (average_length + BASE_LENGTH)
    return tf * (K1 + 1) / (tf + K1 * (1 - B + B * relative))
