"""Misspelt words of a query: the spellings at one edit that occur in a store.

A word that no item contains may be a typing error, unless it is a common word: in a small store most words of a
question occur nowhere, and "locked" does not mean "looked". Every spelling that one edit (a letter too many, missing or
wrong, or two neighbours exchanged) turns it into is looked up among the store's words, so no index is needed besides
that of the words themselves, and an error is found wherever it is, also in an ending that stemming removes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fourfold.text.analysis import QueryWord
from fourfold.text.stems import is_strong_verb, stem, stems

CORRECTED_WEIGHT = 0.8
"""Weight of a corrected spelling, compared with 1 for a word that occurs as it was typed."""

MOST_WORDS = 4
"""Maximum number of words of one query that are corrected."""

MOST_SPELLINGS = 3
"""Maximum number of terms that replace one word."""

_LETTERS = range(4, 25)
"""Length of the words that are corrected: a shorter word has too many neighbours."""

_FIRST_LETTER_TOO = 6
"""Length of the words whose first letter is corrected, too."""

_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρσςτυφχψω")
Frequencies = Callable[[Sequence[str]], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that occurs in no item, and the words that it may mean."""

    surface: str
    """The folded word, as the user typed it."""
    spellings: tuple[str, ...]
    """The most frequent first."""
    terms: tuple[str, ...]
    """Their index terms."""
    items: tuple[int, ...]
    """The number of items that contain each term."""


def corrections(
    unknown: Sequence[QueryWord], languages: Sequence[str], frequencies: Frequencies
) -> dict[str, Correction]:
    """Return the corrections of words that occur in no item, by their surface. One call of `frequencies` for all."""
    words = [word.surface for word in unknown if can_be_corrected(word.surface)][:MOST_WORDS]
    terms = {word: spelling_terms(word, languages or ("",)) for word in words}
    every = list(dict.fromkeys(term for found in terms.values() for term in found))
    counts = dict(zip(every, frequencies(every), strict=True)) if every else {}
    found = {word: _best(word, terms[word], counts) for word in words}
    return {word: correction for word, correction in found.items() if correction is not None}


def can_be_corrected(word: str) -> bool:
    if len(word) not in _LETTERS or not word.isalpha() or _alphabet(word) == "":
        return False
    return word not in _common_words() and not is_strong_verb(word)


@cache
def _common_words() -> frozenset[str]:
    """Words, folded, that the vocabulary of the built-in encoder has as a whole."""
    pieces = files("fourfold").joinpath("embed", "encoders", "vocab.txt").read_text("utf-8").split("\n")
    return frozenset(piece for piece in pieces if piece.isalpha())


def _best(word: str, terms: Mapping[str, str], counts: Mapping[str, int]) -> Correction | None:
    known = sorted((term for term in terms if counts[term]), key=lambda term: (-counts[term], term))[:MOST_SPELLINGS]
    spellings, items = tuple(terms[term] for term in known), tuple(counts[term] for term in known)
    return Correction(word, spellings, tuple(known), items) if known else None


def spelling_terms(word: str, languages: Iterable[str]) -> dict[str, str]:
    """Return the index terms of all spellings, each with the likeliest spelling that has it."""
    found: dict[str, str] = {}
    spellings = edits(word)
    for language in languages:
        terms = stems(spellings, language) if word.isascii() else [stem(each, language) for each in spellings]
        for term, spelling in zip(terms, spellings, strict=True):
            found.setdefault(term, spelling)
    return found


def edits(word: str) -> list[str]:
    """Return every spelling at one edit, the likeliest kind of error first: exchanged, missing, additional, wrong.

    The first letter of a short word stays: errors are rare there, and many words differ only in it.
    """
    letters = _alphabet(word)
    cuts = range(0 if len(word) >= _FIRST_LETTER_TOO else 1, len(word))
    exchanged = [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)]
    longer = [word[:i] + letter + word[i:] for i in (*cuts, len(word)) for letter in letters]
    shorter = [word[:i] + word[i + 1 :] for i in cuts]
    replaced = [word[:i] + letter + word[i + 1 :] for i in cuts for letter in letters]
    return [each for each in dict.fromkeys((*exchanged, *longer, *shorter, *replaced)) if each != word]


def _alphabet(word: str) -> str:
    """The alphabet of all letters of a folded word; empty if there is none."""
    return next((alphabet for alphabet in _ALPHABETS if set(word) <= set(alphabet)), "")
