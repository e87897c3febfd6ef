"""Routing: relational words, whole, in German and English."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.errors import InvalidSetting
from fourfold.search.routing import RELATIONAL_DE, RELATIONAL_EN, RoutingConfig, route

CONFIG = RoutingConfig()


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("What is that?", ()),
        ("what", ()),
        ("Hast du den Projektplan?", ()),
        ("technological projects and hashes", ()),
        ("has_value", ()),
        ("Wer hat das geschrieben?", ("hat",)),
        ("HAT", ("hat",)),
        ("Welche Technologie nutzt das Projekt?", ("nutzt", "Projekt", "Technologie")),
        ("welche TECHNOLOGIE?", ("Technologie",)),
        ("Das Modul gehört zu Fourfold", ("gehört zu",)),
        ("gehört  \n zu", ("gehört zu",)),
        ("GEHÖRT ZU", ("gehört zu",)),
        ("Es gehoert zu uns", ("gehört zu",)),
        ("gehört zum Haus", ()),
        ("zu wem gehört es", ()),
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
def test_whole_words_and_phrases_in_any_case(text, matched):
    assert route(text, CONFIG) == ("relational" if matched else "standard", matched)


@pytest.mark.spec("S4.3")
def test_decomposed_umlauts_are_the_same_letters():
    assert route(unicodedata.normalize("NFD", "abhängig"), CONFIG) == ("relational", ("abhängig",))


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize("keyword", RELATIONAL_DE + RELATIONAL_EN)
def test_every_word_of_the_seed_fires_alone_but_not_inside_another(keyword):
    assert keyword in route(keyword.upper(), CONFIG)[1]
    assert route(f"x{keyword}x".replace(" ", "x"), CONFIG) == ("standard", ())


@pytest.mark.spec("S4.3")
def test_the_lists_are_replaced_per_language_and_the_others_stay():
    config = RoutingConfig(de=("kennt", "C++", "->"))
    assert route("Wer kennt wen?", config) == ("relational", ("kennt",))
    assert route("Wer hat was?", config) == ("standard", ())
    assert route("who uses it -> me", config) == ("relational", ("uses",))


@pytest.mark.spec("S4.3")
def test_relational_weights_are_filled_up_per_key_and_must_then_sum_to_one():
    assert CONFIG.relational_weights == {"semantic": 0.4, "keyword": 0.2, "graph": 0.4}
    changed = RoutingConfig(relational_weights={"semantic": 0.3, "graph": 0.5})
    assert changed.relational_weights == {"semantic": 0.3, "keyword": 0.2, "graph": 0.5}
    with pytest.raises(InvalidSetting, match=r"query_routing\.relational_weights: weights sum to"):
        RoutingConfig(relational_weights={"graph": 0.5})


@pytest.mark.spec("S4.3")
@given(st.text())
def test_any_text_is_routed_and_case_does_not_matter(text):
    assert route(text, CONFIG)[1] == route(text.casefold(), CONFIG)[1]
