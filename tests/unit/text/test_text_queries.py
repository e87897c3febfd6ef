"""What of a query is searched for: negations, typing errors, remembered words."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.text.analysis import analyse, query_words
from fourfold.text.compounds import MOST_SPELLINGS, MOST_WORDS, SortedLexicon, can_be_corrected, corrections, edits
from fourfold.text.keyword_query import KeywordQuery, KnownWords, keyword_query
from fourfold.text.negation import affirmed, negated_phrases

# ---------------------------------------------------------------- negations


CONSTRAINTS = Path(__file__).parents[3] / "benchmarks" / "constraints" / "queries.jsonl"


@pytest.mark.parametrize(("query", "left"), [
    ("restaurants without fish", "restaurants"),
    ("restaurants without fish or meat near the station", "restaurants near the station"),
    ("soups without onions, garlic or leek", "soups"), ("hotels not in Berlin", "hotels"),
    ("cafes that don't allow dogs in Hamburg", "cafes in Hamburg"),
    ("which restaurants have no fish?", "which restaurants ?"),
    ("flights not via Paris or London in May", "flights in May"),
    ("hotel with pool but not expensive", "hotel with pool"), ("Restaurants ohne Fisch in Köln", "Restaurants in Köln"),
    ("Kuchen ohne Nüsse und Eier für Kinder", "Kuchen für Kinder"),
    ("Restaurants, die keinen Fisch servieren", "Restaurants,"),
    ("Hotels mit Pool, aber nicht in Berlin", "Hotels mit Pool,"), ("Termine ausser Montag", "Termine"),
    ("hotels without a pool but not in Berlin", "hotels"), ("hotels without pool Berlin", "hotels Berlin"),
    ("phones without Google services", "phones"), ("hotels not in Berlin open late", "hotels open late"),
    ("notes that do not mention Berlin", "notes"), ("invoices without order number", "invoices"),
    ("hotels that are not in the city", "hotels"), ("show invoices without order number", "show invoices"),
    ("find hotels without parking", "find hotels"), ("hotels without parking fees", "hotels"),
    ("hikes without climbing", "hikes"), ("rooms with sea view without balcony", "rooms with sea view"),
    ("reading CSV files without pandas", "reading CSV files"), ("apps without tracking", "apps"),
    ("pizza without topping", "pizza"), ("Hotels ohne Pool buchen", "Hotels buchen"),
    ("Wohnung ohne Makler mieten", "Wohnung mieten"), ("Läden ohne Parkplatz sonntags offen", "Läden sonntags offen"),
    ("Kuchen ohne Eier", "Kuchen"),
])  # fmt: skip
def test_what_is_ruled_out_is_not_searched_for(query: str, left: str):
    assert affirmed(query) == left


@pytest.mark.parametrize("query", [
    "aspirin does not prevent strokes", "What happens to cells without oxygen?",
    "Warum hilft Paracetamol nicht gegen Fieber?", "Rebel Without a Cause director", "No Country for Old Men",
    'restaurants "without fish"', "python enum not json serializable",
    "Mice without the receptor are susceptible to infection.", "I could not open the file. It says no space left.",
    "without fish", "not in Berlin", "notes on knots", "things that Anna doesn't eat", "foods that I must not eat",
    "Lebensmittel, die ich nicht vertrage", "Notizen, die Anna nicht kennt", "coffee with or without sugar",
    "Kaffee mit oder ohne Zucker", "replica not in sync with primary", "not only hotels in Berlin",
    "last but not least", "Aufzug außer Betrieb", "python try except ValueError", "SQL except operator",
    "no-code tools for beginners", "im Büro ohne VPN arbeiten", "logout without saving", "vim quit without saving",
    "restart nginx without downtime", "update config without restarting", "update config without restarting the server",
    "close all tabs without saving changes", "change the schema without losing data",
    "rename a branch without breaking links", "log in without password", "login without password",
    "install python without admin rights", "git merge without commit", "remove duplicates without sorting",
    "zero downtime migration without data loss", "deployment without any downtime", "termination without notice",
    "recording calls without consent", "use docker without sudo", "delete files without confirmation",
    "reverse a list without slicing it", "reset phone without losing photos", "cancel subscription without account",
    "Abmelden ohne Speichern", "abmelden ohne zu speichern", "Server aktualisieren ohne neu zu starten",
    "Datei schließen ohne sich abzumelden", "Update ohne Neustart", "Windows ohne Microsoft-Konto einrichten",
    "Dateien ohne Papierkorb löschen", "Kündigung ohne Frist", "Anmeldung ohne Passwort", "Aufnahme ohne Einwilligung",
    "Datenbank umziehen ohne Ausfall", "Fotos vom Handy ohne Kabel übertragen",
])  # fmt: skip
def test_statements_titles_quotations_fixed_expressions_and_actions_keep_every_word(query: str):
    assert affirmed(query) == query
    assert negated_phrases(query) == ()


def test_a_phrase_names_its_place_and_its_words():
    (phrase,) = negated_phrases("quiet hotels that are not in the old town")
    assert phrase.words == ("old", "town")
    assert "quiet hotels that are not in the old town"[phrase.start : phrase.end] == "that are not in the old town"


def test_nearly_all_written_constraints_are_found():
    queries = [json.loads(line)["text"] for line in CONSTRAINTS.read_text("utf-8").splitlines()]
    assert len(queries) >= 60
    assert sum(bool(negated_phrases(query)) for query in queries) >= 58


WORDS = st.sampled_from(
    ["hotels", "not", "in", "Berlin", "without", ",", "that", "don't", "or", "ohne", "Fisch", "die", "?"]
)


@given(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=60))
def test_any_text_keeps_something_to_search_for(text: str):
    found = negated_phrases(text)
    assert all(before.end <= after.start for before, after in pairwise(found))
    assert not found or affirmed(text).strip()


# ---------------------------------------------------------------- typing errors


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


@pytest.mark.parametrize(("typed", "meant"), [
    ("resturant", "restaurant"), ("restaurrant", "restaurant"), ("restairant", "restaurant"),
    ("restuarant", "restaurant"), ("estaurant", "restaurant"), ("runnign", "running"), ("qarantine", "quarantine"),
])  # fmt: skip
def test_one_edit_is_corrected_wherever_it_is(typed: str, meant: str):
    assert corrected(typed)[typed][0] == meant


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


@pytest.mark.parametrize(
    ("typed", "texts", "language", "spellings"),
    [
        *((typed, TEXTS, "en", {}) for typed in ("gat", "x4711", "gäte1", "zzzzzzz", "a" * 40)),
        ("harbour", (*TEXTS, "arbour"), "en", {}),  # occurs
        ("locked", ("She looked at it",), "en", {}),  # a common word
        ("passwort", ("password",), "en", {}),
        ("verträgt", ("Sie haben sich vertraget",), "en", {}),  # a form of a verb
        ("hate", ("The gate is open",), "en", {}),  # the first letter of a short word
        ("gaet", ("The gate is open",), "en", {"gaet": ("gate",)}),
        ("Bhne", ("Die Bühne ist frei",), "de", {"bhne": ("buhne",)}),  # an umlaut is one letter
        ("москав", ("Москва большая",), "ru", {"москав": ("москва",)}),
    ],
)
def test_a_word_is_corrected_only_if_it_is_a_typing_error(typed, texts, language, spellings):
    assert corrected(typed, texts, language) == spellings


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


# ---------------------------------------------------------------- words that are remembered


ENGLISH = ("The contract of the tenants", "Contracts are signed twice", "def get_user(name): return name")
GERMAN = ("Der Mietvertrag läuft ab", "Vertragspartner sind Mieter", "Der Vertrag wurde unterschrieben")
TYPED = "contract contracts contrakt get_user getUser Vertrag Verträge Mietvertrag gelaufen the der 2024 zzz"
TERMS = [set(analyse(text, "en")) for text in ENGLISH] + [set(analyse(text, "de")) for text in GERMAN]
COUNTS = Counter(term for found in TERMS for term in found)
LEXICON = SortedLexicon(term for text in GERMAN for term in analyse(text, "de"))


QUERIES = st.lists(st.sampled_from(TYPED.split()), max_size=6).map(" ".join)


@given(st.lists(QUERIES, max_size=6), st.sampled_from([3, 400]))
def test_remembered_words_give_the_same_queries(texts: list[str], english: int):
    """With 400 English items, only queries in German are expanded by compounds."""
    store = ({"en": english, "de": 3}, LEXICON, lambda terms: [COUNTS[term] for term in terms], english + 3, 0.1)
    known = KnownWords()
    for text in texts:
        assert keyword_query(text, *store, known) == keyword_query(text, *store)


def test_known_words_are_not_looked_up_again():
    asked: list[str] = []

    def frequencies(terms):
        asked.extend(terms)
        return [COUNTS[term] for term in terms]

    known = KnownWords()
    for text in ("contract user", "user contract name", "name"):
        keyword_query(text, {"en": 3}, None, frequencies, 3, known=known)
    assert asked == ["contract", "user", "name"]
