"""The terms of many items at once, as `analyse_item` has them one by one: in C, but for words that are new to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from fourfold.native.terms import Found, Full, TermTable
from fourfold.text.analysis import TERM_LENGTH, analyse_item, token_terms
from fourfold.text.stems import stems
from fourfold.text.stopwords import stop_words
from fourfold.text.tokens import runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CACHED_LANGUAGES = 8
_CHARACTERS = 1 << 20
"""Of texts that are read together."""


class Terms(NamedTuple):
    """Of one item: the hash of each term in order, and the terms themselves with a space after each."""

    hashes: NDArray[np.uint32]
    letters: str


def analyse_items(texts: Sequence[tuple[str, str]], language: str) -> Iterator[Terms]:
    """The terms of titles and texts in one language."""
    for part in _parts(texts):
        try:
            found = _table(language).read([(_plain(title), _plain(text)) for title, text in part])
        except Full:
            yield from (_one_by_one(title, text, language) for title, text in part)
        else:
            yield from _apart(found)


def _parts(texts: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    start, size = 0, 0
    for place, (title, text) in enumerate(texts):
        size += len(title) + len(text)
        if size > _CHARACTERS:
            yield texts[start : place + 1]
            start, size = place + 1, 0
    if start < len(texts):
        yield texts[start:]


def _plain(text: str) -> str:
    """What the table can cut into runs by itself: ASCII, or the runs with spaces between them."""
    if text.isascii() and "\0" not in text:
        return text
    return " ".join(runs(text))


def _apart(found: Found) -> Iterator[Terms]:
    hash_ends, letter_ends = found.hash_ends.tolist(), found.letter_ends.tolist()
    letters = found.letters.decode("ascii") if found.letters.isascii() else found.letters
    for (a, b), (c, d) in zip(pairwise([0, *hash_ends]), pairwise([0, *letter_ends]), strict=True):
        own = letters[c:d]
        yield Terms(found.hashes[a:b], own if isinstance(own, str) else own.decode())


def _one_by_one(title: str, text: str, language: str) -> Terms:
    terms = analyse_item(title, text, language)
    return Terms(np.array([crc32(term.encode()) for term in terms], np.uint32), _spaced(terms))


def _spaced(terms: Sequence[str]) -> str:
    return " ".join([*terms, ""])


# ---------------------------------------------------------------- what is new


@lru_cache(_CACHED_LANGUAGES)
def _table(language: str) -> TermTable:
    return TermTable(partial(_answers, language))


def _answers(language: str, asked: Sequence[str]) -> list[str]:
    """The terms of words and runs, as the table asks for them."""
    stops, words = stop_words(language), [key for key in asked if _is_word(key)]
    known = {
        word: "" if word in stops else f"{stem[:TERM_LENGTH]} "
        for word, stem in zip(words, stems(words, language), strict=True)
    }
    terms = token_terms(language)
    return [known[key] if key in known else _spaced(terms[key]) for key in asked]


def _is_word(key: str) -> bool:
    """Otherwise it is a run: one of other characters, or too long to be a word."""
    return key.isascii() and len(key) <= TERM_LENGTH
