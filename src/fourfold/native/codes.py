"""Vectors in one byte per dimension, by which most rows are ruled out before exact cosines are computed (`codes.c`)."""

from __future__ import annotations

from ctypes import c_double, c_int, c_int64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fourfold.native import LIBRARY, addresses, failure, function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.native import Ints, Matrix

MAX_DIMENSION: Final = 2048
"""Longer vectors have no codes."""

_P, _N = c_void_p, c_int64
_encode = function(LIBRARY, "encode", c_int, _P, _N, _N, _P, _P, _P)
_likely_rows = function(LIBRARY, "likely_rows", c_int64, _P, _P, _P, _N, _N, _P, _N, _P, c_double, _N, _P)
_INT8, _FLOAT32, _INT64 = map(np.dtype, (np.int8, np.float32, np.int64))


@dataclass(frozen=True, slots=True)
class Codes:
    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    errors: NDArray[np.float32]
    """By row, the length of the difference between the vector and its code."""
    longest: float
    """The length of the longest vector."""

    def likely_rows(self, rows: Ints | None, query: Matrix, limit: int) -> Ints:
        """Return those of the rows (None: of all) that can be among the `limit` nearest, in their order."""
        if query.shape != self.codes.shape[1:]:
            raise ValueError(f"the shapes {query.shape} and {self.codes.shape} do not match")
        count = len(self.codes) if rows is None else len(rows)
        chosen = np.empty(count, np.int64)
        codes, scales, errors, wanted, asked, target = addresses(
            (self.codes, _INT8), (self.scales, _FLOAT32), (self.errors, _FLOAT32), (rows, _INT64), (query, _FLOAT32),
            (chosen, _INT64),
        )  # fmt: skip
        found = _likely_rows(
            codes, scales, errors, *self.codes.shape, wanted, count, asked, self.longest, limit, target
        )
        if found < 0:
            raise failure(found)
        return chosen[:found]


def encoded(matrix: Matrix) -> Codes:
    """Return the codes of all rows; raise OutOfRange if a number is not finite."""
    matrix = np.ascontiguousarray(matrix)
    codes = np.empty(matrix.shape, np.int8)
    scales, errors = np.empty(len(matrix), np.float32), np.empty(len(matrix), np.float32)
    given, *targets = addresses((matrix, _FLOAT32), (codes, _INT8), (scales, _FLOAT32), (errors, _FLOAT32))
    if (state := _encode(given, *matrix.shape, *targets)) < 0:
        raise failure(state)
    squares = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)  # vecdot would copy the matrix twice, as float64
    return Codes(codes, scales, errors, float(np.sqrt(squares.max(initial=0.0))) * (1 + 1e-6))
