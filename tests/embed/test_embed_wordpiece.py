"""Our own WordPiece against the library of the model's authors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from fourfold.embed.builtin import VOCABULARY as FILE
from fourfold.embed.builtin import built_in
from fourfold.embed.wordpiece import WordPiece, fold, ids_of

VOCABULARY = built_in(FILE)
MOST = 64
OURS = {lowercase: WordPiece(VOCABULARY, MOST, lowercase=lowercase) for lowercase in (True, False)}
THEIRS = {
    lowercase: BertWordPieceTokenizer(ids_of(VOCABULARY), lowercase=lowercase, strip_accents=lowercase)
    for lowercase in (True, False)
}
for each in THEIRS.values():
    each.enable_truncation(MOST)
    each._tokenizer.encode_special_tokens = True  # "[SEP]" in a stored text is text, not a control token

CHARACTERS = st.one_of(
    *(
        st.characters(min_codepoint=low, max_codepoint=high)
        for low, high in (
            (0, 0x7F), (0, 0x5FF), (0x1E00, 0x20BF), (0x3000, 0x30FF), (0x4DA0, 0x4E20), (0xAC00, 0xAC50),
            (0x1F300, 0x1F5FF), (0xFE00, 0xFFFF),
        )
    )
)  # fmt: skip


def agree(text: str) -> bool:
    return all(OURS[kind].encode([text])[0] == THEIRS[kind].encode(text).ids for kind in OURS)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "one", "Straße und Größe", "日本語 text", "Ångström's naïve café—don't!", "a_b.c(d) 3.14 \t\u2028x",
        "ΟΔΥΣΣΕΥΣ ΟΔΟΣ", "İstanbul DŽ ﬁne", "x" * 100, "x" * 101, "a\u0301" * 60, "a\x00b\x0bc\x85d\u200be\ufffdf",
        "🙂a🙂",         "antidisestablishmentarianism unaffable", "word " * 100, "\U0002B920\U0002B81F\uf900",
        "[SEP]", "a [CLS] b [SEP][MASK] [PAD] [UNK]",
    ],
)  # fmt: skip
def test_words_are_cut_as_bert_does(text: str) -> None:
    assert agree(text)


@pytest.mark.spec("B4")
@given(text=st.text(CHARACTERS, max_size=60))
def test_any_text_is_cut_as_bert_does(text: str) -> None:
    assert agree(text)


def test_only_characters_newer_than_the_librarys_tables_are_cut_differently() -> None:
    """The library knows the categories of an older Unicode; none of the characters is in the vocabulary."""
    codes = [code for code in range(0x10000) if not 0xD800 <= code <= 0xDFFF]
    texts = [f"a{chr(code)}b" for code in codes]
    theirs = [encoding.ids for encoding in THEIRS[True].encode_batch(texts)]
    both = zip(codes, OURS[True].encode(texts), theirs, strict=True)
    otherwise = {chr(code) for code, ids, expected in both if ids != expected}
    assert len(otherwise) < 250
    assert not otherwise & set("".join(ids_of(VOCABULARY)))


def test_a_text_that_does_not_fit_is_cut_and_named() -> None:
    fits, too_long = "word " * (MOST - 2), "word " * (MOST - 1)
    tokenizer = OURS[True]
    assert (tokenizer.truncates(fits), tokenizer.truncates(too_long)) == (False, True)
    assert tokenizer.encode([fits]) == tokenizer.encode([too_long])
    assert len(tokenizer.encode([fits])[0]) == MOST


@pytest.mark.parametrize(("text", "folded"), [("Größe", "Groesse"), ("u\u0308ber", "ueber"), ("STRAẞE", "STRASSE")])
def test_umlauts_are_written_with_two_letters(text: str, folded: str) -> None:
    assert fold(text) == folded
    german = WordPiece(VOCABULARY, MOST, german=True)
    assert german.encode([text]) == OURS[True].encode([folded]) != OURS[True].encode([text])
