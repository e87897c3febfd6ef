"""How a long text is cut into windows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.embed import windows as module
from fourfold.embed.base import EmbeddingModel
from fourfold.embed.windows import Span, flaw, read_as
from fourfold.limits import WINDOWS

pytestmark = pytest.mark.spec("C13")

SENTENCES = [f"Sentence number {number} says that the harbour is closed on day {number}." for number in range(200)]


def too_long(words: int):
    return lambda text: len(text.split()) > words


def test_a_text_that_fits_is_read_as_a_whole() -> None:
    assert read_as("Title", "short", too_long(1)) == (["Title\nshort"], ()), "texts this short are not tokenized"
    text = " ".join(SENTENCES[:10])
    assert read_as("Title", text, too_long(500)) == ([f"Title\n{text}"], ())
    assert read_as("", text, too_long(500)) == ([text], ())


def test_windows_end_at_sentences_and_repeat_the_last_one() -> None:
    text = " ".join(SENTENCES[:40])
    texts, spans = read_as("Harbour", text, too_long(100))
    assert flaw(spans, len(text)) is None
    assert all(part == f"Harbour\n{text[start:end]}" for part, (start, end) in zip(texts, spans, strict=True))
    assert all(not too_long(100)(part) for part in texts)
    for (_, before), (start, _) in pairwise(spans):
        assert text[start:].startswith("Sentence"), "a window begins with a sentence"
        assert text[:before].endswith(". "), "and ends with one"
        last = start == spans[-1][0]
        assert text[start:before].count(".") == 1 or last, "one sentence is in both"


@pytest.mark.parametrize("count", range(9, 30))
def test_the_last_window_is_as_long_as_the_others(count: int) -> None:
    text = " ".join(SENTENCES[:count])
    texts, spans = read_as("Harbour", text, too_long(100))
    assert len(texts[-1].split()) > 100 - 2 * len(SENTENCES[0].split())
    assert spans[-1][0] > spans[-2][0]
    assert flaw(spans, len(text)) is None
    words = "word " * 101
    (_, spans) = read_as("", words, too_long(100))
    assert spans == ((0, 500), (5, 505)), "one sentence only"


def test_a_long_title_is_cut_and_a_title_alone_has_windows() -> None:
    text = " ".join(SENTENCES[:20])
    texts, spans = read_as("T" * 500, text, too_long(100))
    assert all(part.startswith("T" * 200 + "\n" + text[start]) for part, (start, _) in zip(texts, spans, strict=True))
    texts, spans = read_as(text, "", too_long(100))
    assert len(spans) > 1
    assert flaw(spans, len(text)) is None
    assert texts[0] == text[: spans[0][1]]


def test_the_number_of_windows_is_limited_and_the_rest_is_not_read() -> None:
    text = "one two three. " * 5000
    texts, spans = read_as("", text, too_long(60))
    assert len(texts) == len(spans) == WINDOWS
    assert spans[-1][1] < len(text)
    assert flaw(spans, len(text)) is None


@pytest.mark.parametrize("text", ["word " * 3000, "x" * 5000, "\n" * 5000 + "y" * 5000, "漢字。" * 2000, "…" * 300_000])
def test_texts_without_sentences_are_cut_as_well(text: str) -> None:
    texts, spans = read_as("", text, lambda part: len(part) > 300)
    assert len(spans) > 10
    assert flaw(spans, len(text)) is None
    assert all(len(part) <= 300 for part in texts)


@given(st.text(max_size=3000), st.text(max_size=30), st.integers(1, 600))
def test_windows_cover_any_text(text: str, title: str, characters: int) -> None:
    texts, spans = read_as(title, text, lambda part: len(part) > characters)
    assert len(texts) == max(1, len(spans))
    if spans:
        assert flaw(spans, len(text or title)) is None


@pytest.mark.parametrize(("spans", "told"), [
    ([(0, 5)], "1 windows"), ([(0, 5), (4, 9)], None), ([(0, 5), (5, 9)], None), ([(0, 5), (6, 9)], "leave out"),
    ([(1, 5), (4, 9)], "leave out"), ([(0, 5), (4, 8)], "leave out"), ([(0, 5), (0, 9)], "leave out"),
    ([(0, 9), (4, 9)], "leave out"), ([(0, 5), (4, 10)], "beyond"),
])  # fmt: skip
def test_flaws_of_stored_windows_are_named(spans: list[Span], told: str | None) -> None:
    found = flaw(spans, 9)
    assert (found is None) if told is None else told in str(found)


def test_the_built_in_model_reads_each_window_to_its_end(built_in: EmbeddingModel) -> None:
    german = " ".join(f"Satz {n} sagt, dass der Hafen am Tag {n} wegen des Sturms geschlossen ist." for n in range(25))
    texts, spans = read_as("", f"{' '.join(SENTENCES[:25])}\n\n{german}", built_in.truncates)
    assert len(spans) >= 4
    assert not any(built_in.truncates(text) for text in texts)


def test_a_text_is_tokenised_a_few_times_per_window_only() -> None:
    calls = 0

    def truncates(part: str) -> bool:
        nonlocal calls
        calls += 1
        return len(part.split()) > 180

    _, spans = read_as("", " ".join(SENTENCES), truncates)
    assert calls <= 12 * len(spans)
    assert module.WINDOWS >= 16
