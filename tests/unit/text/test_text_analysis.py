"""Analysis of texts into index terms: folding, stems, identifiers, in Python and in batches in C."""

import unicodedata
from collections import Counter
from itertools import accumulate
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.errors import InvalidItem
from fourfold.native.texts import Full, TermTable
from fourfold.text import analysis, batch
from fourfold.text.analysis import (
    analyse,
    analyse_item,
    code_share,
    prose_share,
    query_tokens,
    query_words,
    runs,
    tokens,
)
from fourfold.text.batch import analyse_together, split_letters
from fourfold.text.fold import clean, fold, words

# ---------------------------------------------------------------- analysis of texts and queries into index terms


ANY_TEXT = st.text(st.characters())
"""All characters, including lone surrogates."""
LANGUAGES = st.sampled_from(["de", "en", "fr", "ru", "ja", "tlh"])


def terms_of_query(text, languages):
    return [{term for term, _ in word.variants} for word in query_words(text, languages)]


def finds(query, text, language, languages=("de", "en")):
    """Whether every word of the query finds the text."""
    terms = set(analyse(text, language))
    return all(terms & variants for variants in terms_of_query(query, languages))


# ---------------------------------------------------------------- German and English


@pytest.mark.spec("S1.9")
@pytest.mark.parametrize("spellings", [
    ["Müller", "Mueller", "müller", "MÜLLER", "Mu\u0308ller"], ["Straße", "Strasse", "strasse", "STRASSE", "Straßen"],
    ["Vertrag", "Verträge", "Vertrages", "Vertraege"], ["Haus", "Häuser", "Haeuser"],
])  # fmt: skip
def test_german_spellings_and_forms_share_one_term(spellings):
    assert len({tuple(analyse(spelling, "de")) for spelling in spellings}) == 1


@pytest.mark.spec("S1.9")
def test_stems_and_stop_words_follow_the_language_of_the_item():
    assert analyse("die Kündigungen der Verträge", "de") == ["kundig", "vertrag"]
    assert analyse("die hard was running in the houses", "en") == ["die", "hard", "run", "hous"]
    assert analyse("qapla' batlh je", "tlh") == ["qapla", "batlh", "je"]


@pytest.mark.spec("S1.9")
@pytest.mark.parametrize(("language", "text", "term"), [
    ("fr", "les maisons et la maison", "maison"), ("es", "los libros y el libro", "libr"),
    ("it", "i libri e il libro", "libr"), ("pt", "os livros e o livro", "livr"),
    ("nl", "de boeken en het boek", "boek"), ("pl", "samochody dla nas i samochodami", "samochod"),
    ("ru", "книги для нас и книгами", "книг"), ("sv", "bilarna och en av bilar", "bil"),
    ("da", "bilerne og en af biler", "bil"), ("nb", "bilene og en av biler", "bil"),
    ("no", "bilene og en av biler", "bil"), ("cs", "knihy pro nás a knihami", "knih"),
    ("ro", "casele și o case", "cas"), ("uk", "книга для нас та книга", "книга"),
    ("tr", "kitaplar ve bu kitabı", "kitap"), ("hu", "a házak és egy házban", "haz"),
    ("fi", "talossa ja kun talot", "talo"), ("el", "το βιβλίο και το βιβλίο", "βιβλι"),
    ("ca", "la casa i una casa", "cas"),
])  # fmt: skip
def test_other_languages_have_stems_and_stop_words(language, text, term):
    assert analyse(text, language) == [term, term]


@pytest.mark.spec("S1.9")
def test_one_query_finds_german_and_english_items():
    assert finds("contracts", "The contract is signed", "en")
    assert finds("Verträge", "Der Vertrag ist unterschrieben", "de")
    assert finds("Zürich", "A trip to Zurich", "en")
    assert finds("cafes", "The café is closed", "en")


@pytest.mark.spec("S1.9")
def test_a_query_drops_the_stop_words_of_its_own_language_only():
    assert [word.surface for word in query_words("Was war die Ursache?", ["en", "de"])] == ["ursache"]
    assert [word.surface for word in query_words("How did the war end?", ["en", "de"])] == ["war", "end"]


# ---------------------------------------------------------------- identifiers


@pytest.mark.parametrize(("token", "terms"), [
    ("getUserName", "getusernam get user name"), ("retry_with_backoff", "retrywithbackoff retri backoff"),
    ("XMLHttpRequest", "xmlhttprequest xml http request"), ("snake.dotted.names", "snake.dotted.names snake dot name"),
    ("v1.2.3", "v1.2.3 v1"), ("C++", "c++"), ("C#", "c#"), ("node.js", "node.js node js"), ("APIs", "api"),
    ("anna.berg@firm.org", "anna.berg@firm.org anna berg firm org"), ("report_v2.pdf", "reportv2.pdf report v2 pdf"),
    ("utf8", "utf8 utf"), ("HTTP-429", "http429 http 429"), ("Adam's", "adam"),
])  # fmt: skip
def test_an_identifier_is_found_whole_and_by_its_parts(token, terms):
    assert analyse(token, "en") == terms.split()


