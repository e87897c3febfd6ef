"""Normalisation of text for comparison and storage."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.errors import InvalidItem
from fourfold.text.fold import clean, fold, words

ANY_TEXT = st.text(st.characters())
"""All characters, including lone surrogates."""


@pytest.mark.parametrize(
    ("spellings", "folded"),
    [
        (["Müller", "MÜLLER", "mueller", "Mu\u0308ller"], "mueller"),
        (["Straße", "STRASSE", "strasse"], "strasse"),
        (["Café", "cafe", "CAFÉ"], "cafe"),
        (["Łódź", "lodz"], "lodz"),
        (["ＰＹＴＨＯＮ", "python"], "python"),
        (["Ver\u00adtrag", "Vertrag"], "vertrag"),
    ],
)
def test_spellings_of_a_name_fold_to_the_same_form(spellings, folded):
    assert {fold(spelling) for spelling in spellings} == {folded}


@pytest.mark.parametrize("text", ["\u0439", "が", "हिन्दी", "한국어"])
def test_marks_that_are_letters_in_their_script_are_kept(text):
    assert fold(text) == text


@given(ANY_TEXT)
def test_any_text_can_be_folded_and_split(text):
    assert fold(text) == fold(text)
    assert all(word in text and not any(map(str.isspace, word)) for word in words(text))


def test_words_are_unchanged_unicode_words():
    assert words("Grüße, हिन्दी & snake_case: 3.5!") == ["Grüße", "हिन्दी", "snake_case", "3", "5"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_clean_returns_the_text_in_composed_form(text):
    assert clean(text) == unicodedata.normalize("NFC", text)
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(("text", "place"), [("ab\x00c", 2), ("\ud83d and no more", 0)])
def test_unstorable_characters_are_rejected_with_position_and_remedy(text, place):
    with pytest.raises(InvalidItem, match=f"at position {place}") as refused:
        clean(text)
    assert refused.value.remedy
