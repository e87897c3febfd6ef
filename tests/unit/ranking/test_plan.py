"""Plans of requests: presets and their settings, weights, alpha, routing."""

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold import Plan
from fourfold.errors import InvalidQuery, InvalidWeights
from fourfold.ranking.plan import (
    PRESETS,
    RELATIONAL_DE,
    RELATIONAL_EN,
    RELATIONAL_WEIGHTS,
    PlanRequest,
    PlanSettings,
    RoutingConfig,
    StoreFacts,
    asks_for_another,
    check_weights,
    make_plan,
    route,
    routed,
)
from fourfold.retrieval import Recency

FOUR = ("semantic", "keyword", "graph", "tags")
RELATIONAL = "Welche Technologie nutzt Fourfold?"


def plan(
    text: str = "how do vectors work", settings: PlanSettings | None = None, facts: StoreFacts | None = None, **asked
) -> Plan:
    return make_plan(PlanRequest(text, **asked), settings or PlanSettings(), facts or StoreFacts(items=1000))


def weights_of(made: Plan) -> dict[str, float]:
    assert made.weights is not None
    assert tuple(made.weights) == made.retrievers
    return dict(made.weights)


# ---------------------------------------------------------------- what each preset plans


@pytest.mark.spec("B1")
def test_auto_is_the_default_with_all_retrievers_and_weights_per_query():
    assert plan() == Plan("auto", FOUR, "auto", 60, 10, None, expand=True)


@pytest.mark.spec("S4.3", "S4.5")
def test_insights_switches_to_the_relational_weights():
    standard = plan(preset="insights")
    assert weights_of(standard) == {"semantic": 0.6, "keyword": 0.2, "graph": 0.2}
    assert (standard.query_type, standard.matched_keywords) == ("standard", ())
    relational = plan(RELATIONAL, preset="insights")
    assert weights_of(relational) == {"semantic": 0.4, "keyword": 0.2, "graph": 0.4}
    assert (relational.query_type, relational.matched_keywords) == ("relational", ("nutzt", "Technologie"))
    assert (relational.fusion, relational.k, relational.top_k, relational.expand) == ("rrf", 60, 5, False)


@pytest.mark.spec("S4.3")
def test_insights_takes_lists_and_weights_from_the_configuration():
    routing = RoutingConfig(en=("knows",), relational_weights={"semantic": 0.3, "keyword": 0.2, "graph": 0.5})
    settings = PlanSettings(insights_weights={"semantic": 0.5, "keyword": 0.3, "graph": 0.2}, routing=routing)
    assert weights_of(plan("who knows", settings, preset="insights"))["graph"] == 0.5
    assert weights_of(plan("who uses it", settings, preset="insights"))["keyword"] == 0.3


@pytest.mark.spec("S4.5")
def test_auto_reports_routing_and_the_other_presets_do_not_route():
    reported = plan(RELATIONAL)
    assert (reported.query_type, reported.matched_keywords) == ("relational", ("nutzt", "Technologie"))
    assert reported.weights is None
    for preset in ("insights-basic", "wiki", "files", "memories"):
        assert plan(RELATIONAL, preset=preset).matched_keywords == ()


@pytest.mark.spec("S2.3")
def test_wiki_settings_apply_to_the_wiki_preset_only():
    settings = PlanSettings(wiki_top_k=7, wiki_weights={"semantic": 0.25, "keyword": 0.75})
    wiki = plan(settings=settings, preset="wiki")
    assert (wiki.top_k, weights_of(wiki)) == (7, {"semantic": 0.25, "keyword": 0.75})
    assert plan(settings=settings, preset="wiki", top_k=3).top_k == 3
    default = plan(preset="wiki")
    assert (default.top_k, weights_of(default)) == (20, {"semantic": 0.5, "keyword": 0.5})
    for preset in ("auto", "insights-basic", "insights", "files", "memories"):
        assert plan(settings=settings, preset=preset) == plan(preset=preset)


@pytest.mark.spec("S3.3")
@pytest.mark.parametrize(
    ("fusion", "semantic", "keyword"), [("rrf", 1.0, 1.0), ("weighted", 0.6, 0.4), ("auto", 0.6, 0.4)]
)
def test_the_files_preset_has_different_weights_for_ranks_and_scores(fusion, semantic, keyword):
    made = plan(preset="files", fusion=fusion)
    assert (made.fusion, weights_of(made)) == (fusion, {"semantic": semantic, "keyword": keyword})