@pytest.mark.parametrize(("query", "text"), [
    ("e-mail", "send an email"), ("email", "send an E-Mail"), ("retryWithBackoff", "def retry_with_backoff():"),
    ("user name", "getUserName()"), ("IL-6", "the cytokine IL6"), ("Node.JS", "written for node.js"),
])  # fmt: skip
def test_spellings_of_an_identifier_find_each_other(query, text):
    whole = terms_of_query(query, ["en"])[0]
    assert whole & set(analyse(text, "en")) or finds(query, text, "en")


# ---------------------------------------------------------------- every other script


@pytest.mark.parametrize(("language", "text", "terms"), [
    ("ja", "東京大学", "東京 京大 大学"), ("zh", "Python编程", "python 编程"), ("zh", "字", "字"),
    ("ko", "안녕하세요", "안녕 녕하 하세 세요"), ("xx", "हिन्दी में", "हिन्दी में"), ("fr", "l’homme", "homm"),
])  # fmt: skip
def test_text_without_spaces_is_pairs_of_characters_and_marks_stay_in_their_word(language, text, terms):
    assert analyse(text, language) == terms.split()


# ---------------------------------------------------------------- any text is safe


@pytest.mark.spec("B4")
@given(ANY_TEXT, LANGUAGES)
def test_terms_contain_no_white_space(text, language):
    for term in analyse(text, language):
        assert 1 <= len(term) <= 64
        assert term.split() == [term]


@pytest.mark.spec("B4")
@pytest.mark.parametrize("character", "\u037a\ufdfa\u00bd\ufe70\u3000\u2028")
def test_compatibility_characters_with_spaces_are_split(character):
    assert all(term.split() == [term] for term in analyse(f"{character} a{character}b", "en"))


@given(ANY_TEXT, LANGUAGES)
def test_analysis_is_deterministic(text, language):
    first = analyse(text, language)
    analysis.token_terms.cache_clear()
    assert analyse(text, language) == first


@pytest.mark.spec("B4")
@given(ANY_TEXT, st.lists(LANGUAGES, max_size=3))
def test_any_text_can_be_analysed_as_a_query(text, languages):
    found = query_words(text, languages)
    assert len({word.variants for word in found}) == len(found)
    assert all(term.split() == [term] and weight > 0 for word in found for term, weight in word.variants)


@pytest.mark.spec("B4")
@pytest.mark.parametrize("text", ["", "?!", '"', "\ud800", "…", "_", "\u0301"])
def test_a_query_without_word_characters_has_no_words(text):
    assert query_words(text, ["de", "en"]) == []


@given(st.text(st.sampled_from("aä東_.-@+#1A "), max_size=200))
def test_every_word_of_a_text_finds_it(text):
    terms = set(analyse(text, "en"))
    assert all(variants & terms for variants in terms_of_query(text, ["en"]) if variants - {"a", "an"})


def test_long_words_are_truncated_to_64_characters():
    assert analyse("x" * 100_000, "en") == ["x" * 64]
    assert finds("x" * 500, "x" * 500, "en")


# ---------------------------------------------------------------- words of a query


def test_a_query_of_stop_words_only_keeps_them():
    assert [word.surface for word in query_words("to be or not to be", ["en"])] == ["to", "be", "or", "not"]


def test_words_with_equal_stems_merge_with_square_root_weight():
    (word,) = query_words("contract contracts contracting contracted", ["en"])
    assert word.surface == "contract"
    assert word.variants == (("contract", 2.0),)


def test_a_single_occurrence_has_weight_one_in_every_language():
    (word,) = query_words("Häusern", ["de", "en"])
    assert word.surface == "haeusern"
    assert word.variants == (("haus", 1.0), ("hausern", 1.0))


def test_pieces_of_a_token_have_less_weight_than_words():
    weights = {word.surface: word.variants[0][1] for word in query_words("node.js server", ["en"])}
    assert weights["node.js"] == weights["node"] == weights["js"] < weights["server"] == 1.0


@given(st.text(alphabet="ab1_.@+#- \n,C'/(é\u00ad\u2010中", max_size=30))
def test_runs_contain_exactly_the_tokens_of_a_text(text):
    assert [token for run in runs(text) for token in tokens(run)] == tokens(text)


# ---------------------------------------------------------------- folding, and what can be stored


