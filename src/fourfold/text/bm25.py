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


def norm(average_length: float) -> tuple[float, float]:
    """What is added to the occurrences of a term in a text, and how much more for each term of the text.

    All stores compute scores in this order, so that texts which tie in one of them tie in all.
    """
    slope = K1 * B / (average_length + BASE_LENGTH)
    return K1 * (1 - B) + slope * BASE_LENGTH, slope
