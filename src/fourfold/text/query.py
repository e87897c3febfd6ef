"""A query as words, each with the index terms that stand for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryWord:
    """One word of a query. A document matches it by its best variant, so a word never counts twice."""

    surface: str
    """The folded word, as the user typed it."""
    variants: tuple[tuple[str, float], ...]
    """(index term, weight): the stem in each language of the namespace, and related terms, which weigh less.

    A word that stands once in the query weighs 1.0, one that stands n times the square root of n, and a piece of a
    joined word (`node` of `node.js`) 0.7.
    """