@pytest.mark.spec("S3.3")
@pytest.mark.parametrize("fusion", ["rrf", "weighted"])
def test_auto_with_another_fusion_uses_equal_weights(fusion):
    made = plan(fusion=fusion)
    assert (made.fusion, made.expand, weights_of(made)) == (fusion, False, dict.fromkeys(FOUR, 0.25))


@pytest.mark.spec("S3.3")
def test_auto_fusion_under_another_preset_keeps_the_weights_of_the_preset():
    made = plan(preset="insights-basic", fusion="auto")
    assert (made.fusion, made.expand, weights_of(made)) == ("auto", False, {"semantic": 0.7, "keyword": 0.3})


# ---------------------------------------------------------------- alpha and recency


@pytest.mark.spec("S5.4")
@pytest.mark.parametrize(("items", "tags", "semantic"), [
    (0, 0, 0.5), (499, 2, 0.5), (500, 0, 0.7), (5000, 2, 0.7), (5001, 0, 0.8), (10**6, 2, 0.8),
    (10, 3, 0.25), (500, 3, 0.55), (10**6, 10, 0.7),
])  # fmt: skip
def test_alpha_is_adaptive_and_boosted_by_three_matching_tags(items, tags, semantic):
    expected = pytest.approx({"semantic": semantic, "tags": 1 - semantic}, abs=1e-12)
    made = plan(preset="memories", facts=StoreFacts(items, tags))
    assert (made.fusion, made.retrievers, made.weights, made.fixed) == ("auto", FOUR, None, expected)
    for fusion in ("rrf", "weighted"):
        made = plan(preset="memories", facts=StoreFacts(items, tags), fusion=fusion)
        assert (made.fusion, weights_of(made), made.fixed) == (fusion, expected, None)


@pytest.mark.spec("S5.4")
@given(st.floats(0, 1), st.integers(0, 10))
def test_the_weights_of_any_alpha_sum_to_one(alpha, matching_tags):
    made = plan(preset="memories", alpha=alpha, facts=StoreFacts(1000, matching_tags))
    assert math.fsum(weights_of(made).values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("S5.3", "C1")
def test_an_explicit_alpha_implies_rrf_of_vectors_and_tags():
    explicit = plan(preset="memories", alpha=0.6)
    assert (explicit.fusion, weights_of(explicit), explicit.fixed) == ("rrf", {"semantic": 0.6, "tags": 0.4}, None)
    assert plan(preset="memories", settings=PlanSettings(memories_alpha=0.6)) == explicit
    assert plan(preset="memories", alpha=0.6, fusion="weighted").fusion == "weighted"


@pytest.mark.spec("S5.4")
def test_explicit_alpha_overrides_environment_which_overrides_adaptive():
    settings, facts = PlanSettings(memories_alpha=0.6), StoreFacts(items=10, matching_tags=5)
    assert weights_of(plan(settings=settings, facts=facts, preset="memories", alpha=0.9))["semantic"] == 0.9
    assert weights_of(plan(settings=settings, facts=facts, preset="memories"))["semantic"] == 0.6


@pytest.mark.spec("S5.3")
@pytest.mark.parametrize(("alpha", "retriever"), [(1, "semantic"), (1.0, "semantic"), (0, "tags"), (0.0, "tags")])
def test_alpha_one_is_vectors_only_and_zero_is_tags_only(alpha, retriever):
    assert weights_of(plan(preset="memories", alpha=alpha)) == {retriever: 1.0}
    assert plan(preset="memories", settings=PlanSettings(memories_alpha=alpha)).retrievers == (retriever,)


@pytest.mark.spec("S5.3")
@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan, math.inf, True, "0.5"])
def test_alpha_out_of_range_is_rejected(alpha):
    with pytest.raises(InvalidQuery, match="from 0"):
        plan(preset="memories", alpha=alpha)


@pytest.mark.spec("S5.3")
@pytest.mark.parametrize("preset", ["auto", "insights", "wiki"])
def test_alpha_outside_the_memories_preset_is_rejected(preset):
    with pytest.raises(InvalidQuery, match="--preset memories"):
        plan(preset=preset, alpha=0.5)


@pytest.mark.spec("S5.5")
def test_only_the_memories_preset_has_recency_and_decay_zero_disables_it():
    assert plan(preset="memories").recency == Recency(0.01, 0.3, 0.2)
    unbounded = PlanSettings(memories_recency=Recency(0.1, 0.0))
    assert plan(preset="memories", settings=unbounded).recency == Recency(0.1, 0.0, 0.2)
    assert plan(preset="memories", settings=PlanSettings(memories_recency=Recency(0.0))).recency is None
    assert plan().recency is None


