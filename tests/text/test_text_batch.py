"""Batch analysis in C gives the same terms as analysis in Python."""

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.native.texts import Full, TermTable
from fourfold.text import batch
from fourfold.text.analysis import analyse_item
from fourfold.text.batch import analyse_items

LANGUAGES = st.sampled_from(["de", "en", "fr", "ja", "tlh"])
SIGNS = st.text("aAbzZ019_.@+#- \n'éßｆ日本\u00ad", max_size=80)
WORDS = st.lists(
    st.sampled_from(["getUserName", "XMLHttpRequest", "C++", "c#", "c++x", "a@b.de", "HTTP-429", "the", "Häuser"])
).map(" ".join)
ANY_TEXT = SIGNS | WORDS | st.text(st.characters(exclude_categories=["Cs"]))


def one_by_one(texts, language):
    return [analyse_item(title, text, language) for title, text in texts]


def together(texts, language):
    found = list(analyse_items(texts, language))
    for terms in found:
        assert terms.hashes.tolist() == [crc32(term.encode()) for term in terms.letters.split()]
    return [terms.letters.split() for terms in found]


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=5), LANGUAGES)
def test_batch_analysis_gives_the_same_terms_as_single_analysis(texts, language):
    assert together(texts, language) == one_by_one(texts, language)


@pytest.mark.parametrize("language", ["tr", "sr", "fr", "hu"])
def test_stems_to_which_a_stemmer_adds_diacritics_are_the_same(language):
    texts = [("", "america finland teenage adjustment djv projet")]
    assert together(texts, language) == one_by_one(texts, language)


def test_batch_analysis_handles_words_and_runs_of_any_length():
    lengths = [1, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 5000]
    words = [("aB9_.-"[kind] * length) for length in lengths for kind in range(6)]
    mixed = ["aB" * length + " " + "a_" * length + " " + "é9" * length for length in lengths]
    joined = [sign.join("abcdefghijkl") for sign in ".@+-_#"]
    cut_off = ["abc_" * 63 + "xyzw" * more for more in range(3)]
    texts = [("", text) for text in words + mixed + joined + cut_off]
    assert together(texts, "en") == one_by_one(texts, "en")


def test_a_full_table_is_cleared_and_refilled():
    texts = [
        ("", " ".join(f"word{chr(97 + i % 26)}{chr(97 + i // 26 % 26)}x" for i in range(n, n + 40))) for n in range(90)
    ]
    table = TermTable(lambda asked: [f"{key} " for key in asked], cells=1 << 12, bits=8)
    for text in texts:
        assert table.read([text]).letters.decode().split() == text[1].split()


def test_texts_with_more_words_than_a_table_holds_are_analysed_in_python(monkeypatch):
    table = TermTable(lambda asked: [f"{key} " for key in asked], cells=1 << 12, bits=8)
    texts = [("title", " ".join(f"w{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(600)))]
    with pytest.raises(Full):
        table.read(texts)
    monkeypatch.setattr(batch, "_table", lambda language: table)
    assert together(texts, "en") == one_by_one(texts, "en")


def test_keys_requested_before_a_buffer_was_full_are_answered():
    asked: list[str] = []
    table = TermTable(lambda keys: asked.extend(keys) or [f"{key} " for key in keys])
    table.read([("", "abCdEf")])
    found = table.read([("", "fresh"), ("", "abCdEf " * 400)])  # known words that need larger buffers
    assert found.letters.decode().split() == ["fresh", *["abcdef", "ab", "cd", "ef"] * 400]
    assert sorted(asked) == sorted(set(asked))


def test_keys_are_requested_again_after_a_failed_callback():
    fails = [True]

    def answer(asked):
        if fails.pop():
            raise RuntimeError
        return [f"{key} " for key in asked]

    table = TermTable(answer)
    with pytest.raises(RuntimeError):
        table.read([("", "some words")])
    fails[:] = [False]
    assert table.read([("", "some words")]).letters == b"some words "


def test_a_long_text_whose_characters_expand_is_analysed():
    texts = [("\ufdfa" * 50, "\ufdfa " * 200)]
    assert together(texts, "ar") == one_by_one(texts, "ar")


def test_large_inputs_are_split_into_batches(monkeypatch):
    monkeypatch.setattr(batch, "_BATCH_CHARACTERS", 30)
    texts = [(f"title {number}", "some words of a text " * (number % 3)) for number in range(20)]
    assert together(texts, "en") == one_by_one(texts, "en")
    assert list(analyse_items([], "en")) == []
    assert np.concatenate([terms.hashes for terms in analyse_items(texts, "en")]).dtype == np.uint32
