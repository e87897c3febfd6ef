"""The rows nearest to a vector, in one call of the kernel (`scoring.c`) or in its own thread (`worker.c`)."""

from __future__ import annotations

import atexit
from ctypes import Structure, addressof, byref, c_int, c_int64, c_void_p
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.native import FEW_TO_SCORE, KEEPING_GIL, LIBRARY, ForRows, addresses, as_in_kernel, failure, function

if TYPE_CHECKING:
    from fourfold.native import Floats, Ints
    from fourfold.native.codes import Codes
    from fourfold.native.scoring import Scorer

_begin = function(KEEPING_GIL, "begin", None, c_void_p)
_finish = ForRows(FEW_TO_SCORE, "finish", c_int64, c_void_p)
_is_busy = function(KEEPING_GIL, "is_busy", c_int, c_void_p)
_INT64, _FLOAT64 = map(np.dtype, (np.int64, np.float64))


@as_in_kernel(5)
class _Nearest(Structure):
    """`Nearest` of rankings.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("scoring", "codes", "rows", "tail")),
        *((name, c_int64) for name in ("row_count", "tail_count", "limit")),
        *((name, c_void_p) for name in ("ids", "scores")),
        *((name, c_int64) for name in ("scored", "found", "stage")),
    )


class Nearest:
    """A search for the rows nearest to the vector of a scorer. Holds all arrays that the kernel reads and writes."""

    __slots__ = ("_held", "_ids", "_scores", "_struct", "count")

    def __init__(self, scorer: Scorer, codes: Codes | None, rows: Ints | None, tail: Ints, limit: int) -> None:
        """`rows`: of the published part; None, if there are codes, for all. `codes`: by which rows are ruled out."""
        part = scorer.struct.parts[0]
        if codes is not None and codes.shape != (part.row_count, part.size):
            raise ValueError(f"there are codes of the shape {codes.shape} for {part.row_count} rows of {part.size}")
        if codes is None and rows is None:
            raise ValueError("rows are needed where there are no codes")
        published = part.row_count if rows is None else len(rows)
        self.count = published + len(tail)
        """Of all rows."""
        room = min(limit, self.count)
        self._ids, self._scores = np.empty(room, np.int64), np.empty(room)
        self._held = scorer, codes, rows, tail
        first, last, ids, scores = addresses(
            (rows, _INT64), (tail, _INT64), (self._ids, _INT64), (self._scores, _FLOAT64)
        )
        coded = None if codes is None else addressof(codes.struct)
        given = addressof(scorer.struct), coded, first, last, published, len(tail), limit, ids, scores
        self._struct: Any = _Nearest(*given)

    def start(self) -> None:
        """Begin in the thread of the kernel, if it is free; else `result` does the work."""
        for job in [*_started]:
            if not job.is_busy:
                _started.discard(job)
        _started.add(self)
        _begin(byref(self._struct))

    def result(self) -> tuple[Ints, Floats]:
        """Return items and cosines, best first, ties by id; raise OutOfRange if a row does not match its checksum."""
        found = _finish(self.count, byref(self._struct))
        _started.discard(self)
        if found < 0:
            raise failure(found)
        return self._ids[:found], self._scores[:found]

    @property
    def is_busy(self) -> bool:
        """Whether the thread of the kernel may read the arrays."""
        return bool(_is_busy(byref(self._struct)))

    @property
    def scored(self) -> int:
        """The number of rows that were not ruled out by their codes."""
        return self._struct.scored


_started: set[Nearest] = set()
"""What the thread may read. After Ctrl-C or an error nobody waits for a search: it stays here until a later start."""
atexit.register(function(LIBRARY, "end", None))
