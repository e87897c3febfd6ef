"""`auto` fusion: scores of all retrievers, with weights chosen per query."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_rankings import IDS, SCORES, named_lists, weights

from fourfold.engine.pipeline import highest
from fourfold.ranking.fusion import BELOW_AVERAGE, TEXT_FALLBACK, TEXT_ODDS, AutoInputs, fuse_auto
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Background, Hit

SEMANTIC = [Hit(1, 0.7), Hit(2, 0.4)]
KEYWORD = [Hit(2, 12.0), Hit(3, 6.0)]
UNLISTED = {"semantic": [Hit(3, 0.1)], "keyword": [Hit(1, 0.0)]}

GRAPH, TAGS = RETRIEVERS["graph"].share, RETRIEVERS["tags"].share
SHARED_TAGS = RETRIEVERS["tags"].expansion_share


def text_inputs(average: Background | None, **changes) -> AutoInputs:
    return AutoInputs({"semantic": SEMANTIC, "keyword": KEYWORD}, UNLISTED, average, **changes)


# ---------------------------------------------------------------- weights


@pytest.mark.spec("B1")
@pytest.mark.parametrize(
    ("coverage", "taken"),
    [({}, 0.5), ({2: 0.25, 3: 0.1}, 0.25), ({1: 0.0, 2: 1.0}, 1.0), ({2: 1.5}, 1.0), ({4: 0.0}, 0.0)],
)
def test_nearness_favours_vectors_and_coverage_favours_words(coverage, taken):
    """Nearness (0.7 - 0.1) / (1 - 0.1); fewer than fifty hits, so the fall is 1."""
    applied = fuse_auto(text_inputs(Background(0.1), coverage=highest(coverage))).weights
    odds = math.exp(4 * 0.6 / 0.9 - taken - 1 - 1)
    expected = {"semantic": odds / (1 + odds), "keyword": 1 / (1 + odds), "graph": 0, "tags": 0}
    assert applied == pytest.approx(expected, abs=1e-9)


@pytest.mark.spec("B1")
@pytest.mark.parametrize(
    ("items", "length", "fall"),
    [(0, 49, 1.0), (0, 50, 0.7), (1250, 49, 1.0), (10**6, 200, 0.7), (500, 19, 1.0), (500, 20, 0.7), (9, 10, 0.7)],
)
def test_words_shared_by_many_items_get_less_weight(items, length, fall):
    keyword = [Hit(place, 10.0 if place == 1 else 3.0) for place in range(1, length + 1)]
    inputs = AutoInputs({"semantic": SEMANTIC, "keyword": keyword}, average=Background(0.1), items=items)
    odds = math.exp(4 * 0.6 / 0.9 - 0.5 - fall - 1)
    assert fuse_auto(inputs).weights["semantic"] == pytest.approx(odds / (1 + odds), abs=1e-9)


@pytest.mark.spec("B1")
@pytest.mark.parametrize("unknown", [0.0, 0.3, 0.9])
def test_unknown_words_favour_vectors(unknown):
    inputs = text_inputs(Background(0.1), unknown=unknown)
    odds = math.exp(4 * 0.6 / 0.9 + unknown - 0.5 - 1 - 1)
    assert fuse_auto(inputs).weights["semantic"] == pytest.approx(odds / (1 + odds), abs=1e-9)


@pytest.mark.spec("B1")
@pytest.mark.parametrize("code", [0.0, 0.3, 1.0])
def test_a_question_in_prose_over_source_code_favours_vectors(code):
    inputs = text_inputs(Background(0.1), code=code)
    odds = math.exp(4 * 0.6 / 0.9 + TEXT_ODDS.code * code - 0.5 - 1 - 1)
    assert fuse_auto(inputs).weights["semantic"] == pytest.approx(odds / (1 + odds), abs=1e-9)


@pytest.mark.spec("B1")
@pytest.mark.parametrize(("foreign", "unknown"), [(0.0, 0.3), (0.5, 0.0), (1.0, 0.8)])
def test_items_in_another_language_favour_vectors_unless_unknown_words_do(foreign, unknown):
    inputs = text_inputs(Background(0.1), foreign=foreign, unknown=unknown)
    odds = math.exp(4 * 0.6 / 0.9 + unknown + TEXT_ODDS.foreign * foreign * (1 - unknown) - 0.5 - 1 - 1)
    assert fuse_auto(inputs).weights["semantic"] == pytest.approx(odds / (1 + odds), abs=1e-9)


@pytest.mark.spec("B1")
@pytest.mark.parametrize("tagged", [1.0, 0.5, 0.1])
def test_the_weight_of_tags_depends_on_their_share_of_the_query(tagged):
    lists = {"semantic": SEMANTIC, "tags": [Hit(1, 2.0)]}
    share = TAGS * tagged**2
    applied = fuse_auto(AutoInputs(lists, tagged=tagged)).weights
    assert applied["tags"] == pytest.approx(share / (1 + share), abs=1e-9)


@pytest.mark.spec("B1", "B2")
def test_shared_tags_are_part_of_the_tag_weight_with_their_own_contribution():
    fusion = fuse_auto(AutoInputs({"semantic": SEMANTIC, "tags": [Hit(1, 2.0)], "shared": [Hit(2, 0.4), Hit(9, 0.1)]}))
    assert fusion.weights["tags"] == pytest.approx((TAGS + SHARED_TAGS) / (1 + TAGS + SHARED_TAGS), abs=1e-9)
    (line,) = fusion.contributions(9)
    assert (line.source, line.rank, line.raw, line.scaled) == ("shared", 2, 0.1, pytest.approx(0.25, abs=1e-9))
    given = fuse_auto(AutoInputs({"tags": [Hit(1, 2.0)], "shared": [Hit(9, 0.4)]}, weights={"tags": 1.0}))
    assert given.ids == [1], "a caller's weight is for the tags that the query names"


@pytest.mark.spec("B1")
def test_fixed_weights_are_used_if_the_average_is_unknown():
    applied = fuse_auto(text_inputs(None)).weights
    assert {name: applied[name] for name in TEXT_FALLBACK} == pytest.approx(TEXT_FALLBACK)


@pytest.mark.spec("B5")
@pytest.mark.parametrize(("mean", "coverage"), [(0.9, 1.0), (1.0, 1.0), (-1.0, 0.0)])
def test_neither_semantic_nor_keyword_ever_gets_weight_zero(mean, coverage):
    """A narrow filter can leave only items below the store's average: these must still be found."""
    fusion = fuse_auto(text_inputs(Background(mean), coverage=coverage))
    assert 0.04 < fusion.weights["semantic"] < 0.96
    assert set(fusion.ids) == {1, 2, 3}


