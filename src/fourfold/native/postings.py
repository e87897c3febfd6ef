"""Postings in the kernel: made from the terms of rows (`inversion.c`), and searched by BM25 (`postings.c`)."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, addressof, byref, c_int, c_int64, c_uint32, c_void_p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourfold.native import KEEPING_GIL, LIBRARY, addresses, as_in_kernel, failure, function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.native import Hashes, Ints

_P, _N, _H = c_void_p, c_int64, c_uint32
_frequencies = function(KEEPING_GIL, "frequencies", c_int, _P, _N, _P, _N, _P)
_terms_between = function(LIBRARY, "terms_between", c_int64, _P, _N, _H, _H)
_invert = function(LIBRARY, "invert", c_int64, _P, _N, _P, _N, _N, _H, _H, _N, _P, _P, _P, _P, _P)
_INT64, _UINT32, _UINT8 = map(np.dtype, (np.int64, np.uint32, np.uint8))


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
        wanted, found = np.array(hashes, np.uint32), np.empty(len(hashes), np.int64)
        asked, target = addresses((wanted, _UINT32), (found, _INT64))
        if (state := _frequencies(*self.arguments, asked, len(hashes), target)) < 0:
            raise failure(state)
        return found.tolist()

    def rows_with(self, hashed: int) -> Ints:
        """Return the rows that contain a term, ascending."""
        found = [block.of_term(hashed) for block in self.blocks]
        return np.concatenate([*found, _NO_ROWS]).astype(np.int64)


_NO_ROWS = np.empty(0, np.uint32)


def _struct(block: Block) -> _Block:
    if not (len(block.ends) == len(block.hashes) and len(block.rows) == len(block.counts)):
        raise ValueError("the columns of a block have different lengths")
    columns = (block.hashes, _UINT32), (block.ends, _UINT32), (block.rows, _UINT32), (block.counts, _UINT8)
    return _Block(block.first_row, block.end_row, len(block.hashes), len(block.rows), *addresses(*columns))


def invert(terms: Hashes, ends: Ints, first_row: int, end_row: int, lowest: int, highest: int) -> Block:
    """Make the postings of some rows for the terms with a hash in a range; raise OutOfRange if the ends are damaged."""
    begin, end = int(ends[first_row - 1]) if first_row else 0, int(ends[end_row - 1]) if end_row else 0
    if not 0 <= begin <= end <= len(terms):
        raise failure(-1)
    all_terms, of_rows, row_ends = addresses((terms, _UINT32), (terms[begin:end], _UINT32), (ends, _INT64))
    count = _terms_between(of_rows, end - begin, lowest, highest)
    columns = np.empty((3, count), np.uint32)
    hashes, term_ends, rows = columns
    counts, term_count = np.empty(count, np.uint8), c_int64()
    targets = addresses((hashes, _UINT32), (term_ends, _UINT32), (rows, _UINT32), (counts, _UINT8))
    source = all_terms, len(terms), row_ends, first_row, end_row, lowest, highest, count
    made = _invert(*source, *targets, byref(term_count))
    if made < 0:
        raise failure(made)
    distinct = term_count.value
    return Block(first_row, end_row, hashes[:distinct], term_ends[:distinct], rows[:made], counts[:made])
