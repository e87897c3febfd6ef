"""Bindings of `terms.c` (index terms of many texts) and `languages.c` (their languages)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_int32, c_int64, c_uint8, c_void_p
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourfold.native import LIBRARY

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FULL, _NO_ROOM, _MALFORMED = -1, -2, -3
_SLOT_BITS = 19
_CELLS = 1 << 23
"""Size of the table in cells of four bytes; the operating system allocates pages when they are first written."""
_REQUESTED_KEYS = 1 << 14
_KEY_BYTES = 1 << 16


def _function(name: str, *arguments: Any) -> Callable[..., int]:
    found = getattr(LIBRARY, f"ff_terms_{name}")
    found.restype, found.argtypes = c_int64, arguments
    return found


_P, _N = c_void_p, c_int64
_clear = _function("clear", _P, _N, _N)
_scan = _function("scan", _P, c_char_p, _N, _N, _P, _N, _P, _P, _N, _P, _N, _P)
_emit = _function("emit", _P, _P, _P, _N, _P, _N, _P, _N, _P, _P)
_learn = _function("learn", _P, _P, _N, c_char_p, _N)


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
                result = found = _emitted(self._cells, runs, 2 * len(data) + 64)
                if isinstance(found, Found):
                    return found
            if result != _FULL or is_cleared:
                raise Full if result == _FULL else ValueError("a text contains a zero byte")
            self._clear()
            is_cleared = True

    def _learn(self, keys: Sequence[str], count: int) -> int:
        answers = "\n".join([*self._terms_of(keys), ""]).encode()
        return _learn(self._cells.ctypes.data, self._requested.ctypes.data, count, answers, len(answers))

    def _clear(self) -> None:
        _clear(self._cells.ctypes.data, len(self._cells), self._bits)


class _Runs:
    """The runs of some items, as `scan` finds them, and the keys that it requests."""

    def __init__(self, items: int, length: int) -> None:
        self.items = items
        self.entries = np.empty(length // 2 + 1, np.uint32)
        self.ends = np.empty(2 * items, np.int64)
        self._keys = np.empty(max(_KEY_BYTES, length + 1), np.uint8)
        self._key_length = c_int64()

    def scan(self, cells: NDArray[np.uint32], data: bytes, requested: NDArray[np.uint32]) -> int:
        found = (self.entries.ctypes.data, len(self.entries), self.ends.ctypes.data)
        keys = (self._keys.ctypes.data, len(self._keys), requested.ctypes.data, len(requested), byref(self._key_length))
        return _scan(cells.ctypes.data, data, len(data), self.items, *found, *keys)

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
        result = _emit(
            cells.ctypes.data, runs.entries.ctypes.data, runs.ends.ctypes.data, runs.items,
            hashes.ctypes.data, room, letters.ctypes.data, room, hash_ends.ctypes.data, letter_ends.ctypes.data,
        )  # fmt: skip
        if not result:
            return Found(hashes[: hash_ends[-1]], hash_ends, letters[: letter_ends[-1]].tobytes(), letter_ends)
        if result != _NO_ROOM:
            return result
        room *= 2


# ---------------------------------------------------------------- languages

LANGUAGES = 48
_languages = LIBRARY.ff_languages
_languages.restype = c_int64
_languages.argtypes = (c_char_p, _N, _N, c_char_p, _N, _P, _P, _P)


class LanguageTable:
    """Weights of parts of words for each of 48 languages (int8), in 2^n rows."""

    def __init__(self, weights: bytes) -> None:
        self._weights, self._bits = weights, (len(weights) // LANGUAGES).bit_length() - 1
        if self._bits < 0 or len(weights) != LANGUAGES << self._bits:
            raise ValueError("the number of rows is not a power of two")

    def best(self, texts: Sequence[str], priors: Sequence[int]) -> list[tuple[int, int]]:
        """Return for each text in lower case the number of its language, and the lead of that over the second.

        `priors`: the score of each language for a text without words.
        """
        data = "\0".join([*texts, ""]).encode("utf-8", "replace")
        best, leads = (c_uint8 * len(texts))(), (c_int32 * len(texts))()
        start = (c_int32 * LANGUAGES)(*priors)
        if _languages(data, len(data), len(texts), self._weights, self._bits, start, best, leads):
            raise ValueError("a text contains a zero byte")
        return list(zip(best, leads, strict=True))
