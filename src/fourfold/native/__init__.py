"""Inner loops of a search in C: exact scores of rows, and rankings from columns of ids and scores.

`kernel.c` documents each function. It is compiled when the package is built (hatch_build.py), by the compiler of the
machine or by one installed as a wheel, and needs no other library.
"""

from __future__ import annotations

import ctypes
import sys
from array import array as c_array
from collections.abc import Callable, Iterable
from ctypes import addressof, c_char, c_double, c_int, c_int64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Matrix = NDArray[np.float32]
    Hashes = NDArray[np.uint32]
    Places = NDArray[np.int32]

NAME = "kernel.dll" if sys.platform == "win32" else "kernel.so"
_NO_MEMORY = -2
_OLD = f"{NAME} of Fourfold is older than its code; reinstall the package, or run hatch_build.py"
S = TypeVar("S", bound=type[ctypes.Structure])


class OutOfRange(Exception):
    """A column of a file points outside its target, or a row does not match its checksum."""


def function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, f"ff_{name}", None)
    if function is None:
        raise ImportError(_OLD)
    function.restype, function.argtypes = result, arguments
    return function


def _load(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    path = Path(__file__).with_name(NAME)
    try:
        return kind(str(path))
    except OSError as error:
        raise ImportError(f"cannot load {path.name} of Fourfold ({error}); reinstall the package") from error


_P, _N, _D = c_void_p, c_int64, c_double
LIBRARY = _load(ctypes.CDLL)
"""Releases the GIL during a call."""
KEEPING_GIL = _load(ctypes.PyDLL)
"""Keeps the GIL, for calls shorter than a GIL switch."""
FEW_TO_FIND = 512
"""Maximum number of rows of a call that keeps the GIL."""
FEW_TO_SCORE = 128
"""The same for exact scores: one takes 0.2 µs. Releasing the GIL for 250 of them made 2 threads 5 % faster."""
_size_of = function(KEEPING_GIL, "size_of", c_int64, _N)
_order = function(KEEPING_GIL, "order", c_int, _P, _P, _N, _P)
_sums = function(KEEPING_GIL, "sums", c_int64, _P, _P, _N, _P, _P)
_places = function(KEEPING_GIL, "places", None, _P, _N, _P, _N, _P)


def as_in_kernel(number: int) -> Callable[[S], S]:
    """Check that a structure has the size it has in the kernel, where `ff_size_of` numbers it."""

    def check(structure: S) -> S:
        if ctypes.sizeof(structure) != _size_of(number):
            raise ImportError(_OLD)
        return structure

    return check


class ForRows:
    """A function that keeps the GIL for `few` rows and releases it for more."""

    __slots__ = ("_few", "_long", "_short")

    def __init__(self, few: int, name: str, result: Any, *arguments: Any) -> None:
        self._few = few
        self._short, self._long = (function(library, name, result, *arguments) for library in (KEEPING_GIL, LIBRARY))

    def __call__(self, rows: int, *arguments: Any) -> Any:
        return (self._short if rows <= self._few else self._long)(*arguments)


_bm25 = ForRows(
    FEW_TO_SCORE, "bm25", c_int, _P, _N, _P, _P, _N, _P, _N, _P, _P, _P, _P, _P, _N, _D, _D, _D, _D, _D, _P, _P
)
_cosines = ForRows(FEW_TO_SCORE, "cosines", c_int, _P, _N, _N, _P, _P, _N, _P, _P)
_term_sums = function(LIBRARY, "term_sums", c_int, _P, _N, _P, _N, _P)
_find = ForRows(FEW_TO_FIND, "find", c_int64, _P, _P, _P, _N, _P, _N, _P)


class _Held:
    """Arrays that many calls take, checked once. Holds them, so that their addresses stay valid."""

    __slots__ = ("_arrays", "arguments")

    def __init__(self, *arrays: NDArray[Any] | c_array[Any] | None) -> None:
        self._arrays = arrays
        self.arguments: tuple[Any, ...] = ()
        """The arguments of a call."""


class TextColumns(_Held):
    """Terms, the end of each row in them, and the checksums of the rows."""

    __slots__ = ()

    def __init__(self, terms: Hashes, ends: Ints, sums: Hashes | None) -> None:
        super().__init__(terms, ends, sums)
        if sums is not None and len(sums) != len(ends):
            raise ValueError(f"there are {len(sums)} checksums of {len(ends)} rows")
        all_terms, all_ends, expected = addresses((terms, _UINT32), (ends, _INT64), (sums, _UINT32))
        self.arguments = all_terms, len(terms), all_ends, expected, len(ends)


class QueryColumns(_Held):
    """The words of a query; `kernel.c` describes the columns."""

    __slots__ = ()

    def __init__(
        self,
        hashes: Iterable[int],
        worth: Iterable[float],
        same: Iterable[int],
        firsts: Iterable[int],
        idfs: Iterable[float],
    ) -> None:
        variants = c_array("I", hashes), c_array("d", worth), c_array("i", same)
        made = (*variants, c_array("i", firsts), c_array("d", idfs))
        super().__init__(*made)
        self.arguments = *[each.buffer_info()[0] for each in made], len(made[-1])


class VectorColumns(_Held):
    """A matrix, and the checksums of its rows."""

    __slots__ = ("dimension",)

    def __init__(self, matrix: Matrix, sums: Hashes | None) -> None:
        super().__init__(matrix, sums)
        rows, self.dimension = matrix.shape
        if sums is not None and len(sums) != rows:
            raise ValueError(f"there are {len(sums)} checksums of {rows} rows")
        vectors, expected = addresses((matrix, _FLOAT32), (sums, _UINT32))
        self.arguments = vectors, rows, self.dimension, expected


class RowColumns(_Held):
    """The sorted items of all rows, the row of each of these, and by row whether it is dead."""

    __slots__ = ()

    def __init__(self, in_order: Ints, order: Ints, dead: NDArray[np.bool_]) -> None:
        super().__init__(in_order, order, dead)
        if not len(in_order) == len(order) == len(dead):
            raise ValueError("the columns have different lengths")
        self.arguments = *addresses((in_order, _INT64), (order, _INT64), (dead, _BOOL)), len(order)


def bm25(
    columns: TextColumns,
    rows: Ints,
    words: QueryColumns,
    weight: float,
    average_length: float,
    constants: tuple[float, float, float],
) -> tuple[Floats, Floats]:
    """Return scores and coverage of rows; raise OutOfRange if the terms of a row do not match its checksum."""
    count = len(rows)
    found = np.empty((2, count))
    wanted, scored = addresses((rows, _INT64), (found, _FLOAT64))
    state = _bm25(
        count, *columns.arguments, wanted, count, *words.arguments, weight, average_length, *constants,
        scored, scored and scored + found.strides[0],
    )  # fmt: skip
    if state < 0:
        raise failure(state)
    return found[0], found[1]


def term_sums(terms: Hashes, ends: Ints) -> Hashes:
    """Return the checksum of each row's terms; raise OutOfRange if an end lies outside the terms."""
    sums = np.empty(len(ends), np.uint32)
    all_terms, all_ends, target = addresses((terms, _UINT32), (ends, _INT64), (sums, _UINT32))
    if (state := _term_sums(all_terms, len(terms), all_ends, len(ends), target)) < 0:
        raise failure(state)
    return sums


def cosines(columns: VectorColumns, rows: Ints, query: Matrix) -> Floats:
    """Return the products of rows with the query; raise OutOfRange if a row does not match its checksum."""
    if query.shape != (columns.dimension,):
        raise ValueError(f"the query has the shape {query.shape}, the rows have {columns.dimension} numbers")
    found = np.empty(len(rows))
    wanted, asked, target = addresses((rows, _INT64), (query, _FLOAT32), (found, _FLOAT64))
    if (state := _cosines(len(rows), *columns.arguments, wanted, len(rows), asked, target)) < 0:
        raise failure(state)
    return found


def find(columns: RowColumns, items: Ints) -> Ints:
    """Return the live rows of items."""
    found = np.empty(len(items), np.int64)
    wanted, target = addresses((items, _INT64), (found, _INT64))
    if (count := _find(len(items), *columns.arguments, wanted, len(items), target)) < 0:
        raise failure(count)
    return found[:count]


def order(ids: Ints, scores: Floats) -> Ints:
    """Return the indexes of the scores, best first, ties by id."""
    found = np.empty(len(ids), np.int64)
    given, values, target = addresses((ids, _INT64), (scores, _FLOAT64), (found, _INT64))
    if (state := _order(given, values, len(ids), target)) < 0:
        raise failure(state)
    return found


def sums(ids: Ints, values: Floats) -> tuple[Ints, Floats]:
    """Return the distinct ids and the sum of the values of each."""
    distinct, totals = np.empty(len(ids), np.int64), np.empty(len(ids))
    given, parts, target, summed = addresses((ids, _INT64), (values, _FLOAT64), (distinct, _INT64), (totals, _FLOAT64))
    if (count := _sums(given, parts, len(ids), target, summed)) < 0:
        raise failure(count)
    return distinct[:count], totals[:count]


def places(ids: Ints, wanted: Ints) -> Ints:
    """Return the index of the first occurrence of each wanted id, -1 for a missing one; for a few ids."""
    found = np.empty(len(wanted), np.int64)
    given, asked, target = addresses((ids, _INT64), (wanted, _INT64), (found, _INT64))
    _places(given, len(ids), asked, len(wanted), target)
    return found


_INT64, _FLOAT64, _FLOAT32, _UINT32, _INT32, _BOOL = map(
    np.dtype, (np.int64, np.float64, np.float32, np.uint32, np.int32, np.bool_)
)


def addresses(*arrays: tuple[NDArray[Any] | None, np.dtype[Any]]) -> list[int | None]:
    """Return the address of each array, None if empty; raise ValueError unless it is contiguous and of its type."""
    found: list[int | None] = []
    for array, kind in arrays:
        if array is None or not array.size:
            found.append(None)
            continue
        flags = array.flags
        if array.dtype != kind or not flags.c_contiguous:
            raise ValueError(f"a contiguous array of {kind} is needed, not of {array.dtype}")
        if flags.writeable:
            found.append(addressof(_from_buffer(array)))
        else:  # five times slower
            found.append(array.__array_interface__["data"][0])
    return found


_from_buffer: Callable[[Any], c_char] = c_char.from_buffer


def failure(result: int) -> Exception:
    return MemoryError() if result == _NO_MEMORY else OutOfRange()
