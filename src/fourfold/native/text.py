"""Bindings of `terms.c` (index terms of many texts) and `votes.c` (what texts say about their languages)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_char_p, c_int64, c_void_p
from itertools import accumulate
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


# ---------------------------------------------------------------- votes

_table, _votes = LIBRARY.ff_votes_table, LIBRARY.ff_votes
_table.restype = _votes.restype = c_int64
_table.argtypes = (c_char_p, _P, _N, _P, _N)
_votes.argtypes = (_P, _N, _N, c_char_p, _P, _P, _N, _P, _P, _N, _P)


class Ballots:
    """Table of common ASCII words and the votes of each for every language."""

    def __init__(self, words: Mapping[str, Sequence[int]]) -> None:
        known = {word.encode(): votes for word, votes in words.items() if word.isascii()}
        self._letters = b"".join(known)
        self._ends = np.array(list(accumulate(map(len, known))), np.uint32)
        self._ballots = np.array(list(known.values()), np.uint32)
        self._bits = (2 * len(known)).bit_length()
        self._slots = np.zeros(1 << self._bits, np.uint32)
        _table(self._letters, self._ends.ctypes.data, len(known), self._slots.ctypes.data, self._bits)

    def count(self, texts: Sequence[str]) -> NDArray[np.uint32]:
        """Return the votes of the distinct words of each ASCII text for each language."""
        data = np.frombuffer(bytearray("\0".join([*texts, ""]), "ascii"), np.uint8)
        words, languages = self._ballots.shape
        seen, votes = np.zeros(words, np.uint32), np.zeros((len(texts), languages), np.uint32)
        failed = _votes(
            data.ctypes.data, len(data), len(texts), self._letters, self._ends.ctypes.data, self._slots.ctypes.data,
            self._bits, seen.ctypes.data, self._ballots.ctypes.data, languages, votes.ctypes.data,
        )  # fmt: skip
        if failed:
            raise ValueError("a text contains a zero byte")
        return votes


# ---------------------------------------------------------------- features of a language model

_features = LIBRARY.ff_features
_features.restype = c_int64
_features.argtypes = (c_char_p, _N, _P, _N, _P, _P, _N, _P, _N, _P, _P)


class Automaton:
    """Finds the features of a language model in texts; thread-safe.

    `moves`: rows of 256 states each. `rows`: the row of each state. `outputs`: the feature of each state, or -1.
    """

    def __init__(self, moves: NDArray[np.uint32], rows: NDArray[np.uint32], outputs: NDArray[np.int32]) -> None:
        if not len(rows) or len(rows) != len(outputs):
            raise ValueError("each state has a row and an output")
        self._moves, self._rows, self._outputs = moves, rows, outputs
        self._seen = np.zeros(int(outputs.max(initial=0)) + 1, np.uint32)
        self._lock = Lock()

    def features(self, text: bytes) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The distinct features of a text, in its order, and how often each occurs."""
        found, counts = np.empty(len(text), np.int32), np.empty(len(text), np.float32)
        with self._lock:
            distinct = _features(
                text, len(text), self._moves.ctypes.data, len(self._moves), self._rows.ctypes.data,
                self._outputs.ctypes.data, len(self._outputs), self._seen.ctypes.data, len(self._seen),
                found.ctypes.data, counts.ctypes.data,
            )  # fmt: skip
        if distinct < 0:
            raise ValueError("the language model is damaged")
        return found[:distinct], counts[:distinct]
