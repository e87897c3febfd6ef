"""The inner loops of a search, in C: exact scores of rows, and rankings from columns of ids and scores.

`kernel.c` says what each does. It is compiled when the package is built, by the compiler of the machine or by one that
comes as a wheel (hatch_build.py), and needs no other library.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import c_double, c_int, c_int64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Matrix = NDArray[np.float32]
    Hashes = NDArray[np.uint32]
    Places = NDArray[np.int32]

NAME = "kernel.dll" if sys.platform == "win32" else "kernel.so"
_DAMAGED, _NO_MEMORY = -1, -2


class OutOfRange(Exception):
    """A column of a file leads to where nothing is, or a row is not what was written."""


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, f"ff_{name}")
    function.restype, function.argtypes = result, arguments
    return function


def _load(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    path = Path(__file__).with_name(NAME)
    try:
        return kind(str(path))
    except OSError as error:
        raise ImportError(f"{path.name} of Fourfold cannot be loaded ({error}); install the package again") from error


_P, _N, _D = c_void_p, c_int64, c_double
LIBRARY = _load(ctypes.CDLL)
"""Other threads may run meanwhile."""
_SHORT = _load(ctypes.PyDLL)
"""They may not: for what takes less than handing the interpreter over and getting it back."""
_FEW = 512
"""So many rows are short."""
_order = _function(_SHORT, "order", c_int, _P, _P, _N, _P)
_sums = _function(_SHORT, "sums", c_int64, _P, _P, _N, _P, _P)
_distinct = _function(_SHORT, "distinct", c_int64, _P, _N, _P)
_places = _function(_SHORT, "places", None, _P, _N, _P, _N, _P)


def _for_rows(name: str, result: Any, *arguments: Any) -> Callable[[int], Any]:
    """The function for a number of rows."""
    short, long = (_function(library, name, result, *arguments) for library in (_SHORT, LIBRARY))
    return lambda rows: short if rows <= _FEW else long


_bm25 = _for_rows("bm25", c_int, _P, _N, _P, _P, _N, _P, _N, _P, _P, _P, _P, _P, _N, _D, _D, _D, _D, _D, _P, _P)
_cosines = _for_rows("cosines", c_int, _P, _N, _N, _P, _P, _N, _P, _P)
_term_sums = _function(LIBRARY, "term_sums", c_int, _P, _N, _P, _N, _P)
_find = _for_rows("find", c_int64, _P, _P, _P, _N, _P, _N, _P)


def bm25(
    columns: tuple[Hashes, Ints, Hashes | None],
    rows: Ints,
    words: tuple[Hashes, Floats, Places, Places, Floats],
    weight: float,
    average_length: float,
    constants: tuple[float, float, float],
) -> tuple[Floats, Floats]:
    """Scores and coverage of rows; OutOfRange where the terms of a row are not what its sum says.

    `columns`: terms, where each row's end, and what they must add up to. `words`: as `kernel.c` has them.
    """
    (terms, ends, sums), (hashes, worth, same, firsts, idfs) = columns, words
    expected = None if sums is None else _hashes(sums)
    scores, coverage = np.empty(len(rows)), np.empty(len(rows))
    _check(
        _bm25(len(rows))(
            _hashes(terms), len(terms), _ints(ends), expected, len(ends), _ints(rows), len(rows),
            _hashes(hashes), _floats(worth), _places32(same), _places32(firsts), _floats(idfs), len(idfs),
            weight, average_length, *constants, _floats(scores), _floats(coverage),
        )
    )  # fmt: skip
    return scores, coverage


def term_sums(terms: Hashes, ends: Ints) -> Hashes:
    """What the terms of each row add up to; OutOfRange where the ends lead out of the terms."""
    sums = np.empty(len(ends), np.uint32)
    _check(_term_sums(_hashes(terms), len(terms), _ints(ends), len(ends), _hashes(sums)))
    return sums


def cosines(matrix: Matrix, sums: Hashes | None, rows: Ints, query: Matrix) -> Floats:
    """Products of rows with the query; OutOfRange where a row is not what its sum says."""
    if query.shape != matrix.shape[1:]:
        raise ValueError(f"{query.shape} and {matrix.shape} do not fit")
    found = np.empty(len(rows))
    expected = None if sums is None else _hashes(sums)
    call = _cosines(len(rows))
    _check(call(_singles(matrix), *matrix.shape, expected, _ints(rows), len(rows), _singles(query), _floats(found)))
    return found


def find(in_order: Ints, order: Ints, dead: NDArray[np.bool_], items: Ints) -> Ints:
    """The live rows of items. `in_order`: the items of all rows, sorted; `order`: the rows that these are."""
    found = np.empty(len(items), np.int64)
    call = _find(len(items))
    count = call(_ints(in_order), _ints(order), _flags(dead), len(order), _ints(items), len(items), _ints(found))
    return found[: _check(count)]


def order(ids: Ints, scores: Floats) -> Ints:
    """The places of the scores, best first; ties by id."""
    found = np.empty(len(ids), np.int64)
    _check(_order(_ints(ids), _floats(scores), len(ids), _ints(found)))
    return found


def sums(ids: Ints, values: Floats) -> tuple[Ints, Floats]:
    """Each id once, and the sum of its values."""
    distinct, totals = np.empty(len(ids), np.int64), np.empty(len(ids))
    count = _check(_sums(_ints(ids), _floats(values), len(ids), _ints(distinct), _floats(totals)))
    return distinct[:count], totals[:count]


def distinct(ids: Ints) -> Ints:
    """Each id once, in the order of their first places."""
    found = np.empty(len(ids), np.int64)
    return found[: _check(_distinct(_ints(ids), len(ids), _ints(found)))]


def places(ids: Ints, wanted: Ints) -> Ints:
    """Where each of a few wanted ids first stands; -1 where it does not."""
    found = np.empty(len(wanted), np.int64)
    _places(_ints(ids), len(ids), _ints(wanted), len(wanted), _ints(found))
    return found


def _address(kind: type[np.generic]) -> Callable[[NDArray[Any]], int]:
    """Where an array of this kind begins; another kind, or one with gaps, is refused: C would read something else."""
    name = np.dtype(kind).str

    def address(array: NDArray[Any]) -> int:
        interface = array.__array_interface__
        if interface["typestr"] != name or interface["strides"] is not None:
            raise ValueError(f"{array.dtype} where a column of {name} without gaps is needed")
        return interface["data"][0]

    return address


_ints, _floats, _singles = _address(np.int64), _address(np.float64), _address(np.float32)
_hashes, _places32, _flags = _address(np.uint32), _address(np.int32), _address(np.bool_)


def _check(result: int) -> int:
    if result == _DAMAGED:
        raise OutOfRange
    if result == _NO_MEMORY:
        raise MemoryError
    return result