@pytest.mark.spec("C1")
def test_the_strength_of_recency_depends_on_the_fusion_or_the_settings():
    assert {fusion: plan(preset="memories", fusion=fusion).recency for fusion in ("auto", "weighted", "rrf")} == {
        "auto": Recency(0.01, 0.3, 0.2),
        "weighted": Recency(0.01, 0.3, 0.2),
        "rrf": Recency(0.01, 0.3, 0.02),
    }
    document = PlanSettings(memories_recency_strength=1.0)
    assert plan(preset="memories", settings=document).recency == Recency(0.01, 0.3, 1.0)
    assert plan(preset="memories", settings=PlanSettings(memories_recency_strength=0.0)).recency is None


def test_a_request_sets_the_strength_of_recency_in_any_preset():
    for preset in ("auto", "wiki", "memories"):
        assert plan(preset=preset, recency=0.5).recency == Recency(0.01, 0.3, 0.5)
        assert plan(preset=preset, recency=0).recency is None
    for wrong in (-0.1, 1.1, math.nan, True):
        with pytest.raises(InvalidQuery, match="recency is"):
            plan(recency=wrong)


# ---------------------------------------------------------------- weights of the caller


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize("preset", ["auto", "insights-basic", "wiki", "files", "memories"])
def test_callers_weights_replace_those_of_the_preset_and_choose_the_retrievers(preset):
    made = plan(RELATIONAL, preset=preset, weights={"keyword": 0.5, "tags": 0.5, "graph": 0.0})
    assert weights_of(made) == {"keyword": 0.5, "tags": 0.5}
    assert made.fusion == plan(preset=preset).fusion
    assert not made.expand


@pytest.mark.spec("S4.3", "S4.4")
def test_callers_weights_replace_routing_and_a_pair_is_completed_by_the_graph():
    pair = {"semantic": 0.7, "keyword": 0.3}
    completed = plan(RELATIONAL, preset="insights", weights=pair)
    assert weights_of(completed) == pytest.approx({"semantic": 0.56, "keyword": 0.24, "graph": 0.2})
    assert completed.query_type == "relational"
    configured = PlanSettings(insights_weights={"semantic": 0.4, "keyword": 0.2, "graph": 0.4})
    assert weights_of(plan(preset="insights", weights=pair, settings=configured))["graph"] == 0.4
    assert weights_of(plan(preset="auto", weights=pair)) == weights_of(completed)
    assert weights_of(plan(preset="wiki", weights=pair)) == pair
    assert weights_of(plan(preset="auto", weights=pair, only=["semantic", "keyword"])) == pair


@pytest.mark.spec("S4.4")
@given(st.floats(0, 1))
def test_completed_weights_sum_to_one_and_only_a_pair_is_completed(semantic):
    completed = weights_of(plan(preset="insights", weights={"semantic": semantic, "keyword": 1 - semantic}))
    assert check_weights(completed) == {**NO_WEIGHT, **completed}
    assert completed["graph"] > 0
    for weights in ({"semantic": 1.0}, {"semantic": 0.5, "keyword": 0.3, "graph": 0.2}):
        assert weights_of(plan(preset="insights", weights=weights)) == weights


@pytest.mark.spec("S5.3")
@pytest.mark.parametrize(("asked", "weights"), [
    ({"only": ("keyword",)}, {"keyword": 1.0}), ({"only": ("semantic",), "fusion": "rrf"}, {"semantic": 1.0}),
    ({"only": ["tags"], "preset": "memories", "alpha": 0.7}, {"tags": 1.0}),
    ({"only": ("graph", "semantic"), "preset": "insights"}, {"semantic": 0.75, "graph": 0.25}),
    ({"only": {"graph", "tags"}, "fusion": "weighted"}, {"graph": 0.5, "tags": 0.5}),
    ({"only": ("keyword", "tags"), "weights": {"semantic": 0.7, "keyword": 0.3}}, {"keyword": 0.3}),
    ({"preset": "memories", "alpha": 0.2, "weights": {"semantic": 1.0}}, {"semantic": 1.0}),
])  # fmt: skip
def test_only_shares_the_weights_of_the_preset_and_keeps_those_of_the_caller(asked, weights):
    assert weights_of(plan(**asked)) == pytest.approx(weights)


def test_only_with_all_retrievers_keeps_the_preset_and_auto_still_chooses_per_query():
    assert plan(only=("keyword", "semantic"), preset="files") == plan(preset="files")
    made = plan(only=("keyword", "semantic"))
    assert (made.retrievers, made.weights, made.expand) == (("semantic", "keyword"), None, False)


@pytest.mark.spec("B1")
def test_auto_with_a_weight_for_the_graph_expands_it():
    assert plan(weights={"semantic": 0.5, "graph": 0.5}).expand


