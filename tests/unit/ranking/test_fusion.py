"""Fusion: RRF, weighted and auto, by hand, against ranx, and by properties."""

import json
import math
import os
import random
import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from search_rankings import IDS, SCORES, by_rank, named_lists, weights

from fourfold import Hit
from fourfold.engine.pipeline import highest
from fourfold.ranking.fusion import BELOW_AVERAGE, TEXT_FALLBACK, TEXT_ODDS, AutoInputs, fuse_auto, rrf, weighted
from fourfold.ranking.plan import PRESETS
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Background, Contribution

BOTH = pytest.mark.parametrize("fuse", [rrf, weighted])


# ---------------------------------------------------------------- by hand


@pytest.mark.spec("S1.3")
def test_rrf_is_the_weighted_sum_of_reciprocal_ranks():
    fusion = rrf({"semantic": by_rank(1, 2), "keyword": by_rank(2, 3)}, {"semantic": 0.7, "keyword": 0.3}, k=60)
    expected = [(2, 0.7 / 62 + 0.3 / 61), (1, 0.7 / 61), (3, 0.3 / 62)]
    assert [hit.id for hit in fusion.ranked] == [id for id, _ in expected]
    for hit, (_, score) in zip(fusion.ranked, expected, strict=True):
        assert hit.score == pytest.approx(score, abs=1e-15)


@pytest.mark.spec("S1.3")
@pytest.mark.parametrize(
    ("preset", "scores"),
    [
        ("insights-basic", {1: 0.7 / 61 + 0.3 / 63, 2: 0.7 / 62 + 0.3 / 61, 3: 0.7 / 63, 4: 0.3 / 62}),
        ("insights", {1: 0.6 / 61 + 0.2 / 63 + 0.2 / 62, 2: 0.6 / 62 + 0.2 / 61, 3: 0.6 / 63, 4: 0.2 / 62 + 0.2 / 61}),
        ("wiki", {1: 0.5 / 61 + 0.5 / 63, 2: 0.5 / 62 + 0.5 / 61, 3: 0.5 / 63, 4: 0.5 / 62}),
        ("files", {1: 1 / 61 + 1 / 63, 2: 1 / 62 + 1 / 61, 3: 1 / 63, 4: 1 / 62}),
    ],
)
def test_the_presets_score_as_specified(preset, scores):
    lists = {"semantic": by_rank(1, 2, 3), "keyword": by_rank(2, 4, 1), "graph": by_rank(4, 1)}
    fusion = rrf(lists, PRESETS[preset].weights or {}, PRESETS[preset].k)
    assert dict(fusion.ranked) == pytest.approx(scores, abs=1e-12)


@pytest.mark.spec("S3.3")
def test_weighted_scales_scores_within_each_list():
    lists = {
        "semantic": [Hit(1, 0.9), Hit(2, 0.6), Hit(3, 0.5)],
        "keyword": [Hit(3, 12.0), Hit(4, 7.0), Hit(2, 2.0)],
        "tags": [Hit(5, 3.0), Hit(6, 3.0)],
    }
    fusion = weighted(lists, {"semantic": 0.6, "keyword": 0.3, "tags": 0.1})
    expected = {1: 0.6, 2: 0.6 * 0.25, 3: 0.3, 4: 0.15, 5: 0.1, 6: 0.1}
    assert dict(fusion.ranked) == pytest.approx(expected, abs=1e-12)
    assert fusion.ids == [1, 3, 2, 4, 5, 6]


@pytest.mark.spec("S1.4")
@BOTH
def test_no_lists_give_an_empty_ranking_and_one_list_keeps_its_order(fuse):
    both = {"semantic": 0.7, "keyword": 0.3}
    assert fuse({"semantic": [], "keyword": []}, both).ranked == []
    assert fuse({}, both).ranked == []
    assert fuse({"semantic": [], "keyword": by_rank(5, 3, 9)}, both).ids == [5, 3, 9]


@pytest.mark.spec("S1.4")
@BOTH
def test_weights_of_empty_lists_are_not_redistributed(fuse):
    alone = fuse({"semantic": by_rank(1), "keyword": []}, {"semantic": 0.7, "keyword": 0.3})
    assert alone.weights == {"semantic": 0.7, "keyword": 0.3, "graph": 0.0, "tags": 0.0}
    assert alone.contributions(1)[0].weight == 0.7


