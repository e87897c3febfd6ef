"""What one query scores items by, in the kernel: cosines with its vector, or BM25 of its words (`scoring.c`)."""

from __future__ import annotations

from ctypes import Structure, byref, c_double, c_int64, c_void_p
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from fourfold.native import (
    FEW_TO_SCORE,
    LIBRARY,
    ForRows,
    QueryColumns,
    RowColumns,
    TextColumns,
    VectorColumns,
    addresses,
    as_in_kernel,
    failure,
    function,
)
from fourfold.native.postings import Postings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.native import Floats, Ints, Matrix, Places

_P, _N = c_void_p, c_int64
_best = ForRows(FEW_TO_SCORE, "best", c_int64, _P, _P, _N, _P, _N, _N, _P, _P, _P)
_best_words = function(LIBRARY, "best_words", c_int64, _P, _P, _P, _N, _N, _P, _P, _P)
_INT64, _INT32, _FLOAT64, _FLOAT32, _BOOL = map(np.dtype, (np.int64, np.int32, np.float64, np.float32, np.bool_))
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
    (items,) = addresses((ids, _INT64))
    if isinstance(content, TextColumns):
        terms, size, ends, sums, rows = content.arguments
    else:
        (terms, rows, size, sums), ends = content.arguments, None
    if not rows == len(ids) == places.arguments[-1]:
        raise ValueError("the columns have different lengths")
    part = RowsPart(*places.arguments, items, terms, ends, size, sums)
    part.held = (places, ids, content)
    return part


def with_postings(part: RowsPart, postings: Postings, lengths: Places) -> RowsPart:
    """Give a part the postings of its rows, and the number of terms of each."""
    if len(lengths) != part.row_count:
        raise ValueError("the columns have different lengths")
    part.blocks, part.block_count = postings.arguments
    (part.lengths,) = addresses((lengths, _INT32))
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
        return cls(Scoring(parts, *addresses((query, _FLOAT32))), query, *parts)

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
        ids, found = np.empty(room, np.int64), np.empty((2, room))
        first, last, target, scored = addresses((published, _INT64), (tail, _INT64), (ids, _INT64), (found, _FLOAT64))
        rows = first, len(published), last, len(tail)
        made = _best(count, byref(self.struct), *rows, limit, target, scored, scored and scored + found.strides[0])
        if made < 0:
            raise failure(made)
        return Scores(ids[:made], *found[:, :made])

    def best_words(self, passing: NDArray[np.bool_] | None, tail: Ints, limit: int) -> Scores:
        """Return the best `limit` of the published rows that pass, by their postings, and of some rows of the tail.

        Raise OutOfRange if postings are damaged, or if a row of the tail does not match its checksum.
        """
        if passing is not None and len(passing) != self.struct.parts[0].row_count:
            raise ValueError("there must be a flag for each row")
        ids, found = np.empty(limit, np.int64), np.empty((2, limit))
        flags, rows, target, scored = addresses((passing, _BOOL), (tail, _INT64), (ids, _INT64), (found, _FLOAT64))
        last = scored and scored + found.strides[0]
        made = _best_words(byref(self.struct), flags, rows, len(tail), limit, target, scored, last)
        if made < 0:
            raise failure(made)
        return Scores(ids[:made], *found[:, :made])
