"""Bindings of the kernel: inner loops in C over the rows of an index. `rankings` and `texts` have the others.

`kernel.c` documents each function. It is compiled when the package is built (hatch_build.py), by the compiler of the
machine or by one installed as a wheel, and needs no other library.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from array import array as c_array
from collections.abc import Callable, Iterable, Sequence
from ctypes import (
    Structure,
    addressof,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

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


class ArrayOf:
    """The type of an argument that is a contiguous array of one type; None and empty ones are NULL."""

    __slots__ = ("kind",)

    def __init__(self, kind: type[np.generic]) -> None:
        self.kind = np.dtype(kind)

    def address(self, array: NDArray[Any] | None) -> int | None:
        """Return the address, for a structure; raise ValueError for another array."""
        if array is None or not array.size:
            return None
        flags = array.flags
        if array.dtype != self.kind or not flags.c_contiguous:
            raise ValueError(f"a contiguous array of {self.kind} is needed, not of {array.dtype}")
        if flags.writeable:
            return addressof(_from_buffer(array))
        return array.__array_interface__["data"][0]  # five times slower

    def from_param(self, array: NDArray[Any] | None) -> Any:
        """Called by ctypes for each argument of this type."""
        if array is None or not array.size:
            return None
        flags = array.flags
        if array.dtype == self.kind and flags.c_contiguous and flags.writeable:
            return byref(_from_buffer(array))
        return c_void_p(self.address(array))


_from_buffer: Callable[[Any], c_char] = c_char.from_buffer
INT64, INT32, INT8, UINT32, UINT8, FLOAT64, FLOAT32, BOOL = map(
    ArrayOf, (np.int64, np.int32, np.int8, np.uint32, np.uint8, np.float64, np.float32, np.bool_)
)


def function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any, fails: bool = True) -> Any:
    """Return a function of the kernel. `fails`: a negative result is an error, which it raises."""
    function = getattr(library, f"ff_{name}", None)
    if function is None:
        raise ImportError(_OLD)
    function.restype, function.argtypes = result, arguments
    if fails and result is not None:
        function.errcheck = _checked

    def call(*values: Any) -> Any:
        """ctypes makes an error of its own of Ctrl-C that arrives while it converts an argument."""
        try:
            return function(*values)
        except ctypes.ArgumentError as error:
            if KeyboardInterrupt.__name__ in str(error):
                raise KeyboardInterrupt from error
            raise

    return call


def _checked(result: int, _function: object, _arguments: object) -> int:
    if result < 0:
        raise MemoryError if result == _NO_MEMORY else OutOfRange
    return result


def _load(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    path = Path(__file__).with_name(NAME)
    try:
        return kind(str(path))
    except OSError as error:
        raise ImportError(f"cannot load {path.name} of Fourfold ({error}); reinstall the package") from error


P, N, D = c_void_p, c_int64, c_double
LIBRARY = _load(ctypes.CDLL)
"""Releases the GIL during a call."""
KEEPING_GIL = _load(ctypes.PyDLL)
"""Keeps the GIL, for calls shorter than a GIL switch."""
FEW_TO_FIND = 512
"""Maximum number of rows of a call that keeps the GIL."""
FEW_TO_SCORE = 128
"""The same for exact scores: one takes 0.2 µs. Releasing the GIL for 250 of them made 2 threads 5 % faster."""
_size_of = function(KEEPING_GIL, "size_of", c_int64, N, fails=False)
_order = function(KEEPING_GIL, "order", c_int, INT64, FLOAT64, N, INT64)
_sums = function(KEEPING_GIL, "sums", c_int64, INT64, FLOAT64, N, INT64, FLOAT64)
_places = function(KEEPING_GIL, "places", None, INT64, N, INT64, N, INT64)


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


_bm25 = ForRows(FEW_TO_SCORE, "bm25", c_int, P, N, P, N, INT64, N, P, P, P, P, P, N, D, D, D, D, D, FLOAT64, FLOAT64)
_cosines = ForRows(FEW_TO_SCORE, "cosines", c_int, P, N, N, P, INT64, N, FLOAT32, FLOAT64)
_find = ForRows(FEW_TO_FIND, "find", c_int64, P, P, P, N, INT64, N, INT64)


class _Held:
    """Arrays that many calls take, checked once. Holds them, so that their addresses stay valid."""

    __slots__ = ("_arrays", "arguments")

    def __init__(self, *arrays: NDArray[Any] | c_array[Any] | None) -> None:
        self._arrays = arrays
        self.arguments: tuple[Any, ...] = ()
        """The arguments of a call."""


class TextColumns(_Held):
    """Terms, and the end of each row in them."""

    __slots__ = ()

    def __init__(self, terms: Hashes, ends: Ints) -> None:
        super().__init__(terms, ends)
        self.arguments = UINT32.address(terms), len(terms), INT64.address(ends), len(ends)


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
        self.arguments = FLOAT32.address(matrix), rows, self.dimension, UINT32.address(sums)


class RowColumns(_Held):
    """The sorted items of all rows, the row of each of these, and by row whether it is dead."""

    __slots__ = ()

    def __init__(self, in_order: Ints, order: Ints, dead: NDArray[np.bool_]) -> None:
        super().__init__(in_order, order, dead)
        if not len(in_order) == len(order) == len(dead):
            raise ValueError("the columns have different lengths")
        self.arguments = INT64.address(in_order), INT64.address(order), BOOL.address(dead), len(order)


def bm25(
    columns: TextColumns,
    rows: Ints,
    words: QueryColumns,
    weight: float,
    average_length: float,
    constants: tuple[float, float, float],
) -> tuple[Floats, Floats]:
    """Return scores and coverage of rows; raise OutOfRange if a row or its end is out of range."""
    count = len(rows)
    scores, coverage = np.empty((2, count))
    constant = weight, average_length, *constants
    _bm25(count, *columns.arguments, rows, count, *words.arguments, *constant, scores, coverage)
    return scores, coverage


def cosines(columns: VectorColumns, rows: Ints, query: Matrix) -> Floats:
    """Return the products of rows with the query; raise OutOfRange if a row does not match its checksum."""
    if query.shape != (columns.dimension,):
        raise ValueError(f"the query has the shape {query.shape}, the rows have {columns.dimension} numbers")
    products = np.empty(len(rows))
    _cosines(len(rows), *columns.arguments, rows, len(rows), query, products)
    return products


def find(columns: RowColumns, items: Ints) -> Ints:
    """Return the live rows of items."""
    rows = np.empty(len(items), np.int64)
    return rows[: _find(len(items), *columns.arguments, items, len(items), rows)]


def order(ids: Ints, scores: Floats) -> Ints:
    """Return the indexes of the scores, best first, ties by id."""
    best = np.empty(len(ids), np.int64)
    _order(ids, scores, len(ids), best)
    return best


def sums(ids: Ints, values: Floats) -> tuple[Ints, Floats]:
    """Return the distinct ids and the sum of the values of each."""
    distinct, totals = np.empty(len(ids), np.int64), np.empty(len(ids))
    count = _sums(ids, values, len(ids), distinct, totals)
    return distinct[:count], totals[:count]


def places(ids: Ints, wanted: Ints) -> Ints:
    """Return the index of the first occurrence of each wanted id, -1 for a missing one; for a few ids."""
    indexes = np.empty(len(wanted), np.int64)
    _places(ids, len(ids), wanted, len(wanted), indexes)
    return indexes


# ---------------------------------------------------------------- postings (`inversion.c`, `postings.c`)

_frequencies = function(KEEPING_GIL, "frequencies", c_int, P, N, UINT32, N, INT64)
_terms_between = function(LIBRARY, "terms_between", c_int64, UINT32, N, c_uint32, c_uint32)
_invert = function(
    LIBRARY, "invert", c_int64, UINT32, N, INT64, N, N, c_uint32, c_uint32, N, UINT32, UINT32, UINT32, UINT8, P
)


class Block(NamedTuple):
    """The postings of the terms in a range of hashes: those of the rows from `first_row` to `end_row`."""

    first_row: int
    end_row: int
    hashes: Hashes
    """Of the terms, ascending."""
    ends: Hashes
    """Where the postings of each term end."""
    rows: Hashes
    """Ascending for each term."""
    counts: NDArray[np.uint8]
    """Occurrences in each row; 255 for that many or more."""

    def of_term(self, hashed: int) -> Hashes:
        """The rows that contain a term."""
        place = int(np.searchsorted(self.hashes, np.uint32(hashed)))
        if place == len(self.hashes) or self.hashes[place] != hashed:
            return self.rows[:0]
        return self.rows[self.ends[place - 1] if place else 0 : self.ends[place]]


@as_in_kernel(6)
class _Block(Structure):
    """`Block` of rankings.h."""

    _fields_ = (
        *((name, c_int64) for name in ("first_row", "end_row", "term_count", "posting_count")),
        *((name, c_void_p) for name in ("hashes", "ends", "rows", "counts")),
    )


class Postings:
    """All blocks of an index, ordered by rows, then by hashes."""

    __slots__ = ("_structs", "arguments", "blocks")

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = tuple(blocks)
        self._structs = (_Block * len(blocks))(*map(_struct, blocks))
        self.arguments = addressof(self._structs) if blocks else None, len(blocks)

    def frequencies(self, hashes: Sequence[int]) -> list[int]:
        """Return how many rows contain each term; raise OutOfRange if a block is damaged."""
        counts = np.empty(len(hashes), np.int64)
        _frequencies(*self.arguments, np.array(hashes, np.uint32), len(hashes), counts)
        return counts.tolist()

    def rows_with(self, hashed: int) -> Ints:
        """Return the rows that contain a term, ascending."""
        rows = [block.of_term(hashed) for block in self.blocks] or [np.empty(0, np.uint32)]
        return np.concatenate(rows).astype(np.int64)


def _struct(block: Block) -> _Block:
    if not (len(block.ends) == len(block.hashes) and len(block.rows) == len(block.counts)):
        raise ValueError("the columns of a block have different lengths")
    columns = *map(UINT32.address, (block.hashes, block.ends, block.rows)), UINT8.address(block.counts)
    return _Block(block.first_row, block.end_row, len(block.hashes), len(block.rows), *columns)


def invert(terms: Hashes, ends: Ints, first_row: int, end_row: int, lowest: int, highest: int) -> Block:
    """Make the postings of some rows for the terms with a hash in a range; raise OutOfRange if the ends are damaged."""
    begin, end = int(ends[first_row - 1]) if first_row else 0, int(ends[end_row - 1]) if end_row else 0
    if not 0 <= begin <= end <= len(terms):
        raise OutOfRange
    count = _terms_between(terms[begin:end], end - begin, lowest, highest)
    hashes, term_ends, rows = np.empty((3, count), np.uint32)
    counts, distinct = np.empty(count, np.uint8), c_int64()
    source = terms, len(terms), ends, first_row, end_row, lowest, highest, count
    made = _invert(*source, hashes, term_ends, rows, counts, byref(distinct))
    terms_made = distinct.value
    return Block(first_row, end_row, hashes[:terms_made], term_ends[:terms_made], rows[:made], counts[:made])


# ---------------------------------------------------------------- scores of items (`scoring.c`)

_best = ForRows(FEW_TO_SCORE, "best", c_int64, P, INT64, N, INT64, N, N, INT64, FLOAT64, FLOAT64)
_best_words = function(LIBRARY, "best_words", c_int64, P, BOOL, INT64, N, N, INT64, FLOAT64, FLOAT64)
PARTS: Final = 2


class RowsPart(Structure):
    """`Rows` of rankings.h: the published part of an index, or its tail."""

    held: tuple[object, ...] = ()
    """What owns the arrays: it lives as long as this object."""

    _fields_ = (
        *((name, c_void_p) for name in ("sorted", "order", "dead")),
        ("row_count", c_int64),
        *((name, c_void_p) for name in ("ids", "content", "ends")),
        ("size", c_int64),
        ("sums", c_void_p),
        ("blocks", c_void_p),
        ("block_count", c_int64),
        ("lengths", c_void_p),
    )


@as_in_kernel(2)
class Scoring(Structure):
    """`Scoring` of rankings.h."""

    _fields_ = (
        ("parts", RowsPart * PARTS),
        *((name, c_void_p) for name in ("vector", "hashes", "worth", "same", "firsts", "idfs")),
        ("words", c_int64),
        *((name, c_double) for name in ("weight", "average_length", "k1", "b", "base_length")),
        *((name, c_void_p) for name in ("ids", "scores", "coverage")),
        ("count", c_int64),
    )


def rows_part(places: RowColumns, ids: Ints, content: TextColumns | VectorColumns) -> RowsPart:
    if isinstance(content, TextColumns):
        (terms, size, ends, rows), sums = content.arguments, None
    else:
        (terms, rows, size, sums), ends = content.arguments, None
    if not rows == len(ids) == places.arguments[-1]:
        raise ValueError("the columns have different lengths")
    part = RowsPart(*places.arguments, INT64.address(ids), terms, ends, size, sums)
    part.held = (places, ids, content)
    return part


def with_postings(part: RowsPart, postings: Postings, lengths: Places) -> RowsPart:
    """Give a part the postings of its rows, and the number of terms of each."""
    if len(lengths) != part.row_count:
        raise ValueError("the columns have different lengths")
    part.blocks, part.block_count = postings.arguments
    part.lengths = INT32.address(lengths)
    part.held = (*part.held, postings, lengths)
    return part


class Scores(NamedTuple):
    ids: Ints
    scores: Floats
    coverage: Floats
    """Of words: the share of the query's weight that the words of each item have."""


