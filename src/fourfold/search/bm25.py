"""BM25, the one formula that every store ranks by."""

from __future__ import annotations

import math

K1 = 1.2
B = 0.75


def idf(df: float, documents: float) -> float:
    return math.log(1 + (documents - df + 0.5) / (df + 0.5))


def saturation(tf: float, length: float, average_length: float) -> float:
    """How much of its idf a term earns that stands `tf` times in a document of this length."""
    if tf <= 0:
        return 0.0
    return tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / (average_length or 1.0)))
