"""Negations of a query: what it rules out is not searched for."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.text.negation import affirmed, negated_phrases

CONSTRAINTS = Path(__file__).parents[2] / "benchmarks" / "constraints" / "queries.jsonl"


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("restaurants without fish", "restaurants"),
        ("restaurants without fish or meat near the station", "restaurants near the station"),
        ("soups without onions, garlic or leek", "soups"),
        ("hotels not in Berlin", "hotels"),
        ("cafes that don't allow dogs in Hamburg", "cafes in Hamburg"),
        ("which restaurants have no fish?", "which restaurants ?"),
        ("flights not via Paris or London in May", "flights in May"),
        ("hotel with pool but not expensive", "hotel with pool"),
        ("Restaurants ohne Fisch in Köln", "Restaurants in Köln"),
        ("Kuchen ohne Nüsse und Eier für Kinder", "Kuchen für Kinder"),
        ("Restaurants, die keinen Fisch servieren", "Restaurants,"),
        ("Hotels mit Pool, aber nicht in Berlin", "Hotels mit Pool,"),
        ("Termine ausser Montag", "Termine"),
        ("hotels without a pool but not in Berlin", "hotels"),
        ("hotels without pool Berlin", "hotels Berlin"),
        ("phones without Google services", "phones"),
        ("hotels not in Berlin open late", "hotels open late"),
        ("notes that do not mention Berlin", "notes"),
        ("invoices without order number", "invoices"),
        ("hotels that are not in the city", "hotels"),
    ],
)
def test_a_constraint_is_not_searched_for(query: str, left: str):
    assert affirmed(query) == left


@pytest.mark.parametrize(
    "query",
    [
        "aspirin does not prevent strokes",
        "What happens to cells without oxygen?",
        "Warum hilft Paracetamol nicht gegen Fieber?",
        "Rebel Without a Cause director",
        "No Country for Old Men",
        'restaurants "without fish"',
        "python enum not json serializable",
        "Mice without the receptor are susceptible to infection.",
        "I could not open the file. It says no space left.",
        "without fish",
        "not in Berlin",
        "notes on knots",
        "things that Anna doesn't eat",
        "foods that I must not eat",
        "Lebensmittel, die ich nicht vertrage",
        "Notizen, die Anna nicht kennt",
        "coffee with or without sugar",
        "Kaffee mit oder ohne Zucker",
        "replica not in sync with primary",
        "not only hotels in Berlin",
        "last but not least",
        "Aufzug außer Betrieb",
        "python try except ValueError",
        "SQL except operator",
        "no-code tools for beginners",
        "im Büro ohne VPN arbeiten",
    ],
)
def test_statements_questions_titles_quotations_and_fixed_expressions_keep_every_word(query: str):
    assert affirmed(query) == query
    assert negated_phrases(query) == ()


@pytest.mark.parametrize(
    "query",
    [
        "logout without saving",
        "vim quit without saving",
        "restart nginx without downtime",
        "update config without restarting",
        "update config without restarting the server",
        "close all tabs without saving changes",
        "change the schema without losing data",
        "rename a branch without breaking links",
        "log in without password",
        "login without password",
        "install python without admin rights",
        "git merge without commit",
        "remove duplicates without sorting",
        "zero downtime migration without data loss",
        "deployment without any downtime",
        "termination without notice",
        "recording calls without consent",
        "use docker without sudo",
        "delete files without confirmation",
        "reverse a list without slicing it",
        "reset phone without losing photos",
        "cancel subscription without account",
        "Abmelden ohne Speichern",
        "abmelden ohne zu speichern",
        "Server aktualisieren ohne neu zu starten",
        "Datei schließen ohne sich abzumelden",
        "Update ohne Neustart",
        "Windows ohne Microsoft-Konto einrichten",
        "Dateien ohne Papierkorb löschen",
        "Kündigung ohne Frist",
        "Anmeldung ohne Passwort",
        "Aufnahme ohne Einwilligung",
        "Datenbank umziehen ohne Ausfall",
        "Fotos vom Handy ohne Kabel übertragen",
    ],
)
def test_the_name_of_an_action_keeps_every_word(query: str):
    assert affirmed(query) == query


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("show invoices without order number", "show invoices"),
        ("find hotels without parking", "find hotels"),
        ("hotels without parking fees", "hotels"),
        ("hikes without climbing", "hikes"),
        ("rooms with sea view without balcony", "rooms with sea view"),
        ("reading CSV files without pandas", "reading CSV files"),
        ("apps without tracking", "apps"),
        ("pizza without topping", "pizza"),
        ("Hotels ohne Pool buchen", "Hotels buchen"),
        ("Wohnung ohne Makler mieten", "Wohnung mieten"),
        ("Läden ohne Parkplatz sonntags offen", "Läden sonntags offen"),
        ("Kuchen ohne Eier", "Kuchen"),
    ],
)
def test_things_are_asked_for_by_what_they_lack(query: str, left: str):
    assert affirmed(query) == left


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