class Scorer:
    """Scores rows and items of a published part and its tail.

    Holds all arrays that the kernel reads: a writer may replace the index during a search.
    """

    __slots__ = ("_held", "struct")

    def __init__(self, struct: Scoring, *held: object) -> None:
        self.struct = struct
        self._held = held

    @classmethod
    def by_vector(cls, parts: tuple[RowsPart, RowsPart], query: Matrix) -> Self:
        """By cosines with a query of the dimension of the parts."""
        if any(part.row_count and query.shape != (part.size,) for part in parts):
            raise ValueError(f"the query has the shape {query.shape}, the rows have other lengths")
        return cls(Scoring(parts, FLOAT32.address(query)), query, *parts)

    @classmethod
    def by_words(
        cls,
        parts: tuple[RowsPart, RowsPart],
        words: QueryColumns,
        weight: float,
        average_length: float,
        constants: tuple[float, float, float],
    ) -> Self:
        """By BM25, with the arguments of `native.bm25`."""
        return cls(Scoring(parts, None, *words.arguments, weight, average_length, *constants), words, *parts)

    def best(self, published: Ints, tail: Ints, limit: int) -> Scores:
        """Return the best `limit` of these rows; raise OutOfRange if one does not match its checksum."""
        count = len(published) + len(tail)
        room = min(limit, count)
        ids, scores, coverage = np.empty(room, np.int64), *np.empty((2, room))
        rows = published, len(published), tail, len(tail)
        made = _best(count, byref(self.struct), *rows, limit, ids, scores, coverage)
        return Scores(ids[:made], scores[:made], coverage[:made])

    def best_words(self, passing: NDArray[np.bool_] | None, tail: Ints, limit: int) -> Scores:
        """Return the best `limit` of the published rows that pass, by their postings, and of some rows of the tail.

        Raise OutOfRange if postings are damaged, or if a row of the tail does not match its checksum.
        """
        if passing is not None and len(passing) != self.struct.parts[0].row_count:
            raise ValueError("there must be a flag for each row")
        ids, scores, coverage = np.empty(limit, np.int64), *np.empty((2, limit))
        made = _best_words(byref(self.struct), passing, tail, len(tail), limit, ids, scores, coverage)
        return Scores(ids[:made], scores[:made], coverage[:made])


