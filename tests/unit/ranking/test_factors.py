"""What becomes of scores: BM25, recency, confidence, a limit per file, explanations."""

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import saturation
from search_rankings import named_lists, weights

from fourfold import Explanation, Hit, Memory, NewItem
from fourfold.engine.confidence import BOTH, LEAST, READ, VECTORS, WORDS, Evidence, Fit, confidence, without_unlikely
from fourfold.engine.present import at_most_per_source, check_per_source, response_confidence
from fourfold.errors import InvalidQuery
from fourfold.ranking.factors import RECENCY_STRENGTHS, Bar, explain, recency_factor, render_bars
from fourfold.ranking.fusion import columns, rrf, with_factors
from fourfold.retrieval import Contribution, Recency
from fourfold.text.bm25 import idf

# ---------------------------------------------------------------- BM25


@pytest.mark.spec("S1.2")
def test_fifty_terms_are_added_to_the_length_of_an_item():
    """1 x 2.2 / (1 + 1.2 x (0.25 + 0.75 x 60 / 150)); as long as the average: 2 x 2.2 / (2 + 1.2)."""
    assert saturation(1, 10, 100) == pytest.approx(2.2 / 1.66, abs=1e-9)
    assert saturation(2, 100, 100) == pytest.approx(4.4 / 3.2, abs=1e-9)
    assert saturation(0, 10, 100) == 0.0
    assert saturation(1, 0, 0) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.spec("S1.2")
def test_length_hardly_matters_among_short_notes_and_does_among_pages():
    short = saturation(1, 5, 10) / saturation(1, 20, 10)
    long = saturation(1, 500, 1000) / saturation(1, 2000, 1000)
    assert 1 < short < 1.15 < 1.4 < long


def test_a_rare_word_scores_higher():
    assert idf(1, 9) == pytest.approx(1.8971199848858813, abs=1e-9)  # ln(1 + 8.5 / 1.5)
    assert idf(9, 9) > 0


# ---------------------------------------------------------------- recency


NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def factor(days: float, recency: Recency | None = None, tags: tuple[str, ...] = ()) -> float:
    return recency_factor(recency or Recency(0.01), NOW - timedelta(days=days), NOW, tags)


@pytest.mark.spec("S5.5")
@pytest.mark.parametrize(
    ("days", "expected"),
    [(0, 1.0), (0.5, math.exp(-0.005)), (70, 0.4965853), (100, 0.3678794), (120.3, 0.3003), (121, 0.3), (10**5, 0.3)],
)
def test_the_factor_decays_by_fractional_days_down_to_the_floor(days, expected):
    assert factor(days) == pytest.approx(expected, abs=1e-4)


@pytest.mark.spec("C1")
@pytest.mark.parametrize(("days", "expected"), [(0, 1.0), (30, 0.948), (70, 0.899), (10**5, 0.86)])
def test_strength_is_the_share_of_the_score_affected_by_age(days, expected):
    assert factor(days, Recency(0.01, strength=0.2)) == pytest.approx(expected, abs=1e-3)


@pytest.mark.spec("C1")
def test_in_rrf_recency_does_not_move_the_oldest_answer_by_one_rank():
    assert factor(10**5, Recency(0.01, strength=RECENCY_STRENGTHS["rrf"])) / 61 > 1 / 62


@pytest.mark.spec("S5.5")
def test_the_factor_is_one_if_disabled_or_evergreen_or_in_the_future():
    assert factor(1000, Recency(0.0)) == 1.0
    assert recency_factor(None, NOW - timedelta(days=1000), NOW) == 1.0
    assert factor(1000, tags=("infra", "Evergreen")) == 1.0
    assert factor(1000, tags=("evergreens",)) == 0.3
    assert factor(-10) == 1.0


@pytest.mark.spec("S5.5")
@given(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 10), st.floats(0, 1), st.floats(0, 1))
def test_the_factor_falls_with_age_between_one_and_the_floor(first, second, decay, floor, strength):
    recency = Recency(decay, floor, strength)
    newer, older = factor(min(first, second), recency), factor(max(first, second), recency)
    assert min(floor, 1 - strength * (1 - floor)) <= older <= newer <= 1


@pytest.mark.spec("S5.5")
def test_recency_reorders_the_ranking_with_ties_by_id():
    ranked = columns([Hit(9, 1.0), Hit(2, 0.5), Hit(1, 0.5), Hit(4, 0.4)])
    assert with_factors(ranked, {9: 0.3, 4: 1.0}) == [Hit(1, 0.5), Hit(2, 0.5), Hit(4, 0.4), Hit(9, 0.3)]
    assert with_factors(columns([]), {}) == []


