"""Typing errors: words that occur in no item are replaced by similar ones that do."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.text.analysis import analyse, query_words
from fourfold.text.compounds import MOST_SPELLINGS, MOST_WORDS, can_be_corrected, corrections, edits
from fourfold.text.keyword_query import KeywordQuery, keyword_query

TEXTS = (
    "The restaurant at the harbour is closed on Mondays",
    "Running shoes are in the hall",
    "The harbour master opens the gate at six",
    "Quarantine rules for the harbour",
)


def query(text: str, texts: tuple[str, ...] = TEXTS, language: str = "en") -> KeywordQuery:
    counts = Counter(term for each in texts for term in set(analyse(each, language)))
    return keyword_query(text, {language: len(texts)}, None, lambda terms: [counts[term] for term in terms], len(texts))


def corrected(text: str, texts: tuple[str, ...] = TEXTS, language: str = "en") -> dict[str, tuple[str, ...]]:
    return {each.surface: each.spellings for each in query(text, texts, language).corrections}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("resturant", "restaurant"),
        ("restaurrant", "restaurant"),
        ("restairant", "restaurant"),
        ("restuarant", "restaurant"),
        ("estaurant", "restaurant"),
        ("runnign", "running"),
        ("qarantine", "quarantine"),
    ],
)
def test_one_edit_is_corrected_wherever_it_is(typed: str, meant: str):
    assert corrected(typed)[typed][0] == meant


def test_a_word_that_occurs_is_never_corrected():
    assert corrected("harbour", (*TEXTS, "arbour")) == {}


@pytest.mark.parametrize("common", ["locked", "passwort"])
def test_a_common_word_is_not_taken_for_a_typing_error(common: str):
    assert corrected(common, ("She looked at it", "password")) == {}


def test_a_form_of_a_verb_is_not_taken_for_a_typing_error():
    assert corrected("verträgt", ("Sie haben sich vertraget",)) == {}


def test_a_corrected_word_has_less_weight_than_one_that_occurs():
    (typed,), (meant,) = query("harbuor").words, query("harbour").words
    assert typed.terms == meant.terms
    assert typed.idf < meant.idf
    assert max(typed.values) < max(meant.values)


def test_a_query_notes_its_corrections_and_counts_them_as_known():
    found = query("harbuor gate")
    assert found.notes == ("no item contains 'harbuor'; keyword search used 'harbour'",)
    assert found.absent == ()
    assert found.unknown == 0


@pytest.mark.parametrize("typed", ["gat", "x4711", "gäte1", "zzzzzzz", "a" * 40])
def test_short_words_codes_and_words_without_a_neighbour_stay_unknown(typed: str):
    assert corrected(typed) == {}


def test_the_first_letter_of_a_short_word_is_not_corrected():
    assert corrected("hate", ("The gate is open",)) == {}
    assert corrected("gaet", ("The gate is open",)) == {"gaet": ("gate",)}


def test_a_missing_umlaut_is_one_letter():
    assert [*corrected("Bhne", ("Die Bühne ist frei",), "de")] == ["bhne"]


def test_other_alphabets_are_corrected():
    assert corrected("москав", ("Москва большая",), "ru") == {"москав": ("москва",)}


def test_the_most_frequent_spellings_replace_a_word():
    texts = ("brand", "brand", "bland", "band", "braid")
    assert corrected("braand", texts)["braand"] == ("brand",)
    texts = ("plan", "plan", "plan", "clan", "play", "play", "plane", "plait")
    assert corrected("plam", texts)["plam"] == ("plan", "play")
    assert len(corrected("plam", (*texts, "palm", "plum"))["plam"]) == MOST_SPELLINGS


def test_the_cost_of_a_query_is_bounded():
    asked: list[int] = []

    def frequencies(terms):
        asked.append(len(terms))
        return [0] * len(terms)

    unknown = query_words(" ".join(f"unknown{letter * 17}" for letter in "abcdefgh"), ("en",))
    assert corrections(unknown, ("en",), frequencies) == {}
    assert len(asked) == 1
    assert asked[0] <= MOST_WORDS * 55 * 25


@given(st.text(alphabet="abcdeäßжя1", max_size=12))
def test_edits_are_distinct_and_never_the_word_itself(word: str):
    found = edits(word) if can_be_corrected(word) else []
    assert len(set(found)) == len(found)
    assert word not in found
    assert all(abs(len(each) - len(word)) <= 1 for each in found)
