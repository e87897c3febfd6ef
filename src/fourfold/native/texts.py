"""Bindings of the kernel for texts: terms, languages, and hints of secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ctypes import byref, c_char_p, c_int32, c_int64, c_uint8, c_uint32, c_uint64
from enum import IntFlag
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourfold.native.bindings import INT64, LIBRARY, UINT8, UINT32, N, P, function

if TYPE_CHECKING:
    from numpy.typing import NDArray

# ---------------------------------------------------------------- terms (`terms.c`)

_FULL, _NO_ROOM, _MALFORMED = -1, -2, -3
_SLOT_BITS = 19
_CELLS = 1 << 23
"""Size of the table in cells of four bytes; the operating system allocates pages when they are first written."""
_REQUESTED_KEYS = 1 << 14
_KEY_BYTES = 1 << 16


_terms_clear = function(LIBRARY, "terms_clear", c_int64, UINT32, N, N)
_terms_scan = function(
    LIBRARY, "terms_scan", c_int64, UINT32, c_char_p, N, N, UINT32, N, INT64, UINT8, N, UINT32, N, P, fails=False
)
_terms_emit = function(
    LIBRARY, "terms_emit", c_int64, UINT32, UINT32, INT64, N, UINT32, N, UINT8, N, INT64, INT64, fails=False
)
_terms_learn = function(LIBRARY, "terms_learn", c_int64, UINT32, UINT32, N, c_char_p, N, fails=False)


class Found(NamedTuple):
    """The terms of several items."""

    hashes: NDArray[np.uint32]
    hash_ends: NDArray[np.int64]
    letters: bytes
    """All terms with a space after each."""
    letter_ends: NDArray[np.int64]


class Full(Exception):
    """The texts have more distinct words than the table can hold."""


TermsOf = Callable[[Sequence[str]], Sequence[str]]


class TermTable:
    """Table of the terms of all words and runs of one language seen so far; thread-safe.

    `terms_of` is called once for every word (short, lower-case ASCII) and every run of other characters, and returns
    the terms of each key with a space after each term.
    """

    def __init__(self, terms_of: TermsOf, *, cells: int = _CELLS, bits: int = _SLOT_BITS) -> None:
        self._terms_of = terms_of
        self._bits = bits
        self._cells = np.zeros(cells, np.uint32)
        self._requested = np.empty(_REQUESTED_KEYS, np.uint32)
        self._lock = Lock()
        self._clear()

    def read(self, texts: Sequence[tuple[str, str]]) -> Found:
        """Return the terms of (title, text) pairs, which are ASCII or runs joined by spaces; titles count twice."""
        data = b"".join([f"{title}\0{text}\0".encode() for title, text in texts])
        with self._lock:
            try:
                return self._found(data, len(texts))
            except BaseException:
                self._clear()  # keys requested but not answered would never be requested again
                raise

    def _found(self, data: bytes, items: int) -> Found:
        runs, is_cleared = _Runs(items, len(data)), False
        while True:
            result = runs.scan(self._cells, data, self._requested)
            if result > 0:
                result = self._learn(runs.requested(), result)
            if not result and not runs.is_complete:
                continue
            if not result:
                result = emitted = _emitted(self._cells, runs, 2 * len(data) + 64)
                if isinstance(emitted, Found):
                    return emitted
            if result != _FULL or is_cleared:
                raise Full if result == _FULL else ValueError("a text contains a zero byte")
            self._clear()
            is_cleared = True

    def _learn(self, keys: Sequence[str], count: int) -> int:
        answers = "\n".join([*self._terms_of(keys), ""]).encode()
        return _terms_learn(self._cells, self._requested, count, answers, len(answers))

    def _clear(self) -> None:
        _terms_clear(self._cells, len(self._cells), self._bits)


class _Runs:
    """The runs of some items, as `scan` finds them, and the keys that it requests."""

    def __init__(self, items: int, length: int) -> None:
        self.items = items
        self.entries = np.empty(length // 2 + 1, np.uint32)
        self.ends = np.empty(2 * items, np.int64)
        self._keys = np.empty(max(_KEY_BYTES, length + 1), np.uint8)
        self._key_length = c_int64()

    def scan(self, cells: NDArray[np.uint32], data: bytes, requested: NDArray[np.uint32]) -> int:
        runs = self.entries, len(self.entries), self.ends
        keys = self._keys, len(self._keys), requested, len(requested), byref(self._key_length)
        return _terms_scan(cells, data, len(data), self.items, *runs, *keys)

    @property
    def is_complete(self) -> bool:
        """False if more keys were missing than can be requested at once."""
        return not self.items or self.ends[-1] >= 0

    def requested(self) -> list[str]:
        return self._keys[: self._key_length.value].tobytes().decode().split("\n")[:-1]


def _emitted(cells: NDArray[np.uint32], runs: _Runs, room: int) -> Found | int:
    """The terms of these runs, or why there are none."""
    while True:
        hashes, letters = np.empty(room, np.uint32), np.empty(room, np.uint8)
        hash_ends, letter_ends = np.empty(runs.items, np.int64), np.empty(runs.items, np.int64)
        targets = hashes, room, letters, room, hash_ends, letter_ends
        result = _terms_emit(cells, runs.entries, runs.ends, runs.items, *targets)
        if not result:
            return Found(hashes[: hash_ends[-1]], hash_ends, letters[: letter_ends[-1]].tobytes(), letter_ends)
        if result != _NO_ROOM:
            return result
        room *= 2


# ---------------------------------------------------------------- languages

LANGUAGES = 48
_languages = function(LIBRARY, "languages", c_int64, c_char_p, N, N, c_char_p, N, P, P, P, fails=False)


class LanguageTable:
    """Weights of parts of words for each of 48 languages (int8), in 2^n rows."""

    def __init__(self, weights: bytes) -> None:
        self._weights, self._bits = weights, (len(weights) // LANGUAGES).bit_length() - 1
        if self._bits < 0 or len(weights) != LANGUAGES << self._bits:
            raise ValueError("the number of rows is not a power of two")

    @staticmethod
    def scores(numbers: Iterable[int]) -> Any:
        """The score of each language, as `best` takes them."""
        return (c_int32 * LANGUAGES)(*numbers)

    def best(self, texts: Sequence[str], priors: Any) -> list[tuple[int, int]]:
        """Return for each text in lower case the number of its language, and the lead of that over the second.

        `priors`: the scores for a text without words.
        """
        data = "\0".join([*texts, ""]).encode("utf-8", "replace")
        best, leads = (c_uint8 * len(texts))(), (c_int32 * len(texts))()
        if _languages(data, len(data), len(texts), self._weights, self._bits, priors, best, leads):
            raise ValueError("a text contains a zero byte")
        return list(zip(best, leads, strict=True))


# ---------------------------------------------------------------- hints (`hints.c`)

_hints = function(LIBRARY, "hints", c_int64, c_char_p, N, N, c_char_p, P, c_char_p, N, P, fails=False)


class Condition(IntFlag):
    """When the letters of a hint count."""

    EXACT = 1
    """In the given case only; otherwise they are given in lower case, and may be in any."""
    STARTS = 2
    """No ASCII letter precedes them."""
    ASSIGNED = 4
    """An assignment of a value of at least 16 characters follows, perhaps after a plural s and a quote."""
    ADDRESS = 8
    """A name and a colon follow."""


class Hint(NamedTuple):
    letters: str
    conditions: Condition


class Hints:
    """At most 64 hints of ASCII letters, each at least two long."""

    def __init__(self, hints: Sequence[Hint]) -> None:
        letters = [hint.letters.encode("ascii") for hint in hints]
        if len(letters) > 64 or any(len(each) < 2 or 0 in each for each in letters):
            raise ValueError("at most 64 hints, each of two letters or more, can be looked for")
        self._letters = b"".join(letters)
        self._ends = (c_uint32 * len(letters))(*accumulate(map(len, letters)))
        self._conditions = bytes(hint.conditions for hint in hints)

    def find(self, texts: Sequence[str]) -> list[int]:
        """The hints in each text: bit h is set if hint h is."""
        data = "\0".join([*texts, ""]).encode("utf-8", "surrogatepass")
        bits = (c_uint64 * len(texts))()
        failed = _hints(
            data, len(data), len(texts), self._letters, self._ends, self._conditions, len(self._conditions), bits
        )
        if failed:
            raise ValueError("a text contains a zero byte")
        return list(bits)
