"""Confidence from absolute evidence: cosine, and the share of the query's rare words found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.search.confidence import response_confidence, result_confidence

COSINES = st.none() | st.floats(-1, 1)
COVERAGES = st.none() | st.floats(0, 1)


@pytest.mark.spec("B14")
@pytest.mark.parametrize(
    ("case", "cosine", "coverage", "low", "high"),
    [
        ("nothing in common", 0.05, 0.0, 0.0, 0.02),
        ("a question of another field: a common word or two", 0.2, 0.2, 0.0, 0.1),
        ("the field is right, the answer is not there", 0.35, 0.33, 0.15, 0.4),
        ("a typical answer", 0.53, 0.75, 0.85, 0.97),
        ("a word for word answer", 0.7, 1.0, 0.97, 1.0),
        ("a code or a name: every word, no likeness", 0.1, 1.0, 0.5, 0.7),
        ("a paraphrase or a translation: no word, close in meaning", 0.65, 0.0, 0.4, 0.6),
        ("vectors alone: unrelated", 0.15, None, 0.0, 0.05),
        ("vectors alone: sure", 0.65, None, 0.9, 1.0),
        ("words alone: a few", None, 0.3, 0.0, 0.2),
        ("words alone: all", None, 1.0, 0.85, 0.95),
        ("no evidence at all", None, None, 0.0, 0.0),
    ],
)
def test_what_confidence_means_at_typical_points(case, cosine, coverage, low, high):
    assert low <= result_confidence(cosine, coverage) <= high, case


@pytest.mark.spec("B14")
@given(COSINES, COVERAGES)
def test_it_is_between_zero_and_one(cosine, coverage):
    assert 0 <= result_confidence(cosine, coverage) <= 1


@pytest.mark.spec("B14")
@given(st.floats(-1, 1), st.floats(-1, 1), COVERAGES)
def test_a_higher_cosine_never_lowers_it(first, second, coverage):
    assert result_confidence(min(first, second), coverage) <= result_confidence(max(first, second), coverage)


@pytest.mark.spec("B14")
@given(st.floats(0, 1), st.floats(0, 1), COSINES)
def test_more_of_the_words_never_lower_it(first, second, cosine):
    assert result_confidence(cosine, min(first, second)) <= result_confidence(cosine, max(first, second))


@pytest.mark.spec("B14")
def test_a_response_is_as_sure_as_its_surest_result():
    assert response_confidence([0.3, 0.8, 0.1]) == 0.8
    assert response_confidence([]) == 0.0