@pytest.mark.spec("B1")
def test_graph_and_tags_get_their_share_of_the_weight():
    lists = {"semantic": SEMANTIC, "graph": [Hit(5, 0.5)], "tags": [Hit(1, 2.0)]}
    applied = fuse_auto(AutoInputs(lists)).weights
    whole = 1 + GRAPH + TAGS
    assert applied == pytest.approx(
        {"semantic": 1 / whole, "keyword": 0.0, "graph": GRAPH / whole, "tags": TAGS / whole}
    )


@pytest.mark.spec("B1")
def test_callers_weights_are_scaled_over_the_lists_that_have_hits():
    fixed = {"semantic": 0.4, "keyword": 0.4, "graph": 0.2}
    fusion = fuse_auto(text_inputs(Background(0.1), weights=fixed))
    assert fusion.weights == pytest.approx({"semantic": 0.5, "keyword": 0.5, "graph": 0.0, "tags": 0.0})


@pytest.mark.spec("S1.4")
@pytest.mark.parametrize("fixed", [None, {"semantic": 1.0}])
def test_no_hits_give_an_empty_ranking(fixed):
    fusion = fuse_auto(AutoInputs({"semantic": [], "keyword": ()}, weights=fixed))
    assert (fusion.ranked, fusion.weights) == ([], dict.fromkeys(RETRIEVERS, 0.0))


def test_lists_without_a_callers_weight_are_ignored():
    fusion = fuse_auto(AutoInputs({"semantic": SEMANTIC, "keyword": KEYWORD}, weights={"keyword": 1.0}))
    assert fusion.ids == [2, 3]


# ---------------------------------------------------------------- scores


@pytest.mark.spec("B1")
@pytest.mark.spec("B2")
def test_unlisted_candidates_get_their_real_scores():
    fusion = fuse_auto(text_inputs(Background(0.1)))
    semantic, keyword = fusion.contributions(2)
    assert (semantic.source, semantic.rank, semantic.raw) == ("semantic", 2, 0.4)
    assert semantic.scaled == pytest.approx(BELOW_AVERAGE + (1 - BELOW_AVERAGE) * 0.5)
    assert (keyword.source, keyword.rank, keyword.raw, keyword.scaled) == ("keyword", 1, 12.0, pytest.approx(1.0))
    unlisted = fusion.contributions(3)[0]
    assert (unlisted.source, unlisted.rank, unlisted.raw) == ("semantic", None, 0.1)
    assert [line.source for line in fusion.contributions(1)] == ["semantic"]