@pytest.mark.spec("S1.3")
@BOTH
def test_a_repeated_id_counts_once_at_its_best_rank(fuse):
    twice = [Hit(1, 0.9), Hit(2, 0.8), Hit(1, 0.7), Hit(3, 0.6)]
    once = [Hit(1, 0.9), Hit(2, 0.8), Hit(3, 0.6)]
    assert fuse({"semantic": twice}, {"semantic": 1.0}).ranked == fuse({"semantic": once}, {"semantic": 1.0}).ranked


@pytest.mark.spec("S1.3")
@BOTH
def test_ties_are_broken_by_id_whatever_the_order_of_addition(fuse):
    """Three thirds of different ranks: plain float sums differ in the last digit, depending on the order."""
    lists = {"semantic": by_rank(9, 4, 7), "keyword": by_rank(4, 7, 9), "graph": by_rank(7, 9, 4)}
    fusion = fuse(lists, {"semantic": 1 / 3, "keyword": 1 / 3, "graph": 1 / 3})
    assert fusion.ids == [4, 7, 9]
    assert len(set(fusion.scores.values())) == 1


@pytest.mark.spec("S1.3")
@pytest.mark.parametrize("k", [1, 60, 10**9])
def test_different_ranks_score_differently_for_any_k(k):
    assert rrf({"semantic": by_rank(*range(200, 0, -1))}, {"semantic": 1.0}, k).ids == list(range(200, 0, -1))


# ---------------------------------------------------------------- ties


@pytest.mark.spec("C1")
def test_equal_scores_share_the_best_rank_of_their_group():
    hits = [Hit(9, 0.9), Hit(4, 0.5), Hit(7, 0.5), Hit(2, 0.5), Hit(1, 0.1)]
    fusion = rrf({"tags": hits}, {"tags": 1.0})
    assert dict(fusion.ranked) == pytest.approx({9: 1 / 61, 2: 1 / 62, 4: 1 / 62, 7: 1 / 62, 1: 1 / 65}, abs=1e-15)
    assert fusion.ids == [9, 2, 4, 7, 1]
    assert [fusion.contributions(id)[0].rank for id in fusion.ids] == [1, 2, 2, 2, 5]


@pytest.mark.spec("C1")
@BOTH
def test_a_list_of_ties_does_not_change_the_order_of_another(fuse):
    tied = [Hit(id, 0.3) for id in range(1, 63)]
    order = [*range(62, 0, -1)]
    assert fuse({"semantic": by_rank(*order), "tags": tied}, {"semantic": 0.5, "tags": 0.5}).ids == order


@pytest.mark.spec("C1")
def test_a_long_list_of_ties_adds_nothing_to_other_lists():
    """62 items with a common word rank below the nearest item, which lacks it."""
    order = [99, *range(62, 0, -1)]
    fusion = rrf(
        {"semantic": by_rank(*order), "keyword": [Hit(id, 0.3) for id in range(1, 64)]},
        {"semantic": 0.7, "keyword": 0.3},
    )
    assert fusion.ids == [*order, 63]
    assert fusion.contributions(63)[0] == Contribution("keyword", 1, 0.3, 0.0, 0.3, 0.0)


@pytest.mark.spec("C1")
def test_a_short_list_of_ties_counts_and_a_single_list_is_kept():
    few = rrf({"semantic": by_rank(1, 2, 3), "tags": [Hit(2, 0.5), Hit(3, 0.5)]}, {"semantic": 0.5, "tags": 0.5})
    assert few.ids == [2, 3, 1]
    alone = rrf({"tags": [Hit(id, 0.5) for id in range(1, 30)]}, {"tags": 1.0})
    assert alone.ranked == [Hit(id, pytest.approx(1 / 61)) for id in range(1, 30)]


# ---------------------------------------------------------------- contributions


