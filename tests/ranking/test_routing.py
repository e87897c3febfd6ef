"""Routing: relational words in all their forms, in German and English, and questions about what has relations."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.errors import InvalidSetting
from fourfold.ranking.plan import (
    RELATIONAL_DE,
    RELATIONAL_EN,
    RELATIONAL_WEIGHTS,
    PlanRequest,
    PlanSettings,
    RoutingConfig,
    StoreFacts,
    asks_for_another,
    make_plan,
    route,
    routed,
)

CONFIG = RoutingConfig()


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("What is that?", ()),
        ("what", ()),
        ("Hast du den Projektplan?", ()),
        ("techno hashes", ()),
        ("has_value", ()),
        ("Wer hat das geschrieben?", ("hat",)),
        ("HAT", ("hat",)),
        ("Welche Technologie nutzt das Projekt?", ("nutzt", "Projekt", "Technologie")),
        ("welche TECHNOLOGIE?", ("Technologie",)),
        ("Das Modul gehört zu Fourfold", ("gehört zu",)),
        ("gehört  \n zu", ("gehört zu",)),
        ("GEHÖRT ZU", ("gehört zu",)),
        ("Es gehoert zu uns", ("gehört zu",)),
        ("ist abhängig von", ("abhängig",)),
        ("ist ABHÄNGIG", ("abhängig",)),
        ("unabhängig", ()),
        ("What belongs to the project?", ("project", "belongs to")),
        ("Who uses Python, and has it?", ("uses", "has")),
        ("uses", ("uses",)),
        ("'uses'!", ("uses",)),
        ("!?", ()),
    ],
)
def test_whole_words_and_phrases_match_in_any_case(text, matched):
    assert route(text, CONFIG) == ("relational" if matched else "standard", matched)


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("Which services use Rabenhorst?", ("uses",)),
        ("what was used, and who is using it", ("uses",)),
        ("What depends on the queue?", ("dependent",)),
        ("dependencies of the planner", ("dependent",)),
        ("how do they connect", ("connected",)),
        ("projects and technologies", ("Technologie", "project", "technology")),
        ("Which team does the depot belong to?", ("belongs to",)),
        ("To whom does it belong?", ("belongs to",)),
        ("Welche Dienste nutzen die Datenbank?", ("nutzt",)),
        ("Was wurde genutzt?", ("nutzt",)),
        ("Wofür verwenden wir das?", ("verwendet",)),
        ("Was verbindet die beiden?", ("verbunden",)),
        ("Welche Dienste hängen von der Datenbank ab?", ("abhängig",)),
        ("Wovon hängt der Planer ab?", ("abhängig",)),
        ("Wovon hing das ab?", ("abhängig",)),
        ("Abhängigkeiten des Planers", ("abhängig",)),
        ("ob das davon abhängt", ("abhängig",)),
        ("laufende Projekte mit neuen Technologien", ("Projekt", "Technologie")),
        ("Was gehört zum Haus?", ("gehört zu",)),
        ("Das Depot, zu dem das Lager gehört", ("gehört zu",)),
        ("Zu welchem Team gehören sie?", ("gehört zu",)),
    ],
)
def test_inflected_and_reordered_forms_match(text, matched):
    assert route(text, CONFIG) == ("relational", matched)


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    "text",
    [
        "How many bikes do we have today?",
        "Was haben wir heute?",
        "Wer hört das?",
        "ab wann hängt das Bild",
        "Projektion an die Wand",
        "What is useless?",
        "wem gehört das",
    ],
)
def test_other_words_do_not_match(text):
    assert route(text, CONFIG) == ("standard", ())


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Who runs Eichelhäher?", True),
        ("With whom was it signed?", True),
        ("Wer leitet das Depot?", True),
        ("In welchem Regal liegt es?", True),
        ("Where is it stored?", True),
        ("How do I restart it?", False),
        ("When was it upgraded?", False),
        ("Backup von Rabenhorst", False),
        ("tell me who it is", False),
    ],
)
def test_questions_for_something_other_than_they_name_are_recognised(text, asks):
    assert asks_for_another(text) is asks


@pytest.mark.spec("C3")
def test_a_plan_becomes_relational_if_the_query_asks_for_a_stored_relation():
    plan = make_plan(PlanRequest("Who runs Eichelhäher?", "insights"), PlanSettings(), StoreFacts())
    assert (plan.query_type, plan.weights) == ("standard", {"semantic": 0.6, "keyword": 0.2, "graph": 0.2})
    relational = routed(plan)
    assert (relational.query_type, relational.weights) == ("relational", RELATIONAL_WEIGHTS)
    callers = make_plan(
        PlanRequest("Who runs it?", "insights", weights={"graph": 0.5, "keyword": 0.5}), PlanSettings(), StoreFacts()
    )
    assert routed(callers).weights == callers.weights
    auto = routed(make_plan(PlanRequest("Who runs it?"), PlanSettings(), StoreFacts()))
    assert (auto.query_type, auto.weights) == ("relational", None)
    wiki = make_plan(PlanRequest("Who runs it?", "wiki"), PlanSettings(), StoreFacts())
    assert routed(wiki) == wiki


@pytest.mark.spec("S4.3")
def test_decomposed_umlauts_match():
    assert route(unicodedata.normalize("NFD", "abhängig"), CONFIG) == ("relational", ("abhängig",))


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize("keyword", RELATIONAL_DE + RELATIONAL_EN)
def test_every_default_keyword_matches_as_a_whole_word_only(keyword):
    assert keyword in route(keyword.upper(), CONFIG)[1]
    assert route(f"x{keyword}x".replace(" ", "x"), CONFIG) == ("standard", ())


@pytest.mark.spec("S4.3")
def test_configured_keywords_replace_those_of_their_language_only():
    config = RoutingConfig(de=("kennt", "C++", "->"))
    assert route("Wer kennt wen?", config) == ("relational", ("kennt",))
    assert route("Wer hat was?", config) == ("standard", ())
    assert route("who uses it -> me", config) == ("relational", ("uses",))


@pytest.mark.spec("S4.3")
def test_missing_relational_weights_have_defaults_and_the_sum_must_be_one():
    assert CONFIG.relational_weights == {"semantic": 0.4, "keyword": 0.2, "graph": 0.4}
    changed = RoutingConfig(relational_weights={"semantic": 0.3, "graph": 0.5})
    assert changed.relational_weights == {"semantic": 0.3, "keyword": 0.2, "graph": 0.5}
    with pytest.raises(InvalidSetting, match=r"query_routing\.relational_weights: weights sum to"):
        RoutingConfig(relational_weights={"graph": 0.5})


@pytest.mark.spec("S4.3")
@given(st.text())
def test_any_text_can_be_routed_whatever_its_case(text):
    assert route(text, CONFIG)[1] == route(text.casefold(), CONFIG)[1]
