"""Scores from links in the graph, shared tags, and relations that questions ask for."""

import math
from datetime import UTC, datetime

import pytest

from fourfold import Hit
from fourfold.limits import CANDIDATES, HUB, WALK_STARTS
from fourfold.ranking.connections import (
    BEST_HIT,
    INSTEAD_OF_NAMES,
    MENTIONING,
    NEARNESS,
    PERHAPS,
    UNASKED,
    answering_items,
    longest_named,
    mention_factor,
    named_items,
    only_linked,
    rank_by_links,
    rank_by_shared_tags,
    rarity,
    related_items,
    selective_tags,
    unless_asked,
    walk_starts,
)
from fourfold.ranking.factors import DECAY, RECENCY_STRENGTHS, recency_factor
from fourfold.ranking.fusion import (
    ANSWER_SHARE,
    HELD_SHARES,
    NAMED_COVERAGE,
    RELATION,
    held_back,
    rrf,
    weighted,
    with_answers,
)
from fourfold.ranking.questions import ON_THE_WAY, OTHER_WAY, answering_nodes
from fourfold.retrieval import Link, Recency, Relation

# ---------------------------------------------------------------- links and the starts of a walk


def texts(*scores: float):
    """A ranking by text, with these scores for the items 1, 2, ...; the last one is 0, as it is the worst."""
    return weighted({"keyword": [Hit(id, score) for id, score in enumerate(scores, 1)]}, {"keyword": 0.8})


@pytest.mark.spec("S4.2")
@pytest.mark.parametrize(
    ("kind", "passed"),
    [("own", 0.5), ("edge", 0.5**1.5 * 0.8), ("mentions", 0.25), ("mentioned-by", 0.25 * 0.5), ("names", 0.25 * 0.1)],
)
def test_an_edge_passes_less_than_the_strength_and_a_mention_its_square(kind, passed):
    assert rank_by_links({1: 0.5}, [Link(1, 7, kind, 1.0, 1)]) == (Hit(7, pytest.approx(passed)),)


@pytest.mark.spec("S4.2")
def test_links_are_weighted_and_damped_and_add_up():
    links = [Link(1, 7, "edge", 0.5, 1), Link(2, 7, "edge", 1.0, 6), Link(1, 8, "own", 1.0, 2)]
    found = dict(rank_by_links({1: 1.0, 2: 0.5}, links))
    assert found == pytest.approx({7: 0.8 * (0.5 + 0.5**1.5 / (1 + math.log(6))), 8: 1 / (1 + math.log(2))})


@pytest.mark.spec("S4.2")
def test_the_ranking_is_sorted_with_ties_by_id_and_limited():
    links = [Link(1, id, "own", 1.0, degree) for id, degree in ((9, 2), (4, 3), (3, 2), (5, 1))]
    assert [hit.id for hit in rank_by_links({1: 1.0}, links, 3)] == [5, 3, 9]


@pytest.mark.spec("S4.2")
@pytest.mark.spec("C2")
def test_related_items_are_named_by_the_query_or_joined_by_a_relation():
    """The number of relations does not matter; a mention is not a stored relation."""
    links = [
        Link(1, 7, "own", 1.0, 9),
        Link(1, 8, "edge", 0.5, 90),
        Link(2, 8, "edge", 2.0, 1),
        Link(1, 9, "names", 1, 1),
    ]
    assert related_items({1: 1.0, 2: 0.25}, links) == pytest.approx({7: 1.0, 8: 0.8 * 0.5})


@pytest.mark.spec("S4.2")
def test_edges_that_are_not_asked_for_count_less():
    links = [Link(1, 7, "edge", 0.5, 1), Link(1, 8, "edge", 1.0, 1), Link(1, 9, "own", 1.0, 1)]
    assert [link.weight for link in unless_asked(links, {8})] == pytest.approx([0.5 * UNASKED, 1.0, 1.0])


@pytest.mark.spec("S4.2")
def test_only_items_that_nothing_else_leads_to_are_only_linked():
    kinds = {7: ("edge",), 8: ("edge", "names"), 9: ("own", "edge"), 6: ("names",)}
    assert only_linked([Link(1, item, kind, 1.0, 1) for item, of in kinds.items() for kind in of]) == {7}