@pytest.mark.spec("B2")
def test_a_contribution_has_rank_raw_score_weight_and_value():
    lists = {"semantic": [Hit(1, 0.9), Hit(2, 0.8)], "keyword": [Hit(2, 11.0)]}
    contributions = rrf(lists, {"semantic": 0.75, "keyword": 0.25}).contributions(2)
    assert contributions == (
        Contribution("semantic", 2, 0.8, pytest.approx(1 / 62), 0.75, pytest.approx(0.75 / 62)),
        Contribution("keyword", 1, 11.0, pytest.approx(1 / 61), 0.25, pytest.approx(0.25 / 61)),
    )
    assert rrf(lists, {"semantic": 0.75, "keyword": 0.25}).contributions(99) == ()


@pytest.mark.spec("B2")
@BOTH
@given(lists=named_lists, weights=weights)
def test_contributions_sum_to_the_score_exactly(fuse, lists, weights):
    fusion = fuse(lists, weights)
    for hit in fusion.ranked:
        contributions = fusion.contributions(hit.id)
        assert sum(line.value for line in reversed(contributions)) == hit.score
        for line in contributions:
            assert line.value == pytest.approx(line.weight * line.scaled, abs=1e-12)


# ---------------------------------------------------------------- laws


@pytest.mark.spec("S1.3")
@BOTH
@given(lists=named_lists, weights=weights, order=st.permutations(tuple(RETRIEVERS)))
def test_the_order_of_the_lists_does_not_matter(fuse, lists, weights, order):
    shuffled = {name: lists[name] for name in order if name in lists}
    assert fuse(shuffled, weights).ranked == fuse(lists, weights).ranked


@pytest.mark.spec("S1.3")
@BOTH
@given(lists=named_lists, weights=weights)
def test_a_ranking_is_sorted_with_ties_by_id_and_distinct_ids(fuse, lists, weights):
    ranked = fuse(lists, weights).ranked
    assert ranked == sorted(ranked, key=lambda hit: (-hit.score, hit.id))
    acting = [lists[name] for name in lists if weights[name] > 0]
    assert sorted(hit.id for hit in ranked) == sorted({hit.id for hits in acting for hit in hits})


@pytest.mark.spec("S1.3")
@BOTH
@given(lists=named_lists, weights=weights, name=st.sampled_from(tuple(RETRIEVERS)))
def test_a_list_with_weight_zero_is_ignored(fuse, lists, weights, name):
    without = {other: hits for other, hits in lists.items() if other != name}
    silenced = {**weights, name: 0.0}
    assert fuse(lists, silenced).ranked == fuse(without, silenced).ranked


@pytest.mark.spec("S1.3")
@given(lists=named_lists, weights=weights, name=st.sampled_from(tuple(RETRIEVERS)), data=st.data())
def test_a_better_rank_never_lowers_a_score(lists, weights, name, data):
    assume(len(lists.get(name, ())) > 1)
    place = data.draw(st.integers(1, len(lists[name]) - 1))
    hits = list(lists[name])
    hits[place - 1], hits[place] = hits[place], hits[place - 1]
    risen = hits[place - 1].id
    after = rrf({**lists, name: hits}, weights)
    assert after.scores.get(risen, 0.0) >= rrf(lists, weights).scores.get(risen, 0.0)


@pytest.mark.spec("S1.3")
@BOTH
@given(lists=named_lists, weights=weights, name=st.sampled_from(tuple(RETRIEVERS)), more=st.floats(0, 1))
def test_more_weight_never_lowers_a_score(fuse, lists, weights, name, more):
    before, after = fuse(lists, weights), fuse(lists, {**weights, name: weights[name] + more})
    for id, score in before.scores.items():
        assert after.scores[id] >= score - 1e-12


@pytest.mark.spec("S3.3")
@given(lists=named_lists, weights=weights)
def test_weighted_scores_stay_between_zero_and_the_sum_of_weights(lists, weights):
    for hit in weighted(lists, weights).ranked:
        assert 0 <= hit.score <= math.fsum(weights.values()) + 1e-12


# ---------------------------------------------------------------- against ranx

RANX = """
import json, sys
from ranx import Run, fuse
print(json.dumps([
    fuse([Run({"q": run}) for run in runs], method="rrf", params={"k": 60}, norm=None).to_dict()["q"]
    for runs in json.load(sys.stdin)
]))
"""