# ---------------------------------------------------------------- only


@pytest.mark.parametrize(
    ("only", "expands"),
    [(("graph",), False), (("graph", "tags"), False), (("semantic", "graph"), True), (("keyword", "tags"), True)],
)
def test_graph_and_tags_expand_only_with_a_text_retriever(only, expands):
    assert plan(only=only).expand is expands
    assert not plan(only=only, fusion="rrf").expand


@pytest.mark.spec("C1")
def test_only_in_memories_keeps_the_weights_set_by_alpha():
    made = plan(only=("keyword", "semantic"), preset="memories")
    assert (made.retrievers, made.weights, made.fixed) == (("semantic", "keyword"), None, {"semantic": 0.7})
    assert plan(only=("keyword", "graph"), preset="memories").fixed is None
    assert weights_of(plan(only=("keyword",), preset="memories")) == {"keyword": 1.0}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"only": ("vectors",)}, "unknown retriever 'vectors'.*semantic, keyword, graph, tags"),
        ({"only": ()}, "names no retriever"),
        ({"only": ("graph",), "preset": "wiki"}, "wiki does not use graph"),
        ({"only": ("keyword",), "weights": {"semantic": 1.0}}, "no weight is given for keyword"),
        ({"fusion": "sum"}, "unknown fusion 'sum'.*auto, rrf, weighted"),
        ({"preset": "best"}, "unknown preset 'best'.*auto, insights-basic, insights, wiki, files, memories"),
    ],
)
def test_invalid_options_are_rejected_with_the_choices(asked, said):
    with pytest.raises(InvalidQuery, match=said):
        plan(**asked)


# ---------------------------------------------------------------- text, top_k, k


@pytest.mark.spec("S1.3")
def test_k_defaults_to_60_and_can_be_set():
    assert plan(preset="wiki").k == 60
    assert plan(preset="wiki", k=1).k == 1
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InvalidQuery, match=r"k is .* from 1 upwards"):
            plan(k=wrong)


# ---------------------------------------------------------------- presets as specified


TEXT = ("semantic", "keyword")
INSIGHTS = {"semantic": 0.6, "keyword": 0.2, "graph": 0.2}
ROWS = {
    "auto": (FOUR, None, "auto", 10, "reported", None, 2),
    "insights-basic": (TEXT, {"semantic": 0.7, "keyword": 0.3}, "rrf", 5, "off", None, None),
    "insights": (("semantic", "keyword", "graph"), INSIGHTS, "rrf", 5, "acts", None, None),
    "wiki": (TEXT, {"semantic": 0.5, "keyword": 0.5}, "rrf", 20, "off", None, None),
    "files": (TEXT, {"semantic": 1.0, "keyword": 1.0}, "rrf", 10, "off", None, None),
    "memories": (FOUR, None, "auto", 10, "off", Recency(0.01, 0.3, 0.2), None),
}


@pytest.mark.spec("S1.3", "S2.3", "S3.3", "S4.3", "S5.5", "B12")
@pytest.mark.parametrize("name", ROWS)
def test_presets_match_the_specification(name):
    preset = PRESETS[name]
    row = (preset.retrievers, preset.weights, preset.fusion, preset.top_k, preset.routing, preset.recency)
    assert (*row, preset.per_source) == ROWS[name]
    assert PRESETS.keys() == ROWS.keys()
    assert (preset.name, preset.k) == (name, 60)


# ---------------------------------------------------------------- validation and completion of weights


NO_WEIGHT = {"semantic": 0.0, "keyword": 0.0, "graph": 0.0, "tags": 0.0}


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize(("weights", "said"), [
    ({"semantic": 0.7, "keyword": 0.3001}, "sum to 1.0001"), ({"semantic": 0.5, "keyword": 0.4}, "sum to 0.9"),
    ({"semantic": 1.0 + 2e-9}, "sum to 1.000000002"), ({"semantic": 0.0}, "sum to 0.0"), ({}, "empty"),
    ({"vector": 1.0}, "unknown retriever 'vector'"), ({"Semantic": 1.0}, "unknown retriever 'Semantic'"),
    ({1: 1.0}, "unknown retriever 1"), ({"semantic": "1"}, "semantic is '1', not a number"),
    ({"semantic": True}, "semantic is True, not a number"), ({"semantic": None}, "semantic is None, not a number"),
    ({"semantic": 1.5, "keyword": -0.5}, "keyword is -0.5, below 0"),
    ({"semantic": math.nan, "keyword": 1.0}, "semantic is nan, not a finite number"),
    ({"semantic": math.inf}, "semantic is inf, not a finite number"),
    ({"semantic": -math.inf}, "semantic is -inf, not a finite number"), ({"semantic": 10**400}, "not a finite number"),
    ([("semantic", 1.0)], "weights are list"), ("semantic=1", "weights are str"),
])  # fmt: skip
def test_invalid_weights_are_rejected_with_the_reason(weights, said):
    with pytest.raises(InvalidWeights) as refused:
        check_weights(weights)
    assert said in refused.value.message
    assert "sum to 1" in refused.value.remedy


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize("weights", [
    {"semantic": 0.7, "keyword": 0.3}, {"tags": 1}, {"semantic": 0.1, "keyword": 0.2, "graph": 0.3, "tags": 0.4},
    {"semantic": 1 / 3, "keyword": 1 / 3, "graph": 1 / 3}, {"semantic": 1.0 - 5e-10},
])  # fmt: skip
def test_a_missing_weight_is_zero(weights):
    assert check_weights(weights) == {**NO_WEIGHT, **weights}


