"""Presets, their settings, weights and alpha."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.errors import InvalidQuery, InvalidSetting, InvalidWeights
from fourfold.ranking.plan import (
    PRESETS,
    PlanRequest,
    PlanSettings,
    StoreFacts,
    adaptive_alpha,
    alpha_weights,
    check_weights,
    complete_pair,
    configured_weights,
    is_alpha,
    make_plan,
    scaled_to_one,
)
from fourfold.retrieval import Recency

# ---------------------------------------------------------------- presets as specified


PAIR = ("semantic", "keyword")
ROWS = {
    "auto": (("semantic", "keyword", "graph", "tags"), None, "auto", 10, "reported", None),
    "insights-basic": (PAIR, {"semantic": 0.7, "keyword": 0.3}, "rrf", 5, "off", None),
    "insights": (
        ("semantic", "keyword", "graph"),
        {"semantic": 0.6, "keyword": 0.2, "graph": 0.2},
        "rrf",
        5,
        "acts",
        None,
    ),
    "wiki": (PAIR, {"semantic": 0.5, "keyword": 0.5}, "rrf", 20, "off", None),
    "files": (PAIR, {"semantic": 1.0, "keyword": 1.0}, "rrf", 10, "off", None),
    "memories": (("semantic", "keyword", "graph", "tags"), None, "auto", 10, "off", Recency(0.01, 0.3, 0.2)),
}


@pytest.mark.spec("S1.3")
@pytest.mark.spec("S2.3")
@pytest.mark.spec("S3.3")
@pytest.mark.spec("S4.3")
@pytest.mark.spec("S5.5")
@pytest.mark.parametrize("name", ROWS)
def test_presets_match_the_specification(name):
    preset = PRESETS[name]
    row = (preset.retrievers, preset.weights, preset.fusion, preset.top_k, preset.routing, preset.recency)
    assert row == ROWS[name]
    assert (preset.name, preset.k) == (name, 60)


def test_no_preset_is_missing_from_the_specification():
    assert PRESETS.keys() == ROWS.keys()


@pytest.mark.spec("S3.3")
def test_the_files_preset_has_weights_for_scores():
    assert PRESETS["files"].score_weights == {"semantic": 0.6, "keyword": 0.4}


@pytest.mark.spec("B12")
def test_only_auto_limits_results_per_file_by_default():
    assert {name: preset.per_source for name, preset in PRESETS.items() if preset.per_source} == {"auto": 2}


def test_an_unknown_preset_is_rejected_with_the_names():
    with pytest.raises(
        InvalidQuery, match=r"unknown preset 'fast'.*auto, insights-basic, insights, wiki, files, memories"
    ):
        make_plan(PlanRequest("anything", "fast"), PlanSettings(), StoreFacts())


# ---------------------------------------------------------------- settings of presets


@pytest.mark.spec("S2.3")
@pytest.mark.spec("S4.3")
def test_missing_weights_come_from_the_preset():
    settings = PlanSettings(wiki_weights={}, insights_weights={"semantic": 0.5, "graph": 0.3})
    assert settings.wiki_weights == {"semantic": 0.5, "keyword": 0.5}
    assert settings.insights_weights == {"semantic": 0.5, "keyword": 0.2, "graph": 0.3}


@pytest.mark.spec("S2.3")
@pytest.mark.spec("S4.3")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"wiki_top_k": 0}, "RETRIEVAL_TOP_K is 0"),
        ({"wiki_top_k": 101}, "RETRIEVAL_TOP_K is 101"),
        ({"wiki_weights": {"semantic": 0.7}}, "RETRIEVAL_VECTOR_WEIGHT .* sum to 1.2"),
        ({"insights_weights": {"graph": 0.5}}, "hybrid_search_weights: .* sum to"),
        ({"insights_weights": {"vector": 0.0}}, "hybrid_search_weights: .*'vector'"),
        ({"memories_alpha": 1.5}, "HYBRID_ALPHA is 1.5"),
        ({"memories_recency": Recency(-1)}, "RECENCY_DECAY is -1"),
        ({"memories_recency_strength": 1.5}, "strength of recency is 1.5"),
    ],
)
def test_invalid_settings_are_rejected_when_they_are_loaded(wrong, said):
    with pytest.raises(InvalidSetting, match=said):
        PlanSettings(**wrong)


# ---------------------------------------------------------------- validation and completion of weights


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


# ---------------------------------------------------------------- alpha of the preset `memories`


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
