"""Rows with their unit vectors, mapped from a file or in memory, and verified as they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fourfold.index.rows import NONE, Rows
from fourfold.index.segment_files import Damaged
from fourfold.index.tuning import DEFAULT
from fourfold.native import bindings
from fourfold.native.bindings import MAX_DIMENSION, Codes, OutOfRange, encoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.index.rows import Flags, Ints, Matrix
    from fourfold.native.bindings import Codes

    Sums = NDArray[np.uint32]

_MAX_GAP_ROWS, _ROWS_PER_MEMBER = 4, 2
"""A range of rows is read whole if its gaps are short, or if at least one in this many is wanted."""
_VERIFIED_BLOCKS = 64


@dataclass(frozen=True)
class Vectors(Rows):
    """Rows with their unit vectors. The windows of a long item are adjacent rows, which live and die together."""

    matrix: Matrix
    sums: Sums | None = None
    """Checksums of the rows, if the matrix is mapped."""
    verified: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]], compare=False)
    """Ranges of rows that were verified."""
    block_rows: int = DEFAULT.block_rows
    coded: RowCodes | None = None
    """For published rows without FAISS: their codes, shared by all states with the same rows."""

    @staticmethod
    def empty(dimension: int) -> Vectors:
        return Vectors(NONE, np.empty(0, np.bool_), np.empty((0, dimension), np.float32))

    @property
    def dimension(self) -> int:
        return self.matrix.shape[1]

    @cached_property
    def columns(self) -> bindings.VectorColumns:
        return bindings.VectorColumns(self.matrix, self.sums)

    @cached_property
    def firsts(self) -> Ints | None:
        """The row of the first window of each row's item; None if no live item has several."""
        same = (self.ids[1:] == self.ids[:-1]) & self.alive[1:] & self.alive[:-1]
        if not same.any():
            return None
        numbers = np.arange(len(self.ids))
        numbers[1:][same] = 0
        return np.maximum.accumulate(numbers)

    @cached_property
    def heads(self) -> Ints:
        """The live rows that are the first, or the only one, of their items."""
        return self.live if self.firsts is None else self.live[self.firsts[self.live] == self.live]

    def find(self, ids: Ints) -> Ints:
        last = super().find(ids)
        if self.firsts is None:
            return last
        counts = last - self.firsts[last] + 1
        ends = np.cumsum(counts)
        return np.repeat(last + 1 - ends, counts) + np.arange(ends[-1] if len(ends) else 0)

    def rows(self, rows: Ints) -> Matrix:
        """The vectors of these rows. Raises Damaged if their checksums are wrong."""
        found = self.matrix if rows is self.live and len(rows) == len(self) else self.matrix[rows]
        if self.sums is not None and not np.array_equal(sums(found), self.sums[rows]):
            raise Damaged("vectors have a wrong checksum")
        return found

    def near(self, rows: Ints, query: Matrix) -> Matrix:
        """Cosines in single precision: the last digit depends on the order of the summation.

        Computed row by row. A matrix product takes nearly twice the processor time, because BLAS shares it among
        threads that mostly wait for each other.
        """
        start = _block_start(rows)
        scattered, block = rows[:start], rows[start:]
        if len(block) < self.block_rows:
            return np.vecdot(self.rows(rows), query)
        first, end = int(block[0]), int(block[-1]) + 1
        products = np.vecdot(self.matrix[first:end], query)[block - first]
        self._verify(first, end)
        return np.concatenate([np.vecdot(self.rows(scattered), query), products])

    def codes(self) -> Codes | None:
        """Codes of all rows, if they are worth it."""
        return None if self.coded is None else self.coded.codes(self.matrix, lambda: self._verify(0, len(self)))

    def _verify(self, first: int, end: int) -> None:
        """Raises Damaged if rows have wrong checksums, which are computed when the rows are first read in place."""
        if self.sums is None or any(begin <= first and end <= until for begin, until in self.verified):
            return
        if not np.array_equal(sums(self.matrix[first:end]), self.sums[first:end]):
            raise Damaged("vectors have a wrong checksum")
        if len(self.verified) >= _VERIFIED_BLOCKS:
            self.verified.clear()
        self.verified.append((first, end))


def _block_start(rows: Ints) -> int:
    """The position from which the rows ascend and are dense enough for their whole range to be read in place."""
    steps = np.diff(rows)
    start = _after_last(steps < 1)
    if len(rows) > start and rows[-1] - rows[start] < _ROWS_PER_MEMBER * (len(rows) - start):
        return start
    return _after_last((steps < 1) | (steps > _MAX_GAP_ROWS))


def _after_last(breaks: Flags) -> int:
    found = np.flatnonzero(breaks)
    return int(found[-1]) + 1 if len(found) else 0


def sums(matrix: Matrix) -> Sums:
    """The checksum of each row."""
    return np.ascontiguousarray(matrix).view(np.uint32).sum(axis=1, dtype=np.uint32)


# ---------------------------------------------------------------- codes


class RowCodes:
    """Codes of all rows of one matrix. Concurrent searches may make them twice, with the same result."""

    def __init__(self, after_scans: int) -> None:
        self._scans_left = after_scans
        self._codes: Codes | None = None

    def codes(self, matrix: Matrix, verify: Callable[[], None]) -> Codes | None:
        """None for the first scans. `verify` raises an error if the matrix was modified since it was opened."""
        if self._codes is None and matrix.shape[1] <= MAX_DIMENSION:
            self._scans_left -= 1
            if self._scans_left < 0:
                made = _encoded(matrix)
                verify()  # after the matrix was read
                self._codes = made
        return self._codes


def _encoded(matrix: Matrix) -> Codes | None:
    """None if a number is not finite, or too small to be divided by."""
    try:
        return encoded(matrix)
    except OutOfRange:
        return None
