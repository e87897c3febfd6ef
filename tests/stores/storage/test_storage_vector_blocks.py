"""Rows that FAISS does not contain yet are multiplied in place, with the same products as for any rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.index import vector_index
from fourfold.index.segment_files import Damaged
from fourfold.index.vector_index import Vectors, sums

ROWS, DIMENSION, KNOWN = 300, 24, 120


def made() -> Vectors:
    matrix = np.random.default_rng(7).standard_normal((ROWS, DIMENSION)).astype(np.float32)
    return Vectors(np.arange(ROWS), np.zeros(ROWS, np.bool_), matrix, sums(matrix), block_rows=20)


@given(
    st.lists(st.integers(0, KNOWN - 1), max_size=40, unique=True), st.sets(st.integers(KNOWN, ROWS - 1), max_size=60)
)
def test_products_of_rows_in_place_equal_those_of_copied_rows(found: list[int], dead: set[int]) -> None:
    vectors = made()
    later = [row for row in range(KNOWN, ROWS) if row not in dead]
    rows, query = np.array([*found, *later], np.int64), vectors.matrix[3]
    assert np.array_equal(vectors.near(rows, query), np.vecdot(vectors.matrix[rows], query))


def test_a_block_is_verified_when_it_is_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, checked = made(), list[int]()
    rows, query = np.arange(KNOWN, ROWS), vectors.matrix[3].copy()

    def noting(matrix: Any) -> Any:
        checked.append(len(matrix))
        return sums(matrix)

    monkeypatch.setattr(vector_index, "sums", noting)
    for each in (vectors, vectors, vectors.without(np.array([5]))):
        each.near(rows, query)
    assert sum(checked) == ROWS - KNOWN
    again = made()
    again.matrix[KNOWN + 50, 1] += 1
    with pytest.raises(Damaged):
        again.near(rows, query)
    with pytest.raises(Damaged):
        again.near(rows, query)
