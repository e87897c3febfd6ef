"""Codes of published vectors, made when they have been scanned a few times: a process with one search needs none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fourfold.native.bindings import MAX_DIMENSION, Codes, OutOfRange, encoded

if TYPE_CHECKING:
    from fourfold.index.rows import Matrix


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
