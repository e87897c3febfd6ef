"""Validation and completion of weights."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.errors import InvalidSetting, InvalidWeights
from fourfold.ranking.fusion import scaled_to_one
from fourfold.ranking.plan import check_weights, complete_pair, configured_weights

NO_WEIGHT = {"semantic": 0.0, "keyword": 0.0, "graph": 0.0, "tags": 0.0}


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"semantic": 0.7, "keyword": 0.3001}, "sum to 1.0001"),
        ({"semantic": 0.5, "keyword": 0.4}, "sum to 0.9"),
        ({"semantic": 1.0 + 2e-9}, "sum to 1.000000002"),
        ({"semantic": 0.0}, "sum to 0.0"),
        ({}, "empty"),
        ({"vector": 1.0}, "unknown retriever 'vector'"),
        ({"Semantic": 1.0}, "unknown retriever 'Semantic'"),
        ({1: 1.0}, "unknown retriever 1"),
        ({"semantic": "1"}, "semantic is '1', not a number"),
        ({"semantic": True}, "semantic is True, not a number"),
        ({"semantic": None}, "semantic is None, not a number"),
        ({"semantic": 1.5, "keyword": -0.5}, "keyword is -0.5, below 0"),
        ({"semantic": math.nan, "keyword": 1.0}, "semantic is nan, not a finite number"),
        ({"semantic": math.inf}, "semantic is inf, not a finite number"),
        ({"semantic": -math.inf}, "semantic is -inf, not a finite number"),
        ({"semantic": 10**400}, "not a finite number"),
        ([("semantic", 1.0)], "weights are list"),
        ("semantic=1", "weights are str"),
    ],
)
def test_invalid_weights_are_rejected_with_the_reason(weights, said):
    with pytest.raises(InvalidWeights) as refused:
        check_weights(weights)
    assert said in refused.value.message
    assert "sum to 1" in refused.value.remedy


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize(
    "weights",
    [
        {"semantic": 0.7, "keyword": 0.3},
        {"tags": 1},
        {"semantic": 0.1, "keyword": 0.2, "graph": 0.3, "tags": 0.4},
        {"semantic": 1 / 3, "keyword": 1 / 3, "graph": 1 / 3},
        {"semantic": 1.0 - 5e-10},
    ],
)
def test_a_missing_weight_is_zero(weights):
    assert check_weights(weights) == {**NO_WEIGHT, **weights}


@pytest.mark.spec("S4.4")
def test_a_pair_of_weights_is_completed_by_the_graph():
    completed = complete_pair({"semantic": 0.7, "keyword": 0.3}, graph=0.2)
    assert completed == pytest.approx({"semantic": 0.56, "keyword": 0.24, "graph": 0.2, "tags": 0.0}, abs=1e-12)


@pytest.mark.spec("S4.4")
@pytest.mark.parametrize("weights", [{"semantic": 1.0}, {"semantic": 0.5, "keyword": 0.3, "graph": 0.2}])
def test_only_the_exact_pair_is_completed(weights):
    assert complete_pair(weights, graph=0.2) == {**NO_WEIGHT, **weights}


@pytest.mark.spec("S4.4")
def test_a_pair_with_a_wrong_sum_is_rejected():
    with pytest.raises(InvalidWeights, match=r"sum to 0\.8"):
        complete_pair({"semantic": 0.6, "keyword": 0.2}, graph=0.2)


@pytest.mark.spec("S4.4")
@given(st.floats(0, 1), st.floats(0, 1))
def test_completed_weights_are_valid(semantic, graph):
    completed = complete_pair({"semantic": semantic, "keyword": 1 - semantic}, graph)
    assert check_weights(completed) == completed


@pytest.mark.spec("S4.3")
def test_configured_weights_are_completed_and_checked():
    defaults = {"semantic": 0.6, "keyword": 0.2, "graph": 0.2}
    assert configured_weights("w", defaults, {"semantic": 0.5, "graph": 0.3}) == {
        "semantic": 0.5,
        "keyword": 0.2,
        "graph": 0.3,
    }
    with pytest.raises(InvalidSetting, match=r"hybrid_search_weights: weights sum to 1\.2"):
        configured_weights("hybrid_search_weights", defaults, {"semantic": 0.8})


def test_scaling_keeps_proportions_and_drops_zeros():
    weights = {"semantic": 0.6, "keyword": 0.2, "graph": 0.0}
    assert scaled_to_one(weights, ("semantic", "keyword", "graph")) == pytest.approx(
        {"semantic": 0.75, "keyword": 0.25}
    )
    assert scaled_to_one(weights, ("graph", "tags")) == {}
