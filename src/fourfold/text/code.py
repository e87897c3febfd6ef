"""Source code in a store, and in a query.

A question in prose about source code shares few words with it, so vectors deserve more weight than the evidence of the
words says. How much of a store is code is told by words that code uses and prose hardly does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fourfold.text.analysis import QueryWord

RETURN: Final = "return"
"""Occurs in most functions of most languages, and in few texts."""
CODE_WORDS: Final = (
    *("def", "elif", "func", "fn", "const", "void", "struct", "null", "bool", "int", "str", "var", "printf", "println"),
    *("nullptr", "endif"),
)
"""Words of several programming languages that are rare in prose."""
MARKERS: Final = (RETURN, *CODE_WORDS)


def code_share(frequencies: Callable[[Sequence[str]], Sequence[int]], documents: int) -> float:
    """Return an estimate of the share of items that are code, in 0..1, from the number of items with each marker.

    Not more than the items with `return`, and not more than those with the most frequent other marker: a text about
    *null mice* or *return journeys* has only one of them.
    """
    returning, *others = frequencies(MARKERS)
    return min(returning, max(others)) / documents if documents else 0.0


def prose_share(tokens: Sequence[Sequence[QueryWord]]) -> float:
    """Return the share of a query's tokens that are not spelled as identifiers: `get_user`, `getUser`, `os.path`."""
    return sum([len(token) == 1 for token in tokens]) / len(tokens) if tokens else 0.0
