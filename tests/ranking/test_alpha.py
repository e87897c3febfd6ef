"""Alpha of the preset `memories`."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.ranking.plan import adaptive_alpha, alpha_weights, is_alpha


@pytest.mark.spec("S5.4")
@pytest.mark.parametrize(("items", "alpha"), [(0, 0.5), (499, 0.5), (500, 0.7), (5000, 0.7), (5001, 0.8), (10**6, 0.8)])
def test_alpha_follows_the_size_of_the_store(items, alpha):
    assert adaptive_alpha(items) == alpha


@pytest.mark.spec("S5.4")
@pytest.mark.parametrize(
    ("alpha", "matching_tags", "tags"),
    [(0.7, 0, 0.3), (0.7, 2, 0.3), (0.7, 3, 0.45), (0.5, 3, 0.75), (0.8, 10, 0.3), (0.2, 3, 1.0), (1.0, 3, 0.0)],
)
def test_three_matching_tags_boost_tags_up_to_the_whole_weight(alpha, matching_tags, tags):
    assert alpha_weights(alpha, matching_tags) == pytest.approx({"semantic": 1 - tags, "tags": tags}, abs=1e-12)


@pytest.mark.spec("S5.3")
def test_alpha_one_means_vectors_and_alpha_zero_means_tags():
    assert alpha_weights(1) == {"semantic": 1.0, "tags": 0.0}
    assert alpha_weights(0) == {"semantic": 0.0, "tags": 1.0}


@pytest.mark.spec("S5.4")
@given(st.floats(0, 1), st.integers(0, 10))
def test_the_weights_of_any_alpha_sum_to_one(alpha, matching_tags):
    assert math.fsum(alpha_weights(alpha, matching_tags).values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("S5.3")
@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf, "0.5", True, None])
def test_invalid_alphas_are_recognised(value):
    assert not is_alpha(value)