def ranx_rrf(queries: list[dict[str, list[Hit]]]) -> list[dict[int, float]]:
    """Runs in a separate process without numba's compiler, which takes minutes and warns."""
    asked = json.dumps([[{str(hit.id): hit.score for hit in hits} for hits in lists.values()] for lists in queries])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    ran = subprocess.run([sys.executable, "-c", RANX], input=asked, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    return [{int(id): score for id, score in fused.items()} for fused in json.loads(ran.stdout)]


@pytest.mark.spec("S1.3")
def test_rrf_with_equal_weights_matches_ranx():
    chance = random.Random(60)
    queries = [
        {name: by_rank(*chance.sample(range(100), chance.randint(1, 60))) for name in list(RETRIEVERS)[: 2 + n % 3]}
        for n in range(50)
    ]
    for lists, expected in zip(queries, ranx_rrf(queries), strict=True):
        assert rrf(lists, dict.fromkeys(lists, 1.0), k=60).scores == pytest.approx(expected, abs=1e-12)


# ---------------------------------------------------------------- auto: scores of all retrievers


SEMANTIC = [Hit(1, 0.7), Hit(2, 0.4)]
KEYWORD = [Hit(2, 12.0), Hit(3, 6.0)]
UNLISTED = {"semantic": [Hit(3, 0.1)], "keyword": [Hit(1, 0.0)]}

GRAPH, TAGS = RETRIEVERS["graph"].share, RETRIEVERS["tags"].share
SHARED_TAGS = RETRIEVERS["tags"].expansion_share


def text_inputs(average: Background | None, **changes) -> AutoInputs:
    return AutoInputs({"semantic": SEMANTIC, "keyword": KEYWORD}, UNLISTED, average, **changes)


# ---------------------------------------------------------------- weights


NEAR = 4 * 0.6 / 0.9 - 1.5
"""Log odds of vectors: nearness (0.7 - 0.1) / (1 - 0.1); fewer than fifty hits, so the fall is 1."""
COVERED = [({}, 0.5), ({2: 0.25, 3: 0.1}, 0.25), ({1: 0.0, 2: 1.0}, 1.0), ({2: 1.5}, 1.0), ({4: 0.0}, 0.0)]
FOREIGN = [(0.0, 0.3), (0.5, 0.0), (1.0, 0.8)]


@pytest.mark.spec("B1")
@pytest.mark.parametrize(
    ("changes", "odds"),
    [
        *(({"coverage": highest(coverage)}, NEAR - taken) for coverage, taken in COVERED),
        *(({"unknown": unknown}, NEAR - 0.5 + unknown) for unknown in (0.0, 0.3, 0.9)),
        *(({"code": code}, NEAR - 0.5 + TEXT_ODDS.code * code) for code in (0.0, 0.3, 1.0)),
        *(
            (
                {"foreign": foreign, "unknown": unknown},
                NEAR - 0.5 + unknown + TEXT_ODDS.foreign * foreign * (1 - unknown),
            )
            for foreign, unknown in FOREIGN
        ),
    ],
)
def test_coverage_favours_words_and_unknown_words_code_and_other_languages_favour_vectors(changes, odds):
    applied = fuse_auto(text_inputs(Background(0.1), **changes)).weights
    semantic = 1 / (1 + math.exp(-odds))
    expected = {"semantic": semantic, "keyword": 1 - semantic, "graph": 0, "tags": 0}
    assert applied == pytest.approx(expected, abs=1e-9)


@pytest.mark.spec("B1")
@pytest.mark.parametrize(
    ("items", "length", "fall"),
    [(0, 49, 1.0), (0, 50, 0.7), (1250, 49, 1.0), (10**6, 200, 0.7), (500, 19, 1.0), (500, 20, 0.7), (9, 10, 0.7)],
)
def test_words_shared_by_many_items_get_less_weight(items, length, fall):
    keyword = [Hit(place, 10.0 if place == 1 else 3.0) for place in range(1, length + 1)]
    inputs = AutoInputs({"semantic": SEMANTIC, "keyword": keyword}, average=Background(0.1), items=items)
    odds = math.exp(4 * 0.6 / 0.9 - 0.5 - fall - 0.5)
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


@pytest.mark.spec("B1", "B2")
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
def test_contributions_of_auto_sum_to_the_score(made):
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
