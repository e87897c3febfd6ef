"""The table of `votes.c`: common words, and what each gives to every language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_char_p, c_int64, c_void_p
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from fourfold.native import LIBRARY

if TYPE_CHECKING:
    from numpy.typing import NDArray

_P, _N = c_void_p, c_int64
_table, _votes = LIBRARY.ff_votes_table, LIBRARY.ff_votes
_table.restype = _votes.restype = c_int64
_table.argtypes = (c_char_p, _P, _N, _P, _N)
_votes.argtypes = (_P, _N, _N, c_char_p, _P, _P, _N, _P, _P, _N, _P)


class Ballots:
    """For texts of ASCII characters, in which nothing but words of those can be found."""

    def __init__(self, words: Mapping[str, Sequence[int]]) -> None:
        known = {word.encode(): given for word, given in words.items() if word.isascii()}
        self._letters = b"".join(known)
        self._ends = np.array(list(accumulate(map(len, known))), np.uint32)
        self._given = np.array(list(known.values()), np.uint32)
        self._bits = (2 * len(known)).bit_length()
        self._slots = np.zeros(1 << self._bits, np.uint32)
        _table(self._letters, self._ends.ctypes.data, len(known), self._slots.ctypes.data, self._bits)

    def count(self, texts: Sequence[str]) -> NDArray[np.uint32]:
        """What the distinct words of each text give to each language."""
        given = np.frombuffer(bytearray("\0".join([*texts, ""]), "ascii"), np.uint8)
        words, languages = self._given.shape
        seen, votes = np.zeros(words, np.uint32), np.zeros((len(texts), languages), np.uint32)
        done = _votes(
            given.ctypes.data, len(given), len(texts), self._letters, self._ends.ctypes.data, self._slots.ctypes.data,
            self._bits, seen.ctypes.data, self._given.ctypes.data, languages, votes.ctypes.data,
        )  # fmt: skip
        if done:
            raise ValueError("a text holds a zero")
        return votes
