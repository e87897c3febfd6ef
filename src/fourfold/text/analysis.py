"""Text to index terms: a pure function of text and language, the same for every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import sqrt

from fourfold.text.fold import fold
from fourfold.text.language import guess
from fourfold.text.query import QueryWord
from fourfold.text.stems import stem
from fourfold.text.stopwords import stop_words
from fourfold.text.tokens import pieces, runs, tokens

ANALYSER_VERSION = "2"
"""Goes into the stamp of every keyword index: another version, another index."""

TERM_LENGTH = 64
_CACHED_TOKENS = 200_000
_CACHED_LANGUAGES = 16


class _Terms(dict[str, tuple[str, ...]]):
    """The terms of every run of tokens met so far: most words of a text are old acquaintances."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, run: str) -> tuple[str, ...]:
        parts = [_terms_of(token, self._language) for token in tokens(run)]
        terms = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
        if len(run) <= TERM_LENGTH:
            if len(self) >= _CACHED_TOKENS:
                self.clear()
            self[run] = terms
        return terms


@lru_cache(_CACHED_LANGUAGES)
def token_terms(language: str) -> _Terms:
    """The table from a run of tokens to the index terms of a language; it fills itself."""
    return _Terms(language)


def analyse(text: str, language: str) -> list[str]:
    """The index terms of a text, in order. No term has white space in it, or more than 64 characters."""
    return list(chain.from_iterable(map(token_terms(language).__getitem__, runs(text))))


def analyse_item(title: str, text: str, language: str) -> list[str]:
    """The index terms of an item. Its title stands there twice: a word in it says more than one in the text."""
    named = analyse(title, language)
    return [*named, *named, *analyse(text, language)]


def _terms_of(token: str, language: str) -> tuple[str, ...]:
    return tuple([term for piece in pieces(token) if (term := _index_term(piece, language))])


@lru_cache(100_000)
def _index_term(piece: str, language: str) -> str:
    """The term of a piece; empty for a stop word."""
    return "" if fold(piece) in stop_words(language) else _term(piece, language)


@lru_cache(10_000)
def _query_term(piece: str, language: str) -> str:
    return _term(piece, language)


def _term(piece: str, language: str) -> str:
    """The stem of a word; what has a digit or a symbol in it is a name and stays."""
    piece = piece[:TERM_LENGTH]
    if piece.isascii() and not piece.isalpha():
        return piece
    return stem(piece, language if piece.isalpha() else "")[:TERM_LENGTH]


def query_words(text: str, languages: Sequence[str]) -> list[QueryWord]:
    """The distinct words of a query in order, each with its stem in every language that the namespace holds.

    A word weighs the square root of its occurrences. Stop words of the query's own language say nothing and are left
    out, unless the query has no other words.
    """
    stops = stop_words(guess(text, languages))
    occurrences = _occurrences(text)
    telling = {piece: count for piece, count in occurrences.items() if fold(piece) not in stops}
    return _query_words(telling or occurrences, languages or ("",))


def _occurrences(text: str) -> dict[str, float]:
    """How often each piece stands in a text. Pieces of one token say the same twice, so they count half."""
    counts: dict[str, float] = {}
    for found in map(pieces, tokens(text)):
        for piece in found:
            counts[piece] = counts.get(piece, 0.0) + (1.0 if len(found) == 1 else 0.5)
    return counts


def _query_words(occurrences: Mapping[str, float], languages: Sequence[str]) -> list[QueryWord]:
    """Words with the same stems (contract, contracts) are one."""
    surfaces: dict[tuple[str, ...], str] = {}
    counts: dict[tuple[str, ...], float] = {}
    for piece, count in occurrences.items():
        terms = tuple(dict.fromkeys(_query_term(piece, language) for language in languages))
        surfaces.setdefault(terms, fold(piece))
        counts[terms] = counts.get(terms, 0.0) + count
    return [_query_word(surface, terms, sqrt(counts[terms])) for terms, surface in surfaces.items()]


def _query_word(surface: str, terms: Sequence[str], weight: float) -> QueryWord:
    return QueryWord(surface, tuple((term, weight) for term in terms))
