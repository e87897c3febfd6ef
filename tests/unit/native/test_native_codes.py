"""Codes of vectors rule out only rows that cannot be among the nearest."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.index import vector_index
from fourfold.index.vector_index import RowCodes, Vectors, VectorSegment, VectorState
from fourfold.native import bindings
from fourfold.native.bindings import Codes, Nearest, RowsPart, Scorer, encoded


def vectors(seed: int, rows: int, dimension: int) -> np.ndarray:
    """Unit vectors, some of which are nearly equal."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((rows, dimension)).astype(np.float32)
    made[rows // 2 :] = made[: rows - rows // 2] + rng.standard_normal((rows - rows // 2, dimension)) * 1e-4
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def nearest(matrix: np.ndarray, codes: Codes | None, rows: np.ndarray | None, query: np.ndarray, limit: int) -> Nearest:
    found = Vectors(np.arange(len(matrix)), np.zeros(len(matrix), np.bool_), matrix)
    scorer = Scorer.by_vector((found.part, RowsPart()), query)
    return Nearest(scorer, codes, rows, np.empty(0, np.int64), limit)


@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 100), st.integers(1, 40), st.booleans())
def test_the_nearest_rows_are_never_ruled_out(seed, rows, dimension, limit, some):
    matrix = vectors(seed, rows, dimension)
    query = vectors(seed + 1, 1, dimension)[0]
    asked = np.random.default_rng(seed).permutation(rows)[: rows // 2 if some else rows].astype(np.int64)
    exact = bindings.cosines(bindings.VectorColumns(matrix, None), asked, query)
    best = bindings.order(asked, exact)[:limit]
    wanted = [None, asked] if len(asked) == rows else [asked]
    for given_rows in wanted:
        ids, cosines = nearest(matrix, encoded(matrix), given_rows, query, limit).result()
        assert (ids.tolist(), cosines.tolist()) == (asked[best].tolist(), exact[best].tolist())


def test_most_of_many_rows_are_ruled_out():
    matrix = vectors(3, 4000, 384)
    search = nearest(matrix, encoded(matrix), None, matrix[7], 20)
    search.result()
    assert search.scored < 400


@pytest.mark.parametrize("place", range(16))
def test_a_sample_with_all_of_the_nearest_rows_rules_none_out(place):
    matrix = vectors(4, 1600, 24)
    matrix[place::16] = matrix[place]
    matrix[place::16] += vectors(5, 100, 24) * 0.01
    ids, cosines = nearest(matrix, encoded(matrix), None, matrix[place], 90).result()
    exact = bindings.cosines(bindings.VectorColumns(matrix, None), np.arange(1600), matrix[place])
    best = bindings.order(np.arange(1600), exact)[:90]
    assert (ids.tolist(), cosines.tolist()) == (best.tolist(), exact[best].tolist())


def test_codes_are_made_without_a_copy_of_the_vectors():
    matrix = vectors(5, 20_000, 64)
    tracemalloc.start()
    try:
        codes = encoded(matrix)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < math.prod(codes.shape) + matrix.nbytes // 4


def test_zero_vectors_have_codes():
    matrix = np.zeros((3, 5), np.float32)
    search = nearest(matrix, encoded(matrix), None, np.zeros(5, np.float32), 1)
    assert (search.result()[0].tolist(), search.scored) == ([0], 3)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_raises(number):
    matrix = np.ones((2, 4), np.float32)
    codes = encoded(matrix)
    matrix[1, 2] = number
    with pytest.raises(bindings.OutOfRange):
        encoded(matrix)
    with pytest.raises(bindings.OutOfRange):
        nearest(matrix, codes, None, matrix[1], 1).result()


@pytest.mark.parametrize("row", [-1, 2, 2**62])
def test_a_row_number_out_of_range_raises(row):
    matrix = np.eye(2, dtype=np.float32)
    for codes in (encoded(matrix), None):
        with pytest.raises(bindings.OutOfRange):
            nearest(matrix, codes, np.array([0, row]), np.ones(2, np.float32), 1).result()


def test_codes_of_other_rows_raise():
    with pytest.raises(ValueError, match="codes of the shape"):
        nearest(np.eye(3, dtype=np.float32), encoded(np.eye(2, dtype=np.float32)), None, np.ones(3, np.float32), 1)


def test_all_rows_without_codes_have_to_be_named():
    with pytest.raises(ValueError, match="rows are needed"):
        nearest(np.eye(2, dtype=np.float32), None, None, np.ones(2, np.float32), 1)


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_a_search_with_codes_finds_what_one_without_finds(seed, limit):
    matrix = vectors(seed, 600, 24)
    query, dead = vectors(seed + 1, 1, 24)[0], np.random.default_rng(seed).random(600) < 0.1
    plain = Vectors(np.arange(600), dead, matrix)
    coded = Vectors(np.arange(600), dead, matrix, coded=RowCodes(0))
    states = [VectorState(VectorSegment(each, 0), each, Vectors.empty(24), 0) for each in (coded, plain)]
    found, expected = (vector_index.search(state, state.scorer(query), limit, None) for state in states)
    assert found.hits == expected.hits
