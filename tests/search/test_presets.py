"""The table of presets, as the specification has it."""

import pytest

from fourfold.errors import InvalidQuery
from fourfold.model import Recency
from fourfold.search.presets import PRESETS, find_preset

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
def test_each_preset_is_its_row(name):
    preset = PRESETS[name]
    row = (preset.retrievers, preset.weights, preset.fusion, preset.top_k, preset.routing, preset.recency)
    assert row == ROWS[name]
    assert (preset.name, preset.k) == (name, 60)


def test_there_are_no_other_presets():
    assert PRESETS.keys() == ROWS.keys()


@pytest.mark.spec("S3.3")
def test_files_weighs_scores_otherwise_than_ranks():
    assert PRESETS["files"].score_weights == {"semantic": 0.6, "keyword": 0.4}


@pytest.mark.spec("B12")
def test_only_auto_limits_the_results_of_one_file_by_itself():
    assert {name: preset.per_source for name, preset in PRESETS.items() if preset.per_source} == {"auto": 2}


def test_an_unknown_preset_is_refused_with_the_names():
    with pytest.raises(InvalidQuery, match=r"no preset 'fast'.*auto, insights-basic, insights, wiki, files, memories"):
        find_preset("fast")