@pytest.mark.spec("S4.2")
def test_items_of_asked_nodes_answer_and_mentions_only_for_nodes_without_items():
    links = [
        Link(1, 7, "own", 1.0, 1),
        Link(1, 8, "names", 1.0, 1),
        Link(2, 9, "names", 1.0, 1),
        Link(1, 6, "own", 1.0, 1),
    ]
    assert answering_items({1: 0.5, 2: 0.25}, links, {6}) == pytest.approx({7: 1.0, 9: 0.5 * MENTIONING})
    assert answering_items({}, [], {}) == {}


@pytest.mark.spec("S4.2")
def test_named_items_belong_to_what_the_query_names():
    links = [Link(1, 7, "own", 1.0, 1), Link(2, 7, "own", 1.0, 1), Link(2, 8, "own", 1.0, 2), Link(1, 9, "edge", 1, 1)]
    assert named_items({1: 0.25, 2: 1.0}, links) == pytest.approx({7: 1.0, 8: 1 / (1 + math.log(2))})


@pytest.mark.spec("S4.2")
def test_the_strength_of_a_start_falls_with_the_square_of_its_score():
    assert walk_starts(texts(5.0, 3.0, 1.0), {}) == pytest.approx({1: BEST_HIT, 2: BEST_HIT / 4})


@pytest.mark.spec("S4.2")
def test_a_walk_starts_at_what_the_query_names():
    starts = walk_starts(texts(5.0, 3.0, 1.0), {2: 1.0, 1: 0.1, 99: 0.25})
    assert starts == pytest.approx({1: BEST_HIT, 2: 1.0, 99: 0.25})
    assert walk_starts(texts(), {99: 0.25}) == {99: 0.25}
    assert walk_starts(texts(), {}) == {}


@pytest.mark.spec("S4.2")
def test_mentions_count_more_for_a_question_that_names_nothing():
    assert mention_factor({}, asks=True) == mention_factor({7: PERHAPS}, asks=True) == INSTEAD_OF_NAMES
    assert mention_factor({7: 1.0}, asks=True) == mention_factor({}, asks=False) == 1.0
    links = [Link(1, 7, "mentions", 1.0, 1), Link(1, 8, "mentioned-by", 1.0, 1), Link(1, 9, "edge", 1.0, 1)]
    plain, more = (dict(rank_by_links({1: 0.3}, links, mentions=factor)) for factor in (1.0, 4.0))
    assert more == pytest.approx({7: 4 * plain[7], 8: 4 * plain[8], 9: plain[9]})


@pytest.mark.spec("S4.2")
def test_a_walk_starts_at_a_limited_number_of_good_hits():
    starts = walk_starts(texts(*range(30, 0, -1)), {})
    assert set(starts) == set(range(1, WALK_STARTS + 1))
    assert set(walk_starts(texts(9.0, 5.0, 2.0, 1.0), {})) == {1, 2}


@pytest.mark.spec("S4.2")
def test_no_link_passes_more_than_the_full_strength():
    assert max(NEARNESS.values()) == NEARNESS["own"] == 1.0


@pytest.mark.spec("S4.2")
def test_names_inside_longer_names_are_dropped():
    known = {"york": [1], "new york city": [2, 3], "yorkshire": [4], "city": [2]}
    assert longest_named(known, [*known, "unknown new york city"]) == {2, 3, 4}
    assert longest_named(known, ["york", "city"]) == {1, 2}


# ---------------------------------------------------------------- shared tags


@pytest.mark.spec("S5.2")
def test_a_tag_passes_on_the_strength_of_the_best_other_start():
    carried = [(1, "red", 3), (2, "red", 3), (9, "red", 3)]
    found = dict(rank_by_shared_tags({1: 0.8, 2: 0.5}, carried))
    red = 1 / (1 + math.log(3))
    assert found == pytest.approx({1: 0.5 * red, 2: 0.8 * red, 9: 0.8 * red})


@pytest.mark.spec("S5.2")
def test_scores_of_tags_add_up_and_rare_tags_count_more():
    carried = [(1, "red", 2), (1, "wide", 50), (7, "red", 2), (7, "wide", 50), (8, "wide", 50)]
    found = dict(rank_by_shared_tags({1: 1.0}, carried))
    assert found == pytest.approx({7: rarity(2) + rarity(50), 8: rarity(50)})
    assert rarity(2) > rarity(50) > 0


