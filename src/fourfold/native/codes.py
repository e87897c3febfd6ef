"""Vectors in one byte per dimension, by which most rows are ruled out before exact cosines are computed (`codes.c`)."""

from __future__ import annotations

from ctypes import Structure, c_double, c_int, c_int64, c_void_p
from typing import TYPE_CHECKING, Final

import numpy as np

from fourfold.native import LIBRARY, addresses, as_in_kernel, failure, function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.native import Matrix

MAX_DIMENSION: Final = 2048
"""Longer vectors have no codes."""

_P, _N = c_void_p, c_int64
_encode = function(LIBRARY, "encode", c_int, _P, _N, _N, _P, _P, _P)
_INT8, _FLOAT32 = map(np.dtype, (np.int8, np.float32))


@as_in_kernel(4)
class _Codes(Structure):
    """`Codes` of rankings.h."""

    _fields_ = (*((name, c_void_p) for name in ("codes", "scales", "errors")), ("longest", c_double))


class Codes:
    """Codes of all rows of a matrix. Holds the arrays that the kernel reads."""

    __slots__ = ("_held", "shape", "struct")

    def __init__(
        self, codes: NDArray[np.int8], scales: NDArray[np.float32], errors: NDArray[np.float32], longest: float
    ) -> None:
        """`errors`: by row, the length of the difference between the vector and its code. `longest`: of all vectors."""
        self._held = codes, scales, errors
        self.shape = codes.shape
        self.struct = _Codes(*addresses((codes, _INT8), (scales, _FLOAT32), (errors, _FLOAT32)), longest)


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