@pytest.mark.parametrize(("spellings", "folded"), [
    (["Müller", "MÜLLER", "mueller", "Mu\u0308ller"], "mueller"), (["Straße", "STRASSE", "strasse"], "strasse"),
    (["Café", "cafe", "CAFÉ"], "cafe"), (["Łódź", "lodz"], "lodz"), (["ＰＹＴＨＯＮ", "python"], "python"),
    (["Ver\u00adtrag", "Vertrag"], "vertrag"),
])  # fmt: skip
def test_spellings_of_a_name_fold_to_the_same_form(spellings, folded):
    assert {fold(spelling) for spelling in spellings} == {folded}


@pytest.mark.parametrize("text", ["\u0439", "が", "हिन्दी", "한국어"])
def test_marks_that_are_letters_in_their_script_are_kept(text):
    assert fold(text) == text


@given(ANY_TEXT)
def test_any_text_can_be_split_into_words_of_it(text):
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


# ---------------------------------------------------------------- batches in C


BATCH_LANGUAGES = st.sampled_from(["de", "en", "fr", "ja", "tlh"])
SIGNS = st.text("aAbzZ019_.@+#- \n'éßｆ日本\u00ad", max_size=80)
BATCH_WORDS = st.lists(
    st.sampled_from(["getUserName", "XMLHttpRequest", "C++", "c#", "c++x", "a@b.de", "HTTP-429", "the", "Häuser"])
).map(" ".join)
BATCH_TEXT = SIGNS | BATCH_WORDS | st.text(st.characters(exclude_categories=["Cs"]))


def one_by_one(texts, language):
    return [analyse_item(title, text, language) for title, text in texts]


def together(texts, language):
    found: list[list[str]] = []
    for columns in analyse_together(texts, language):
        terms = [letters.split() for letters in split_letters(columns)]
        assert columns.hash_ends.tolist() == [*accumulate(map(len, terms))]
        assert columns.hashes.tolist() == [crc32(term.encode()) for each in terms for term in each]
        assert columns.hashes.dtype == np.uint32
        found += terms
    return found


@given(st.lists(st.tuples(BATCH_TEXT, BATCH_TEXT), max_size=5), BATCH_LANGUAGES)
def test_batch_analysis_gives_the_same_terms_as_single_analysis(texts, language):
    assert together(texts, language) == one_by_one(texts, language)


def of_any_length():
    lengths = [1, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 5000]
    words = [("aB9_.-"[kind] * length) for length in lengths for kind in range(6)]
    mixed = ["aB" * length + " " + "a_" * length + " " + "é9" * length for length in lengths]
    joined = [sign.join("abcdefghijkl") for sign in ".@+-_#"]
    cut_off = ["abc_" * 63 + "xyzw" * more for more in range(3)]
    return [("", text) for text in words + mixed + joined + cut_off]


STEMS_WITH_DIACRITICS = [("", "america finland teenage adjustment djv projet")]


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        *(pytest.param(STEMS_WITH_DIACRITICS, each, id=f"diacritics-{each}") for each in ("tr", "sr", "fr", "hu")),
        pytest.param(of_any_length(), "en", id="words and runs of any length"),
        pytest.param([("\ufdfa" * 50, "\ufdfa " * 200)], "ar", id="characters that expand"),
    ],
)
def test_batches_of_unusual_texts_have_the_terms_of_single_analysis(texts, language):
    assert together(texts, language) == one_by_one(texts, language)


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


def test_large_inputs_are_split_into_batches(monkeypatch):
    monkeypatch.setattr(batch, "_BATCH_CHARACTERS", 30)
    texts = [(f"title {number}", "some words of a text " * (number % 3)) for number in range(20)]
    assert together(texts, "en") == one_by_one(texts, "en")
    assert together([], "en") == []


# ---------------------------------------------------------------- code and prose


PYTHON = "def double(number: int) -> int:\n    return 2 * number"
SCRIPT = "const double = (number) => { return 2 * number }"
C = "static int twice(int number) { return 2 * number; }"
PROSE = ("Null mice return to their nest after an hour", "The return journey takes two days", "Integers and variables")


def share(*texts: str) -> float:
    counts = Counter(term for text in texts for term in set(analyse(text, "en")))
    return code_share(lambda terms: [counts[term] for term in terms], len(texts))


@pytest.mark.parametrize("code", [PYTHON, SCRIPT, C])
def test_functions_are_code(code: str):
    assert share(code) == 1
    assert share(code, *PROSE) == 0.25


def test_prose_and_an_empty_store_are_not():
    assert share(*PROSE[1:]) == 0
    assert share(*PROSE) < 0.5
    assert share() == 0


@pytest.mark.parametrize(("query", "prose"), [
    ("how to check if a list is empty", 1), ("get_user_name", 0), ("getUserName", 0),
    ("where is os.path.join called", 3 / 4), ("", 0),
])  # fmt: skip
def test_identifiers_are_not_prose(query: str, prose: float):
    assert prose_share(query_tokens(query, ("en",))) == prose