@pytest.mark.spec("S5.2")
def test_a_tag_of_one_item_only_finds_nothing():
    assert rank_by_shared_tags({1: 1.0}, [(1, "red", 1), (8, "blue", 4), (9, "blue", 4)]) == ()
    assert rank_by_shared_tags({}, [(1, "red", 2), (2, "red", 2)]) == ()


@pytest.mark.spec("S5.2")
def test_shared_tags_rank_sorted_with_ties_by_id_and_limited():
    carried = [(item, "red", 9) for item in (1, 9, 4, 3)] + [(1, "blue", 2), (5, "blue", 2)]
    assert [hit.id for hit in rank_by_shared_tags({1: 1.0}, carried, 3)] == [5, 3, 4]
    assert rank_by_shared_tags({1: 1.0}, carried, 1) == (Hit(5, pytest.approx(rarity(2))),)


@pytest.mark.spec("S5.2")
def test_selective_tags_are_shared_by_a_few_items():
    assert selective_tags({"own": 1, "most": HUB, "pair": 2, "a": 2}) == ["a", "pair", "most"]
    assert selective_tags({"hub": HUB + 1}) == []


@pytest.mark.spec("S5.2")
def test_the_number_of_uses_followed_is_limited():
    wide = {f"tag {number:02}": HUB for number in range(20)}
    assert selective_tags({**wide, "rare": 3}) == ["rare", *sorted(wide)[: CANDIDATES // HUB - 1]]


# ---------------------------------------------------------------- relations


NODES = {name: number for number, name in enumerate(["heron", "emil", "ada", "gulls", "oslo", "stork"], 1)}
EDGES = [
    ("emil", "maintains", "heron"), ("gulls", "calls", "heron"), ("heron", "built-by", "ada"),
    ("emil", "reports to", "ada"), ("stork", "reports to", "emil"), ("ada", "lives in", "oslo"),
    ("gulls", "hängt-ab-von", "stork"), ("stork", "betreut von", "ada"),
]  # fmt: skip


def relations(nodes):
    edges = [(NODES[source], relation, NODES[target]) for source, relation, target in EDGES]
    forward = [Relation(*edge, 1.0, True) for edge in edges]
    back = [Relation(edge.other, edge.relation, edge.node, 1.0, False) for edge in forward]
    return [edge for edge in (*forward, *back) if edge.node in nodes]


def asked(question):
    named = {name: [number] for name, number in NODES.items() if name in question.lower()}
    found = answering_nodes(question, named, relations)
    return {name: found[number] for name, number in NODES.items() if number in found}


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize(("question", "answer"), [
    ("Who maintains Heron?", "emil"), ("maintainer of Heron", "emil"), ("What does Emil maintain?", "heron"),
    ("Wer betreut Heron?", "emil"), ("Who takes care of Heron?", "emil"), ("Who built Heron?", "ada"),
    ("What was built by Ada?", "heron"), ("Wer hat Heron gebaut?", "ada"), ("Who calls Heron?", "gulls"),
    ("Who reports to Emil?", "stork"), ("Who does Emil report to?", "ada"), ("An wen berichtet Emil?", "ada"),
    ("Where does Ada live?", "oslo"), ("Wo wohnt Ada?", "oslo"), ("Wovon hängt Gulls ab?", "stork"),
    ("Was hängt von Stork ab?", "gulls"), ("Where does the person live who built Heron?", "oslo"),
    ("Who does the maintainer of Heron report to?", "ada"), ("Wer betreut das, wovon Gulls abhängt?", "ada"),
])  # fmt: skip
def test_the_other_end_of_the_relation_answers(question, answer):
    found = asked(question)
    assert max(found, key=found.__getitem__) == answer
    assert all(share < found[answer] for name, share in found.items() if name != answer)


@pytest.mark.spec("S4.3")
def test_other_directions_and_first_steps_count_less():
    found = asked("Who reports to Emil?")
    assert found == pytest.approx({"stork": 1.0, "ada": OTHER_WAY})
    assert asked("Where does the person live who built Heron?") == pytest.approx({"ada": ON_THE_WAY, "oslo": 1.0})


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize("question", [
    "Which payment provider does Heron use?", "How do I call Heron?", "Did Emil report anything about Heron?",
    "When was Heron built?", "Who maintains the server?", "Does Emil maintain Heron?",
    "What did the calls of last Monday say about costs and dates of Heron?", "",
])  # fmt: skip
def test_other_questions_ask_for_no_relation(question):
    assert asked(question) == {}


LISTS = {
    "semantic": [Hit(1, 0.9), Hit(2, 0.5), Hit(3, 0.4)],
    "keyword": [Hit(1, 7.0), Hit(3, 2.0), Hit(2, 1.0)],
    "graph": [Hit(2, 1.0), Hit(3, 0.9), Hit(4, 0.8)],
}
WEIGHTS = {"semantic": 0.3, "keyword": 0.2, "graph": 0.5}


def exact(fusion):
    return all(
        math.fsum(line.value for line in fusion.contributions(id)) == score for id, score in fusion.scores.items()
    )


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize("fuse", [rrf, weighted])
def test_what_is_asked_for_comes_first_by_a_line_of_its_own(fuse):
    plain = fuse(LISTS, WEIGHTS)
    found = with_answers(plain, {4: 1.0, 3: 0.1})
    assert found.ids[0] == 4
    line = found.contributions(4)[-1]
    assert (line.source, line.rank, line.raw, line.scaled) == (RELATION, 1, 1.0, pytest.approx(1.0))
    assert line.value == pytest.approx(ANSWER_SHARE * plain.hits.scores[0])
    assert exact(found)
    assert with_answers(plain, {}) is plain


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize("fuse", [rrf, weighted])
def test_links_lift_no_item_above_the_best_by_text(fuse):
    plain = fuse(LISTS, WEIGHTS)
    found = held_back(plain, {2, 3, 4})
    assert found.ids[0] == 1
    assert exact(found)
    assert [id for id in found.ids if id != 1] == [id for id in plain.ids if id != 1]
    assert held_back(plain, set()) is plain
    assert held_back(plain, {1}) is plain


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize("fuse", [rrf, weighted])
def test_what_is_connected_with_the_best_hits_does_not_pass_the_best_by_text(fuse):
    lifted = {
        "semantic": LISTS["semantic"],
        "keyword": LISTS["keyword"],
        "walk": [Hit(2, 1.0), Hit(3, 0.9)],
        "shared": [Hit(3, 1.0)],
    }
    plain = fuse(lifted, {"semantic": 0.3, "keyword": 0.2, "walk": 0.5, "shared": 0.3})
    assert plain.ids[0] != 1
    found = held_back(plain, ())
    assert found.ids == [1, *(id for id in plain.ids if id != 1)]
    assert found.scores[found.ids[1]] == pytest.approx(found.scores[1])
    assert exact(found)


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize("fuse", [rrf, weighted])
def test_what_is_named_passes_the_best_by_text_only_if_it_covers_much_of_the_query(fuse):
    plain = fuse(LISTS, WEIGHTS)
    first = plain.ids[0]
    assert first != 1
    share = NAMED_COVERAGE * 0.9
    assert held_back(plain, (), {first: 1.0}, {1: 0.9, first: share}) is plain
    assert held_back(plain, (), {first: 1.0}) is plain, "nothing is known of the words"
    found = held_back(plain, (), dict.fromkeys(plain.ids, 1.0), {1: 0.9, first: share / 2})
    assert found.ids[0] == 1
    assert exact(found)


@pytest.mark.spec("S4.3")
@pytest.mark.parametrize("fusion", RECENCY_STRENGTHS)
def test_the_age_of_the_best_by_text_does_not_let_pass_what_is_held_back(fusion):
    old = datetime(2020, 1, 1, tzinfo=UTC)
    recency = Recency(DECAY, floor=0.3, strength=RECENCY_STRENGTHS[fusion])
    assert HELD_SHARES[fusion] < recency_factor(recency, old, datetime.now(UTC))


@pytest.mark.spec("S4.3")
def test_without_text_links_are_not_held_back():
    plain = weighted({"graph": LISTS["graph"]}, {"graph": 1.0})
    assert held_back(plain, {2, 3, 4}) is plain
