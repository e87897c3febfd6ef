"""Codes of vectors rule out only rows that cannot be among the nearest."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold import native
from fourfold.index import vector_index
from fourfold.index.vector_codes import RowCodes
from fourfold.index.vector_index import VectorSegment, VectorState
from fourfold.index.vector_rows import Vectors
from fourfold.native.codes import encoded


def vectors(seed: int, rows: int, dimension: int) -> np.ndarray:
    """Unit vectors, some of which are nearly equal."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((rows, dimension)).astype(np.float32)
    made[rows // 2 :] = made[: rows - rows // 2] + rng.standard_normal((rows - rows // 2, dimension)) * 1e-4
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 100), st.integers(1, 40), st.booleans())
def test_the_nearest_rows_are_never_ruled_out(seed, rows, dimension, limit, some):
    matrix = vectors(seed, rows, dimension)
    query = vectors(seed + 1, 1, dimension)[0]
    asked = np.random.default_rng(seed).permutation(rows)[: rows // 2 if some else rows].astype(np.int64)
    codes = encoded(matrix)
    likely = codes.likely_rows(asked, query, limit).tolist()
    exact = native.cosines(native.VectorColumns(matrix, None), asked, query)
    floor = np.sort(exact)[::-1][min(limit, len(asked)) - 1] if len(asked) else 0.0
    assert {int(row) for row, cosine in zip(asked, exact, strict=True) if cosine >= floor} <= set(likely)
    assert likely == [row for row in asked.tolist() if row in set(likely)]
    of_all = codes.likely_rows(np.arange(rows), query, limit)
    assert codes.likely_rows(None, query, limit).tolist() == of_all.tolist()


def test_most_of_many_rows_are_ruled_out():
    matrix = vectors(3, 4000, 384)
    assert len(encoded(matrix).likely_rows(np.arange(4000), matrix[7], 20)) < 400


def test_codes_are_made_without_a_copy_of_the_vectors():
    matrix = vectors(5, 20_000, 64)
    tracemalloc.start()
    try:
        codes = encoded(matrix)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < codes.codes.nbytes + matrix.nbytes // 4


def test_zero_vectors_have_codes():
    codes = encoded(np.zeros((3, 5), np.float32))
    assert codes.likely_rows(np.arange(3), np.zeros(5, np.float32), 1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_raises(number):
    matrix = np.ones((2, 4), np.float32)
    codes = encoded(matrix)
    matrix[1, 2] = number
    with pytest.raises(native.OutOfRange):
        encoded(matrix)
    with pytest.raises(native.OutOfRange):
        codes.likely_rows(np.arange(2), matrix[1], 1)


@pytest.mark.parametrize("row", [-1, 2, 2**62])
def test_a_row_number_out_of_range_raises(row):
    with pytest.raises(native.OutOfRange):
        encoded(np.eye(2, dtype=np.float32)).likely_rows(np.array([0, row]), np.ones(2, np.float32), 1)


def test_a_query_of_another_dimension_raises():
    with pytest.raises(ValueError, match="do not match"):
        encoded(np.eye(2, dtype=np.float32)).likely_rows(np.arange(2), np.ones(3, np.float32), 1)


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_a_search_with_codes_finds_what_one_without_finds(seed, limit):
    matrix = vectors(seed, 600, 24)
    query, dead = vectors(seed + 1, 1, 24)[0], np.random.default_rng(seed).random(600) < 0.1
    plain = Vectors(np.arange(600), dead, matrix)
    coded = Vectors(np.arange(600), dead, matrix, coded=RowCodes(0))
    states = [VectorState(VectorSegment(each, 0), each, Vectors.empty(24), 0) for each in (coded, plain)]
    found, expected = (vector_index.search(state, state.scorer(query), limit, None) for state in states)
    assert found.hits == expected.hits
