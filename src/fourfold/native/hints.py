"""Binding of `hints.c`: which of some hints texts contain, in one pass over them."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_char_p, c_int64, c_uint32, c_uint64, c_void_p
from enum import IntFlag
from itertools import accumulate
from typing import NamedTuple

from fourfold.native import LIBRARY, function

_P, _N = c_void_p, c_int64
_hints = function(LIBRARY, "hints", c_int64, c_char_p, _N, _N, c_char_p, _P, c_char_p, _N, _P)


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

    def found(self, texts: Sequence[str]) -> list[int]:
        """The hints in each text: bit h is set if hint h is."""
        data = "\0".join([*texts, ""]).encode("utf-8", "surrogatepass")
        found = (c_uint64 * len(texts))()
        failed = _hints(
            data, len(data), len(texts), self._letters, self._ends, self._conditions, len(self._conditions), found
        )
        if failed:
            raise ValueError("a text contains a zero byte")
        return list(found)
