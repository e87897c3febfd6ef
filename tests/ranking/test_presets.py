"""Presets as specified."""

import pytest

from fourfold.errors import InvalidQuery
from fourfold.ranking.plan import PRESETS, PlanRequest, PlanSettings, StoreFacts, make_plan
from fourfold.retrieval import Recency

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
