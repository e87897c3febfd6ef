"""The table of `terms.c`: the terms of every word and run of one language that was met so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_int64, c_void_p
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourfold.native import LIBRARY

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FULL, _NO_ROOM, _MALFORMED = -1, -2, -3
_BITS = 19
_CELLS = 1 << 23
"""Of four bytes each. Memory that nothing was written to yet is none."""
_ASKED = 1 << 14
_KEYS = 1 << 16


def _function(name: str, *arguments: Any) -> Callable[..., int]:
    found = getattr(LIBRARY, f"ff_terms_{name}")
    found.restype, found.argtypes = c_int64, arguments
    return found


_P, _N = c_void_p, c_int64
_clear = _function("clear", _P, _N, _N)
_read = _function("read", _P, c_char_p, _N, _N, _P, _N, _P, _N, _P, _P, _P, _N, _P, _N, _P)
_learn = _function("learn", _P, _P, _N, c_char_p, _N)


class Found(NamedTuple):
    """The terms of some items."""

    hashes: NDArray[np.uint32]
    hash_ends: NDArray[np.int64]
    letters: bytes
    """Of all terms, with a space after each."""
    letter_ends: NDArray[np.int64]


class Full(Exception):
    """These texts have more distinct words than the table has room for."""


Answer = Callable[[Sequence[str]], Sequence[str]]


class TermTable:
    """`answer` is asked once for every word (short, small ASCII letters) and every run of other characters, and gives
    the terms of each, with a space after each term. Threads take turns."""

    def __init__(self, answer: Answer, *, cells: int = _CELLS, bits: int = _BITS) -> None:
        self._answer = answer
        self._bits = bits
        self._cells = np.zeros(cells, np.uint32)
        self._asked = np.empty(_ASKED, np.uint32)
        self._turn = Lock()
        self._forget()

    def read(self, texts: Sequence[tuple[str, str]]) -> Found:
        """The terms of titles and texts, of which ASCII and what has no space in it is read; titles count twice."""
        given = b"".join([f"{title}\0{text}\0".encode() for title, text in texts])
        with self._turn:
            try:
                return self._found(given, len(texts))
            except BaseException:
                self._forget()  # what was asked for and not answered would never be asked for again
                raise

    def _found(self, given: bytes, items: int) -> Found:
        room, is_new = 2 * len(given) + 64, False
        while True:
            found = _Buffers(room, items, len(given))
            result = found.read(self._cells, given, items, self._asked)
            if result > 0:
                result = self._learn(found.asked(), result)
                if not result:
                    continue
            if not result:
                return found.found()
            if result == _NO_ROOM:
                room *= 2
            elif result != _FULL or is_new:
                raise Full if result == _FULL else ValueError("texts that hold zeros")
            else:
                self._forget()
                is_new = True

    def _learn(self, keys: Sequence[str], count: int) -> int:
        answers = "\n".join([*self._answer(keys), ""]).encode()
        return _learn(self._cells.ctypes.data, self._asked.ctypes.data, count, answers, len(answers))

    def _forget(self) -> None:
        _clear(self._cells.ctypes.data, len(self._cells), self._bits)


class _Buffers:
    """For what one reading finds, and what it has to ask."""

    def __init__(self, room: int, items: int, length: int) -> None:
        self._hashes, self._letters = np.empty(room, np.uint32), np.empty(room, np.uint8)
        self._hash_ends, self._letter_ends = np.empty(items, np.int64), np.empty(items, np.int64)
        self._keys = np.empty(max(_KEYS, length + 1), np.uint8)
        self._key_length = c_int64()

    def read(self, cells: NDArray[np.uint32], given: bytes, items: int, asked: NDArray[np.uint32]) -> int:
        room, ends = len(self._hashes), (self._hash_ends.ctypes.data, self._letter_ends.ctypes.data)
        found = (self._hashes.ctypes.data, room, self._letters.ctypes.data, room, *ends)
        asking = (self._keys.ctypes.data, len(self._keys), asked.ctypes.data, len(asked), byref(self._key_length))
        return _read(cells.ctypes.data, given, len(given), items, *found, *asking)

    def asked(self) -> list[str]:
        return self._keys[: self._key_length.value].tobytes().decode().split("\n")[:-1]

    def found(self) -> Found:
        letters = self._letters[: self._letter_ends[-1]].tobytes()
        return Found(self._hashes[: self._hash_ends[-1]], self._hash_ends, letters, self._letter_ends)
