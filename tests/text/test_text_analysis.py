"""Analysis of texts and queries into index terms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.text import analysis
from fourfold.text.analysis import analyse, query_words, runs, tokens

ANY_TEXT = st.text(st.characters())
LANGUAGES = st.sampled_from(["de", "en", "fr", "ru", "ja", "tlh"])


def terms_of_query(text, languages):
    return [{term for term, _ in word.variants} for word in query_words(text, languages)]


def finds(query, text, language, languages=("de", "en")):
    """Whether every word of the query finds the text."""
    terms = set(analyse(text, language))
    return all(terms & variants for variants in terms_of_query(query, languages))


# ---------------------------------------------------------------- German and English


@pytest.mark.spec("S1.9")
@pytest.mark.parametrize(
    "spellings",
    [
        ["Müller", "Mueller", "müller", "MÜLLER", "Mu\u0308ller"],
        ["Straße", "Strasse", "strasse", "STRASSE", "Straßen"],
        ["Vertrag", "Verträge", "Vertrages", "Vertraege"],
        ["Haus", "Häuser", "Haeuser"],
    ],
)
def test_german_spellings_and_forms_share_one_term(spellings):
    assert len({tuple(analyse(spelling, "de")) for spelling in spellings}) == 1


@pytest.mark.spec("S1.9")
def test_stems_and_stop_words_follow_the_language_of_the_item():
    assert analyse("die Kündigungen der Verträge", "de") == ["kundig", "vertrag"]
    assert analyse("die hard was running in the houses", "en") == ["die", "hard", "run", "hous"]
    assert analyse("qapla' batlh je", "tlh") == ["qapla", "batlh", "je"]


@pytest.mark.spec("S1.9")
@pytest.mark.parametrize(
    ("language", "text", "term"),
    [
        ("fr", "les maisons et la maison", "maison"),
        ("es", "los libros y el libro", "libr"),
        ("it", "i libri e il libro", "libr"),
        ("pt", "os livros e o livro", "livr"),
        ("nl", "de boeken en het boek", "boek"),
        ("pl", "samochody dla nas i samochodami", "samochod"),
        ("ru", "книги для нас и книгами", "книг"),
        ("sv", "bilarna och en av bilar", "bil"),
        ("da", "bilerne og en af biler", "bil"),
        ("nb", "bilene og en av biler", "bil"),
        ("no", "bilene og en av biler", "bil"),
        ("cs", "knihy pro nás a knihami", "knih"),
        ("ro", "casele și o case", "cas"),
        ("uk", "книга для нас та книга", "книга"),
        ("tr", "kitaplar ve bu kitabı", "kitap"),
        ("hu", "a házak és egy házban", "haz"),
        ("fi", "talossa ja kun talot", "talo"),
        ("el", "το βιβλίο και το βιβλίο", "βιβλι"),
        ("ca", "la casa i una casa", "cas"),
    ],
)
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


@pytest.mark.parametrize(
    ("token", "terms"),
    [
        ("getUserName", ["getusernam", "get", "user", "name"]),
        ("retry_with_backoff", ["retrywithbackoff", "retri", "backoff"]),
        ("XMLHttpRequest", ["xmlhttprequest", "xml", "http", "request"]),
        ("snake.dotted.names", ["snake.dotted.names", "snake", "dot", "name"]),
        ("v1.2.3", ["v1.2.3", "v1"]),
        ("C++", ["c++"]),
        ("C#", ["c#"]),
        ("node.js", ["node.js", "node", "js"]),
        ("HTTP-429", ["http429", "http", "429"]),
        ("anna.berg@firm.org", ["anna.berg@firm.org", "anna", "berg", "firm", "org"]),
        ("report_v2.pdf", ["reportv2.pdf", "report", "v2", "pdf"]),
        ("utf8", ["utf8", "utf"]),
        ("APIs", ["api"]),
    ],
)
def test_an_identifier_is_found_whole_and_by_its_parts(token, terms):
    assert analyse(token, "en") == terms


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("e-mail", "send an email"),
        ("email", "send an E-Mail"),
        ("retryWithBackoff", "def retry_with_backoff():"),
        ("user name", "getUserName()"),
        ("IL-6", "the cytokine IL6"),
        ("Node.JS", "written for node.js"),
    ],
)
def test_spellings_of_an_identifier_find_each_other(query, text):
    whole = terms_of_query(query, ["en"])[0]
    assert whole & set(analyse(text, "en")) or finds(query, text, "en")


def test_apostrophes_do_not_hide_a_word():
    assert analyse("Adam's l’homme geht's", "en")[0] == "adam"
    assert "homm" in analyse("l’homme", "fr")


# ---------------------------------------------------------------- every other script


def test_text_without_spaces_is_indexed_as_pairs_of_characters():
    assert analyse("東京大学", "ja") == ["東京", "京大", "大学"]
    assert analyse("Python编程", "zh") == ["python", "编程"]
    assert analyse("안녕하세요", "ko") == ["안녕", "녕하", "하세", "세요"]
    assert analyse("字", "zh") == ["字"]


def test_combining_marks_stay_in_their_word():
    assert analyse("हिन्दी में", "xx") == ["हिन्दी", "में"]


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