# ---------------------------------------------------------------- confidence


NUMBERS = st.builds(Evidence, *[st.floats(-1, 1)] * len(Evidence._fields))
FITS = (BOTH, VECTORS, WORDS, READ)


@pytest.mark.spec("B14")
@given(NUMBERS, st.sampled_from(FITS))
def test_confidence_is_between_zero_and_one(evidence: Evidence, fit: Fit) -> None:
    assert 0 <= confidence(evidence, fit) <= 1


@pytest.mark.spec("B14")
@pytest.mark.parametrize("fit", FITS)
def test_more_evidence_never_lowers_confidence(fit: Fit) -> None:
    assert min(fit.per) >= 0


@pytest.mark.spec("B14")
def test_evidence_of_any_size_has_a_confidence() -> None:
    assert confidence(Evidence(nearness=-1e6)) == 0.0
    assert confidence(Evidence(nearness=1e6)) == 1.0


def test_confidence_of_a_response_is_that_of_its_first_result() -> None:
    results: list[Any] = [SimpleNamespace(confidence=confidence) for confidence in (0.3, 0.8, 0.1)]
    assert response_confidence(results) == 0.3
    assert response_confidence([]) == 0.0


# ---------------------------------------------------------------- cut


THINGS = {
    "Heron": "Heron takes orders and keeps them in Postgres 16",
    "Gulls": "Gulls sends invoices on the first working day",
    "": "The coffee machine needs vinegar every month",
}


@pytest.fixture
def things() -> Iterator[Memory]:
    with Memory.open(":memory:", embedder="none") as memory:
        memory.add_many([NewItem(text, title=title) for title, text in THINGS.items()])
        yield memory


@pytest.mark.spec("B14")
@pytest.mark.spec("D4")
def test_a_cut_leaves_out_what_does_not_answer_and_says_so(things: Memory) -> None:
    query = "in what does Heron keep the orders that it takes each day?"
    every, cut = things.search(query), things.search(query, cut="auto")
    assert [result.item.title for result in every.results] == ["Heron", "Gulls"]
    assert [result.item.title for result in cut.results] == ["Heron"]
    assert cut.confidence == every.confidence
    assert cut.notes == ("left out as less likely answers: 1 of 2 results; cut=off shows them",)
    assert [result.id for result in things.search(query, cut="off").results] == [result.id for result in every.results]


@pytest.mark.spec("B14")
@pytest.mark.spec("D4")
def test_a_cut_never_empties_an_answer_whose_first_result_is_plausible(things: Memory) -> None:
    for query in ("Gulls", "where does Heron keep orders?", "vinegar for the coffee machine"):
        assert things.search(query, cut="auto").results[0] == things.search(query).results[0]


@pytest.mark.spec("B14")
def test_a_cut_empties_an_answer_whose_first_result_is_not_plausible(things: Memory) -> None:
    found = things.search("Heron")
    cut = without_unlikely(replace(found, confidence=LEAST / 2))
    assert (cut.results, cut.confidence) == ((), 0.0)


# ---------------------------------------------------------------- results per file


PATHS = {1: "a", 2: "a", 3: "b", 4: "a", 5: None, 6: None, 7: None, 8: "b", 9: "b"}


def kept(per_source: int | None) -> list[int]:
    return list(at_most_per_source(PATHS, PATHS.__getitem__, per_source))


@pytest.mark.spec("B12")
def test_results_beyond_the_limit_of_a_file_are_skipped():
    assert kept(2) == [1, 2, 3, 5, 6, 7, 8]
    assert kept(1) == [1, 3, 5, 6, 7]
    assert kept(None) == list(PATHS)


@pytest.mark.spec("B12")
@given(st.lists(st.tuples(st.integers(), st.none() | st.sampled_from("abc"))), st.integers(1, 4), st.integers(0, 20))
def test_results_for_fewer_candidates_are_a_prefix(results, per_source, n):
    def path(result: tuple[int, str | None]) -> str | None:
        return result[1]

    whole = list(at_most_per_source(results, path, per_source))
    part = list(at_most_per_source(results[:n], path, per_source))
    assert whole[: len(part)] == part


@pytest.mark.spec("B12")
@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_a_limit_below_one_is_rejected(wrong):
    with pytest.raises(InvalidQuery, match="per_source"):
        check_per_source(wrong)
    assert check_per_source(3) == 3


# ---------------------------------------------------------------- explanations


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
