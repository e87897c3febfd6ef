"""Rows that FAISS does not contain yet are multiplied in place, with the same products as for any rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.index import vector_rows
from fourfold.index.mapped_files import Mapped
from fourfold.index.segment_files import Damaged
from fourfold.index.vector_rows import Vectors, sums

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

    monkeypatch.setattr(vector_rows, "sums", noting)
    for each in (vectors, vectors, vectors.without(np.array([5]))):
        each.near(rows, query)
    assert sum(checked) == ROWS - KNOWN
    again = made()
    again.matrix[KNOWN + 50, 1] += 1
    with pytest.raises(Damaged):
        again.near(rows, query)
    with pytest.raises(Damaged):
        again.near(rows, query)


def test_a_block_is_verified_again_when_its_file_was_modified(tmp_path: Path) -> None:
    plain, file = made(), tmp_path / "vectors"
    file.write_bytes(plain.matrix.tobytes())
    mapped = Mapped([file])
    matrix = np.asarray(np.memmap(file, np.float32, "r", shape=(ROWS, DIMENSION)))
    vectors = Vectors(plain.ids, plain.dead, matrix, plain.sums, mapped, block_rows=20)
    rows, query = np.arange(ROWS), plain.matrix[3]
    expected = vectors.near(rows, query).tolist()
    os.utime(file, ns=(0, 0))  # modified without a change, as by a publication that appends
    assert vectors.near(rows, query).tolist() == expected
    with file.open("r+b") as stream:
        stream.seek(50 * DIMENSION * 4)
        stream.write(b"overwritten")
    with pytest.raises(Damaged):
        vectors.near(rows, query)
