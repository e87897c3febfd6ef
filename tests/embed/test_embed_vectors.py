"""Validation of vectors given by callers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold import limits
from fourfold.embed.base import check_vector
from fourfold.errors import InvalidVector

THREE = [3.0, 0.0, 4.0]


@pytest.mark.spec("S1.6")
@pytest.mark.parametrize(
    "values",
    [
        THREE,
        tuple(THREE),
        [3, 0, 4],
        [np.float64(3), np.int8(0), 4],
        np.array(THREE),
        np.array(THREE, np.float32),
        np.array(THREE, np.float16),
        np.array([3, 0, 4], np.int64),
        np.array([9, 3, 9, 0, 9, 4])[1::2],
    ],
)
def test_numbers_of_any_make_become_a_float32_unit_vector(values: object) -> None:
    vector = check_vector(values, 3)  # type: ignore[arg-type]
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, [0.6, 0.0, 0.8], rtol=1e-6)


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, math.nan, 0.0], "NaN"),
        ([1.0, math.inf, 0.0], "infinite"),
        ([1.0, -math.inf, 0.0], "infinite"),
        (np.array([1.0, np.nan, 0.0]), "NaN"),
        ([1e38, 0.0, 0.0], "absurdly large"),
        ([1e38] * 3, "absurdly large"),
        ([1e300] * 3, "absurdly large"),
        ([0.0, 0.0, 0.0], "zero"),
        ([-0.0, 0, 0], "zero"),
        ([1e-30, 0.0, 0.0], "zero"),
        ([], "empty"),
        (np.array([]), "empty"),
        ([1.0, 2.0], "2 dimensions where 3"),
        ([1.0] * 4, "4 dimensions where 3"),
        ([1.0] * (limits.VECTOR_DIMENSIONS + 1), f"{limits.VECTOR_DIMENSIONS + 1} dimensions"),
        ([[1.0, 2.0, 3.0]], "flat list of numbers"),
        ([[1.0], [2.0, 3.0], 4.0], "flat list of numbers"),
        (np.ones((3, 1)), "flat list of numbers"),
        (np.float64(1.0), "flat list of numbers"),
        (np.array(1.0), "flat list of numbers"),
        (["1", "2", "3"], "flat list of numbers"),
        ([1.0, "2", 3.0], "flat list of numbers"),
        ([1.0, None, 3.0], "flat list of numbers"),
        ([True, False, True], "flat list of numbers"),
        ([1j, 2, 3], "flat list of numbers"),
        ([10**400, 2, 3], "flat list of numbers"),
        ("123", "flat list of numbers"),
        (b"123", "flat list of numbers"),
        ({1: 2.0, 2: 3.0, 3: 4.0}, "flat list of numbers"),
        ({1.0, 2.0, 3.0}, "flat list of numbers"),
        (7, "flat list of numbers"),
        (None, "flat list of numbers"),
        (iter(THREE), "flat list of numbers"),
    ],
)
def test_anything_else_is_refused(values: object, message: str) -> None:
    with pytest.raises(InvalidVector, match=message) as caught:
        check_vector(values, 3)  # type: ignore[arg-type]
    assert caught.value.remedy


@pytest.mark.spec("S1.6")
@pytest.mark.parametrize("dimension", [1, 384, 1536, limits.VECTOR_DIMENSIONS])
def test_without_a_known_space_any_dimension_is_accepted(dimension: int) -> None:
    assert check_vector([1.0] * dimension, None).shape == (dimension,)


def test_the_callers_array_is_not_changed() -> None:
    given_array = np.array(THREE, np.float32)
    vector = check_vector(given_array, 3)
    vector[0] = 9.0
    assert given_array.tolist() == THREE


def test_a_unit_vector_is_not_shared_with_the_caller() -> None:
    given_array = np.array([1.0, 0.0], np.float32)
    check_vector(given_array, 2)[0] = 9.0
    assert given_array.tolist() == [1.0, 0.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=32).filter(lambda row: max(map(abs, row)) > 1e-6))
def test_checking_twice_changes_no_bit(row: list[float]) -> None:
    once = check_vector(row, len(row))
    assert math.isclose(float(np.linalg.norm(once)), 1.0, rel_tol=1e-6)
    assert check_vector(once, len(row)).tobytes() == once.tobytes()


@given(st.lists(st.floats(width=64) | st.integers() | st.none() | st.booleans() | st.text(), max_size=6))
def test_any_input_gives_a_unit_vector_or_a_typed_error(row: list[object]) -> None:
    try:
        vector = check_vector(row, None)  # type: ignore[arg-type]
    except InvalidVector:
        return
    assert math.isclose(float(np.linalg.norm(vector)), 1.0, rel_tol=1e-6)