@pytest.mark.spec("B1")
def test_graph_scores_are_absolute_and_share_their_weight_with_the_walk():
    lists = {"graph": [Hit(1, 0.8), Hit(2, 0.4)], "walk": [Hit(3, 5.0), Hit(2, 0.2)], "tags": [Hit(2, 3.0)]}
    fusion = fuse_auto(AutoInputs(lists, weights={"graph": 0.6, "tags": 0.4}))
    assert fusion.scores == pytest.approx({1: 0.3 * 0.8, 2: 0.3 * 0.4 + 0.3 * 0.2 + 0.4, 3: 0.3})
    assert [(line.source, line.weight) for line in fusion.contributions(2)] == [
        ("graph", 0.3),
        ("tags", 0.4),
        ("walk", 0.3),
    ]
    assert fusion.weights == {"semantic": 0.0, "keyword": 0.0, "graph": 0.6, "tags": 0.4}
    assert fuse_auto(AutoInputs({"walk": [Hit(3, 5.0)]})).weights["graph"] == 1.0


@pytest.mark.spec("B1")
@pytest.mark.parametrize("background", [Background(0.5), Background(0.95), Background(0.1), None])
def test_one_retriever_alone_keeps_its_order_above_and_below_the_average(background):
    hits = [Hit(7, 0.9), Hit(3, 0.6), Hit(9, 0.3), Hit(1, 0.1), Hit(2, -0.2)]
    fusion = fuse_auto(AutoInputs({"semantic": hits}, average=background))
    assert fusion.ids == [7, 3, 9, 1, 2]
    assert fusion.ranked[0].score == pytest.approx(1.0)
    assert fusion.ranked[-1].score >= 0


@pytest.mark.spec("S1.3")
def test_equal_cosines_all_score_as_the_best_and_tie_by_id():
    fusion = fuse_auto(AutoInputs({"semantic": [Hit(5, 0.4), Hit(2, 0.4)]}, average=Background(0.4)))
    assert fusion.ranked == [Hit(2, 1.0), Hit(5, 1.0)]


@pytest.mark.spec("B1")
def test_a_candidate_missed_by_an_approximate_list_can_rank_first():
    inputs = AutoInputs(
        {"semantic": [Hit(1, 0.6)], "keyword": [Hit(2, 3.0)]}, {"semantic": [Hit(2, 0.9)], "keyword": [Hit(1, 0.0)]}
    )
    fusion = fuse_auto(inputs)
    assert fusion.ids == [2, 1]
    assert fusion.ranked[0].score == pytest.approx(1.0)


# ---------------------------------------------------------------- laws

backgrounds = st.builds(Background, st.floats(-0.5, 5))
all_lists = st.builds(
    lambda lists, walk: {**lists, "walk": walk}, named_lists, named_lists.map(lambda others: others.get("graph", []))
)
unlisted = st.fixed_dictionaries(
    {
        "semantic": st.dictionaries(IDS, st.floats(-1, 1)).map(lambda scores: [Hit(*each) for each in scores.items()]),
        "keyword": st.dictionaries(IDS, SCORES.map(abs)).map(lambda scores: [Hit(*each) for each in scores.items()]),
    }
)
inputs = st.builds(
    lambda *given: AutoInputs(*given),
    all_lists,
    unlisted,
    st.none() | backgrounds,
    st.none() | weights,
    st.none() | st.floats(0, 1),
)


@pytest.mark.spec("B2")
@given(inputs)
def test_contributions_sum_to_the_score(made):
    fusion = fuse_auto(made)
    for hit in fusion.ranked:
        assert math.fsum(line.value for line in fusion.contributions(hit.id)) == pytest.approx(hit.score, abs=1e-12)


@pytest.mark.spec("B1")
@given(inputs)
def test_applied_weights_name_all_retrievers_and_sum_to_one(made):
    applied = fuse_auto(made).weights
    assert tuple(applied) == tuple(RETRIEVERS)
    assert math.fsum(applied.values()) == pytest.approx(1) or set(applied.values()) == {0.0}


@pytest.mark.spec("S1.3")
@given(inputs, st.permutations((*RETRIEVERS, "walk")))
def test_the_order_of_the_lists_does_not_change_the_ranking(made, order):
    ranked = fuse_auto(made).ranked
    assert ranked == sorted(ranked, key=lambda hit: (-hit.score, hit.id))
    shuffled = {name: made.lists[name] for name in order if name in made.lists}
    assert fuse_auto(made._replace(lists=shuffled)).ranked == ranked


@pytest.mark.spec("B5")
@given(inputs)
def test_all_items_listed_by_semantic_or_keyword_are_ranked(made):
    ids = set(fuse_auto(AutoInputs(made.lists, made.unlisted, made.average)).ids)
    assert ids >= {hit.id for hit in made.lists.get("semantic", ())}
    assert ids >= {hit.id for hit in made.lists.get("keyword", ()) if hit.score > 0}
