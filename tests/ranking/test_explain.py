"""Explanations of scores as trees."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_rankings import named_lists, weights

from fourfold.ranking.factors import Bar, explain, render_bars
from fourfold.ranking.fusion import rrf
from fourfold.retrieval import Contribution, Explanation

KEYWORD = Contribution("keyword", 2, 11.3, 0.8, 0.5, 0.4)
SEMANTIC = Contribution("semantic", None, 0.25, 0.2, 0.5, 0.1)
NAME = Contribution("file name", None, None, 1.0, 1.0, 1.0)


@pytest.mark.spec("B2")
def test_a_contribution_is_explained_in_words_and_as_values():
    line = explain((KEYWORD,), 0.4).details[0]
    assert (line.value, line.description) == (0.4, "keyword: rank 2, BM25 11.3; weight 0.5 x 0.8")
    assert [(detail.description, detail.value) for detail in line.details] == [
        ("rank", 2.0),
        ("BM25", 11.3),
        ("scaled", 0.8),
        ("weight", 0.5),
    ]


@pytest.mark.spec("B2")
def test_missing_ranks_and_scores_are_stated():
    assert explain((SEMANTIC,), 0.1).details[0].description == "semantic: not listed, cosine 0.25; weight 0.5 x 0.2"
    assert explain((NAME,), 1.0).details[0].description == "file name: weight 1 x 1"


@pytest.mark.spec("B2")
def test_without_recency_the_contributions_sum_to_the_score():
    tree = explain((SEMANTIC, KEYWORD), 0.5)
    assert tree.value == 0.5
    assert [line.value for line in tree.details] == [0.1, 0.4]


@pytest.mark.spec("B2")
@pytest.mark.spec("S5.5")
def test_with_recency_the_score_is_the_sum_times_the_factor():
    tree = explain((SEMANTIC, KEYWORD), 0.25, {"recency factor": 0.5})
    total, factor = tree.details
    assert (tree.value, total.value, factor.value) == (0.25, 0.5, 0.5)
    assert [line.value for line in total.details] == [0.1, 0.4]


@pytest.mark.spec("B2")
@given(named_lists, weights, st.floats(0.3, 1))
def test_score_is_the_sum_of_contributions_times_recency(lists, weights, recency):
    fusion = rrf(lists, weights)
    for hit in fusion.ranked:
        tree = explain(
            fusion.contributions(hit.id), hit.score * recency, {"recency factor": recency} if recency != 1 else {}
        )
        lines = tree.details if recency == 1 else tree.details[0].details
        assert math.fsum(line.value for line in lines) * recency == pytest.approx(tree.value, abs=1e-12)


@pytest.mark.spec("B2")
def test_bars_list_the_tree_top_down_with_shares():
    bars = render_bars(explain((SEMANTIC, KEYWORD), 0.25, {"recency factor": 0.5}))
    assert bars[0] == Bar(0, "score: the product of", 0.25, 1.0)
    shares = [(bar.depth, bar.description.split(":")[0], bar.share) for bar in bars if bar.depth in (1, 2)]
    assert shares == [(1, "the sum of", 0.0), (2, "semantic", 0.2), (2, "keyword", 0.8), (1, "recency factor", 0.0)]
    assert {bar.share for bar in bars if bar.depth == 3} == {0.0}


@pytest.mark.spec("B2")
def test_bars_of_a_leaf():
    assert render_bars(Explanation(0.0, "not found")) == [Bar(0, "not found", 0.0, 1.0)]