# ---------------------------------------------------------------- routing


CONFIG = RoutingConfig()


@pytest.mark.spec("S4.3", "C3")
@pytest.mark.parametrize(("text", "matched"), [
    ("What is that?", ()), ("what", ()), ("Hast du den Projektplan?", ()), ("techno hashes", ()), ("has_value", ()),
    ("Wer hat das geschrieben?", ("hat",)), ("HAT", ("hat",)),
    ("Welche Technologie nutzt das Projekt?", ("nutzt", "Projekt", "Technologie")),
    ("welche TECHNOLOGIE?", ("Technologie",)), ("Das Modul gehört zu Fourfold", ("gehört zu",)),
    ("gehört  \n zu", ("gehört zu",)), ("GEHÖRT ZU", ("gehört zu",)), ("Es gehoert zu uns", ("gehört zu",)),
    ("ist abhängig von", ("abhängig",)), ("ist ABHÄNGIG", ("abhängig",)), ("unabhängig", ()),
    ("What belongs to the project?", ("project", "belongs to")), ("Who uses Python, and has it?", ("uses", "has")),
    ("uses", ("uses",)), ("'uses'!", ("uses",)), ("!?", ()), ("Which services use Rabenhorst?", ("uses",)),
    ("what was used, and who is using it", ("uses",)), ("What depends on the queue?", ("dependent",)),
    ("dependencies of the planner", ("dependent",)), ("how do they connect", ("connected",)),
    ("projects and technologies", ("Technologie", "project", "technology")),
    ("Which team does the depot belong to?", ("belongs to",)), ("To whom does it belong?", ("belongs to",)),
    ("Welche Dienste nutzen die Datenbank?", ("nutzt",)), ("Was wurde genutzt?", ("nutzt",)),
    ("Wofür verwenden wir das?", ("verwendet",)), ("Was verbindet die beiden?", ("verbunden",)),
    ("Welche Dienste hängen von der Datenbank ab?", ("abhängig",)), ("Wovon hängt der Planer ab?", ("abhängig",)),
    ("Wovon hing das ab?", ("abhängig",)), ("Abhängigkeiten des Planers", ("abhängig",)),
    ("ob das davon abhängt", ("abhängig",)), ("laufende Projekte mit neuen Technologien", ("Projekt", "Technologie")),
    ("Was gehört zum Haus?", ("gehört zu",)), ("Das Depot, zu dem das Lager gehört", ("gehört zu",)),
    ("Zu welchem Team gehören sie?", ("gehört zu",)), ("How many bikes do we have today?", ()),
    ("Was haben wir heute?", ()), ("Wer hört das?", ()), ("ab wann hängt das Bild", ()), ("Projektion an die Wand", ()),
    ("What is useless?", ()), ("wem gehört das", ()), (unicodedata.normalize("NFD", "abhängig"), ("abhängig",)),
])  # fmt: skip
def test_whole_words_and_phrases_match_in_any_case_form_and_order(text, matched):
    assert route(text, CONFIG) == ("relational" if matched else "standard", matched)


@pytest.mark.spec("C3")
@pytest.mark.parametrize(("text", "asks"), [
    ("Who runs Eichelhäher?", True), ("With whom was it signed?", True), ("Wer leitet das Depot?", True),
    ("In welchem Regal liegt es?", True), ("Where is it stored?", True), ("How do I restart it?", False),
    ("When was it upgraded?", False), ("Backup von Rabenhorst", False), ("tell me who it is", False),
])  # fmt: skip
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
@given(st.text())
def test_any_text_can_be_routed_whatever_its_case(text):
    assert route(text, CONFIG)[1] == route(text.casefold(), CONFIG)[1]