# ---------------------------------------------------------------- codes of vectors (`codes.c`)

MAX_DIMENSION: Final = 2048
"""Longer vectors have no codes."""

_encode = function(LIBRARY, "encode", c_int, FLOAT32, N, N, INT8, FLOAT32, FLOAT32)


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
        self.struct = _Codes(INT8.address(codes), FLOAT32.address(scales), FLOAT32.address(errors), longest)


def encoded(matrix: Matrix) -> Codes:
    """Return the codes of all rows; raise OutOfRange if a number is not finite."""
    matrix = np.ascontiguousarray(matrix)
    codes = np.empty(matrix.shape, np.int8)
    scales, errors = np.empty(len(matrix), np.float32), np.empty(len(matrix), np.float32)
    _encode(matrix, *matrix.shape, codes, scales, errors)
    squares = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)  # vecdot would copy the matrix twice, as float64
    return Codes(codes, scales, errors, float(np.sqrt(squares.max(initial=0.0))) * (1 + 1e-6))


# ---------------------------------------------------------------- nearest vectors (`scoring.c`, `worker.c`)

_begin = function(KEEPING_GIL, "begin", None, c_void_p)
_finish = ForRows(FEW_TO_SCORE, "finish", c_int64, c_void_p)
_is_busy = function(KEEPING_GIL, "is_busy", c_int, c_void_p)


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
        query = addressof(scorer.struct), None if codes is None else addressof(codes.struct)
        searched = INT64.address(rows), INT64.address(tail), published, len(tail), limit
        self._struct: Any = _Nearest(*query, *searched, INT64.address(self._ids), FLOAT64.address(self._scores))

    def start(self) -> None:
        """Begin in the thread of the kernel, if it is free; else `result` does the work."""
        for job in [*_started]:
            if not job.is_busy:
                _started.discard(job)
        _started.add(self)
        _begin(byref(self._struct))

    def result(self) -> tuple[Ints, Floats]:
        """Return items and cosines, best first, ties by id; raise OutOfRange if a row does not match its checksum."""
        count = _finish(self.count, byref(self._struct))
        _started.discard(self)  # not after an interruption: the thread may still read the arrays
        return self._ids[:count], self._scores[:count]

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

# ---------------------------------------------------------------- files (`files.c`)

_are_files = function(KEEPING_GIL, "are_files", c_int, c_void_p, c_int64, c_void_p, c_int64)


class Stamps:
    """Paths, and the files that they led to."""

    def __init__(self, paths: Sequence[str], files: Sequence[tuple[int, ...]]) -> None:
        """`files`: device and inode of each, and perhaps its modification time in nanoseconds."""
        numbers = [number for file in files for number in file]
        self._paths = (c_char_p * len(files))(*[os.fsencode(path) for path in paths[: len(files)]])
        self._numbers = (c_uint64 * len(numbers))(*numbers)
        self._arguments = self._paths, len(files), self._numbers, len(files[0]) if files else 0

    def hold(self) -> bool:
        """Return whether nothing changed. Where this says no, which it always does on Windows, ask `os.stat`."""
        return bool(_are_files(*self._arguments))
