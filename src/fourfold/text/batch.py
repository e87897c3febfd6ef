"""Index terms of many items at once: `analyse_item` in C, which calls back to Python for new words only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from zlib import crc32

import numpy as np

from fourfold.native.texts import Found, Full, TermTable
from fourfold.text.analysis import TERM_LENGTH, analyse_item, runs, token_terms
from fourfold.text.language import stems, stop_words

_CACHED_LANGUAGES = 8
_BATCH_CHARACTERS = 1 << 20
"""Maximum size of the texts passed to C in one call."""


def analyse_together(texts: Sequence[tuple[str, str]], language: str) -> Iterator[Found]:
    """Yield the terms of all texts, in their order, as columns; each contains the terms of some of them."""
    for batch in _batches(texts):
        try:
            yield _table(language).read([(_plain(title), _plain(text)) for title, text in batch])
        except Full:
            yield _one_by_one(batch, language)


def split_letters(words: Found) -> list[str]:
    """The terms of each item, with a space after each."""
    bounds = pairwise([0, *words.letter_ends.tolist()])
    if not words.letters.isascii():
        return [words.letters[a:b].decode() for a, b in bounds]
    letters = words.letters.decode("ascii")
    return [letters[a:b] for a, b in bounds]


def _batches(texts: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    start, size = 0, 0
    for place, (title, text) in enumerate(texts):
        size += len(title) + len(text)
        if size > _BATCH_CHARACTERS:
            yield texts[start : place + 1]
            start, size = place + 1, 0
    if start < len(texts):
        yield texts[start:]


def _plain(text: str) -> str:
    """Text that the C code can split into runs: ASCII as it is, other text as runs joined by spaces."""
    if text.isascii() and "\0" not in text:
        return text
    return " ".join(runs(text))


def _one_by_one(texts: Sequence[tuple[str, str]], language: str) -> Found:
    terms = [analyse_item(title, text, language) for title, text in texts]
    letters = [_spaced(each).encode() for each in terms]
    hashes = [crc32(term.encode()) for each in terms for term in each]
    hash_ends, letter_ends = (np.cumsum([len(each) for each in lists], dtype=np.int64) for lists in (terms, letters))
    return Found(np.array(hashes, np.uint32), hash_ends, b"".join(letters), letter_ends)


def _spaced(terms: Sequence[str]) -> str:
    return " ".join([*terms, ""])


# ---------------------------------------------------------------- callback for new words


@lru_cache(_CACHED_LANGUAGES)
def _table(language: str) -> TermTable:
    return TermTable(partial(_terms_of_new, language))


def _terms_of_new(language: str, keys: Sequence[str]) -> list[str]:
    """Return the terms of words (short and ASCII) and of other runs that the table does not know yet."""
    stops, words = stop_words(language), [key for key in keys if len(key) <= TERM_LENGTH and key.isascii()]
    pairs = zip(words, stems(words, language), strict=True)
    stemmed = ["" if word in stops else f"{stem[:TERM_LENGTH]} " for word, stem in pairs]
    if len(words) == len(keys):
        return stemmed
    by_word, terms = dict(zip(words, stemmed, strict=True)), token_terms(language)
    return [by_word[key] if key in by_word else _spaced(terms[key]) for key in keys]
