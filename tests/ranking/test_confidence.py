"""Confidence from absolute evidence: cosine, the share of the query's rare words found, tags, relations."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.engine.present import response_confidence, result_confidence

COSINES = st.none() | st.floats(-1, 1)
COVERAGES = st.none() | st.floats(0, 1)
SHARES = st.floats(0, 1)


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
def test_confidence_at_typical_evidence(case, cosine, coverage, low, high):
    assert low <= result_confidence(cosine, coverage) <= high, case


@pytest.mark.spec("C2")
@pytest.mark.parametrize(
    ("case", "evidence", "low", "high"),
    [
        ("a tag that is the whole query", {"cosine": 0.15, "coverage": 0.0, "tags": 1.0}, 0.6, 0.75),
        ("one word of five is a tag", {"cosine": 0.15, "coverage": 0.0, "tags": 0.2}, 0.0, 0.05),
        ("what the query names", {"cosine": 0.15, "coverage": 0.0, "relation": 1.0}, 0.8, 0.95),
        (
            "joined to it by a relation, unlike the question",
            {"cosine": 0.06, "coverage": 0.0, "relation": 0.8},
            0.5,
            0.6,
        ),
        ("a word of the query that something is called", {"cosine": 0.15, "coverage": 0.0, "relation": 0.25}, 0.0, 0.1),
        ("tags alone, all words", {"tags": 1.0}, 0.9, 0.95),
        ("the graph alone: a relation", {"relation": 0.8}, 0.7, 0.8),
        ("vectors and tags, as by a given alpha", {"cosine": 0.15, "tags": 1.0}, 0.6, 0.75),
        ("vectors and tags, no tag named", {"cosine": 0.65}, 0.9, 1.0),
    ],
)
def test_tags_and_relations_raise_confidence(case, evidence, low, high):
    assert low <= result_confidence(**evidence) <= high, case


@pytest.mark.spec("B14")
@given(COSINES, COVERAGES, SHARES, SHARES)
def test_confidence_is_between_zero_and_one(cosine, coverage, tags, relation):
    assert 0 <= result_confidence(cosine, coverage, tags, relation) <= 1


@pytest.mark.spec("B14")
@pytest.mark.spec("C2")
@pytest.mark.parametrize("part", ["cosine", "coverage", "tags", "relation"])
@given(st.floats(-1, 1), COVERAGES, SHARES, SHARES, SHARES, SHARES)
def test_more_evidence_never_lowers_confidence(part, cosine, coverage, tags, relation, first, second):
    evidence = {"cosine": cosine, "coverage": coverage, "tags": tags, "relation": relation}
    less, more = (result_confidence(**{**evidence, part: value}) for value in sorted((first, second)))
    assert less <= more


@pytest.mark.spec("B14")
def test_confidence_of_a_response_is_that_of_its_best_result():
    results: list[Any] = [SimpleNamespace(confidence=confidence) for confidence in (0.3, 0.8, 0.1)]
    assert response_confidence(results) == 0.8
    assert response_confidence([]) == 0.0
