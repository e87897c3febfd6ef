"""Snippets of results."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.text.analysis import query_words
from fourfold.text.snippets import highlighted, snippet

LOREM = "lorem ipsum dolor sit amet consectetur "


def shown(text, query, language="de", width=240):
    return snippet(text, query_words(query, ["de", "en"]), language, width)


def test_a_snippet_is_the_window_with_most_words_between_ellipses():
    text = LOREM * 20 + "apple " + LOREM * 20 + "apple and pear " + LOREM * 20
    found = shown(text, "apple pear", "en")
    assert "**apple** and **pear**" in found
    assert found[0] == found[-1] == "…"
    assert len(found) <= 240 + 2 + 8


def test_without_a_match_a_snippet_is_the_beginning_of_the_text():
    assert shown(LOREM * 20, "pear", "en", 30) == "lorem ipsum dolor sit amet…"


@pytest.mark.parametrize("filler", [LOREM * 25_000, "x" * 1_000_000, "東" * 300_000])
def test_a_match_at_the_end_of_a_long_text_is_found(filler):
    assert shown(filler + " der Vertrag mit Müller", "Verträge Mueller").endswith("**Vertrag** mit **Müller**")


@given(st.text(st.characters(exclude_characters="*…")), st.text(st.characters()), st.integers(1, 60))
def test_a_snippet_is_a_passage_of_the_text_with_marks(text, query, width):
    found = shown(text, query, "en", width)
    assert found.replace("**", "").removeprefix("…").removesuffix("…") in text


@given(
    st.lists(st.sampled_from(["apple", "pears", "Bäume", "x-y", "a.b.c", "fooBar"]), max_size=60), st.integers(20, 80)
)
def test_cuts_and_marks_respect_words(words, width):
    found = shown(" ".join(words), "pear foo tree", "en", width)
    assert set(re.sub(r"[*…]", "", found).split()) <= set(words)


@pytest.mark.spec("S1.9")
@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        (
            "Die Verträge von Frau Müller liegen in der Straße.",
            "vertrag mueller STRASSE",
            "Die **Verträge** von Frau **Müller** liegen in der **Straße**.",
        ),
        ("calls getUserName() twice", "user", "calls **getUserName**() twice"),
        ("Pineapple apple's", "apple", "Pineapple **apple**'s"),
        ("東京大学は大学です", "大学", "東京**大学**は**大学**です"),
        ("a **pear** here", "pear", "a **pear** here"),
        ("short text", "", "short text"),
        ("", "pear", ""),
        ("**One to Many** relations", "many", "One to **Many** relations"),
        ("a **ripe pear** here", "ripe pear", "a **ripe** **pear** here"),
        ("**bold** without a match", "match", "bold without a **match**"),
        ("def call(*args, **kwargs): pass", "call", "def call(*args, **kwargs): pass"),
        ("area = x**2 + y**2", "area", "area = x**2 + y**2"),
        ("first **left open and a pear", "pear", "first **left open and a pear"),
    ],
)
def test_all_forms_of_words_are_marked_as_a_whole_and_once(text, query, expected):
    """Marks of bold text are removed; if other double asterisks remain, nothing is marked."""
    language = "de" if "ä" in text else "ja" if "大" in text else "en"
    assert shown(text, query, language) == expected


def test_bold_text_cut_by_the_window_leaves_no_stray_marks():
    text = LOREM * 10 + "**pear tree " + "leaf " * 60 + "end** " + LOREM * 10
    found = shown(text, "pear", "en")
    assert found.count("**") == 2
    assert "**pear**" in found


@given(st.text(st.sampled_from("a* pear\n")), st.sampled_from(["pear", "a"]))
def test_marks_come_in_pairs_around_words_of_the_query(text, query):
    found = highlighted(text, query_words(query, ["en"]), "en")
    for start, end in found.marks:
        assert found.text[start:end] in ("a", "pear")
    if found.marks and "**" not in found.text:
        assert re.findall(r"\*\*(.+?)\*\*", found.marked) == [found.text[a:b] for a, b in found.marks]
    else:
        assert found.marked == found.text
