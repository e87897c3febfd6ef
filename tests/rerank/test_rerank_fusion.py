"""How the order of a reranker enters a score."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.errors import InvalidQuery
from fourfold.ranking.fusion import RERANK, RERANK_SHARE, rrf, weighted, with_file_names, with_rerank
from fourfold.ranking.plan import checked_rerank
from fourfold.ranking.questions import is_question
from fourfold.retrieval import Hit

WEIGHTS = {"semantic": 0.6, "keyword": 0.4}
LISTS = {
    "semantic": [Hit(1, 0.9), Hit(2, 0.8), Hit(3, 0.7), Hit(4, 0.1)],
    "keyword": [Hit(3, 5.0), Hit(2, 4.0), Hit(5, 1.0)],
}


def test_the_candidate_at_rank_r_gets_a_share_of_the_best_score_over_r() -> None:
    plain = weighted(LISTS, WEIGHTS)
    found = with_rerank(plain, {3: -7.0, 1: 2.5, 2: 1.0})
    best = max(plain.scores.values())
    for rank, item in enumerate((1, 2, 3), 1):
        line = found.contributions(item)[-1]
        assert (line.source, line.rank) == (RERANK, rank)
        assert line.value == pytest.approx(RERANK_SHARE * best / rank)
        assert found.scores[item] == pytest.approx(plain.scores[item] + line.value)
    assert found.scores[4] == plain.scores[4]
    assert found.weights == plain.weights


def test_equal_scores_of_the_model_share_a_rank() -> None:
    found = with_rerank(weighted(LISTS, WEIGHTS), {1: 2.0, 2: 2.0, 3: 1.0})
    assert [found.contributions(item)[-1].rank for item in (1, 2, 3)] == [1, 1, 3]


def test_fewer_than_two_scores_change_nothing() -> None:
    plain = weighted(LISTS, WEIGHTS)
    assert with_rerank(plain, {}) is plain
    assert with_rerank(plain, {1: 3.0}) is plain


@given(
    st.dictionaries(st.integers(1, 60), st.floats(0.001, 40), min_size=3),
    st.dictionaries(st.integers(1, 60), st.floats(-12, 12), min_size=2, max_size=20),
    st.floats(0.01, 0.99),
    st.booleans(),
)
def test_a_score_is_exactly_the_sum_of_its_lines(
    words: dict[int, float], model: dict[int, float], share: float, by_rank: bool
) -> None:
    hits = [Hit(*pair) for pair in sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))]
    lists = {"semantic": [Hit(hit.id, 1 / place) for place, hit in enumerate(hits, 1)][::2], "keyword": hits}
    weights = {"semantic": share, "keyword": 1 - share}
    fusion = rrf(lists, weights) if by_rank else weighted(lists, weights)
    read = {item: score for item, score in model.items() if item in fusion.scores}
    found = with_file_names(with_rerank(fusion, read), {"notes.md": [hits[-1].id]})
    for hit in found.ranked:
        values = [line.value for line in found.contributions(hit.id)]
        assert sum(values) == sum(reversed(values)) == math.fsum(values) == hit.score


def test_candidates_that_the_model_read_stay_above_those_that_it_did_not_read() -> None:
    plain = rrf({"semantic": [Hit(item, 1 / item) for item in range(1, 40)]}, {"semantic": 1.0})
    found = with_rerank(plain, {item: float(-item % 7) for item in range(1, 21)})
    assert set(found.ids[:20]) == set(plain.ids[:20])
    assert found.ids[20:] == plain.ids[20:]


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Who has the spare key?", True),
        ("the spare key?", True),
        ("how do i sort a list in python", True),
        ("Is the router in room 4", True),
        ("I want to plan a trip to Rome", False),
        ("Aspirin lowers the risk of strokes.", False),
        ("router password", False),
        ("", False),
    ],
)
def test_auto_recognizes_questions(text: str, asks: bool) -> None:
    assert is_question(text) is asks


def test_an_unknown_reranker_is_refused_with_the_choices() -> None:
    assert [checked_rerank(name) for name in ("off", "auto", "endpoint", "onnx:m")] == [
        None,
        "auto",
        "endpoint",
        "onnx:m",
    ]
    for wrong in ("", "on", "onnx:", "cohere", 1, None, True):
        with pytest.raises(InvalidQuery, match="Choose off, auto, ms-marco, endpoint or onnx:FOLDER"):
            checked_rerank(wrong)
