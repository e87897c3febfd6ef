"""BM25, the keyword score of every store."""

from __future__ import annotations

import math
from collections.abc import Iterable

K1 = 1.2
B = 0.75
BASE_LENGTH = 50
"""Number of terms added to the length of every item.

Plain BM25 prefers the shortest of several short notes, although their length says little about them. The addition
removes that bias and hardly changes the scores of pages.
"""


def idf(df: float, documents: float) -> float:
    return idfs((df,), documents)[0]


def idfs(dfs: Iterable[float], documents: float) -> list[float]:
    """Return the idf of several terms."""
    return [math.log(1 + (documents - df + 0.5) / (df + 0.5)) for df in dfs]


def saturation(tf: float, length: float, average_length: float) -> float:
    """Factor on the idf of a term that occurs `tf` times in a document of this length."""
    if tf <= 0:
        return 0.0
    relative = (length + BASE_LENGTH) / (average_length + BASE_LENGTH)
    return tf * (K1 + 1) / (tf + K1 * (1 - B + B * relative))
