"""Scores from links in the graph, and the starts of a walk."""

import math

import pytest

from fourfold.limits import WALK_STARTS
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
    related_items,
    unless_asked,
    walk_starts,
)
from fourfold.ranking.fusion import weighted
from fourfold.retrieval import Hit, Link

pytestmark = pytest.mark.spec("S4.2")


def texts(*scores: float):
    """A ranking by text, with these scores for the items 1, 2, ...; the last one is 0, as it is the worst."""
    return weighted({"keyword": [Hit(id, score) for id, score in enumerate(scores, 1)]}, {"keyword": 0.8})


@pytest.mark.parametrize(
    ("kind", "passed"),
    [("own", 0.5), ("edge", 0.5**1.5 * 0.8), ("mentions", 0.25), ("mentioned-by", 0.25 * 0.5), ("names", 0.25 * 0.1)],
)
def test_an_edge_passes_less_than_the_strength_and_a_mention_its_square(kind, passed):
    assert rank_by_links({1: 0.5}, [Link(1, 7, kind, 1.0, 1)]) == (Hit(7, pytest.approx(passed)),)


def test_links_are_weighted_and_damped_and_add_up():
    links = [Link(1, 7, "edge", 0.5, 1), Link(2, 7, "edge", 1.0, 6), Link(1, 8, "own", 1.0, 2)]
    found = dict(rank_by_links({1: 1.0, 2: 0.5}, links))
    assert found == pytest.approx({7: 0.8 * (0.5 + 0.5**1.5 / (1 + math.log(6))), 8: 1 / (1 + math.log(2))})


def test_the_ranking_is_sorted_with_ties_by_id_and_limited():
    links = [Link(1, id, "own", 1.0, degree) for id, degree in ((9, 2), (4, 3), (3, 2), (5, 1))]
    assert [hit.id for hit in rank_by_links({1: 1.0}, links, 3)] == [5, 3, 9]


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


def test_edges_that_are_not_asked_for_count_less():
    links = [Link(1, 7, "edge", 0.5, 1), Link(1, 8, "edge", 1.0, 1), Link(1, 9, "own", 1.0, 1)]
    assert [link.weight for link in unless_asked(links, {8})] == pytest.approx([0.5 * UNASKED, 1.0, 1.0])


def test_only_items_that_nothing_else_leads_to_are_only_linked():
    kinds = {7: ("edge",), 8: ("edge", "names"), 9: ("own", "edge"), 6: ("names",)}
    assert only_linked([Link(1, item, kind, 1.0, 1) for item, of in kinds.items() for kind in of]) == {7}


def test_items_of_asked_nodes_answer_and_mentions_only_for_nodes_without_items():
    links = [
        Link(1, 7, "own", 1.0, 1),
        Link(1, 8, "names", 1.0, 1),
        Link(2, 9, "names", 1.0, 1),
        Link(1, 6, "own", 1.0, 1),
    ]
    assert answering_items({1: 0.5, 2: 0.25}, links, {6}) == pytest.approx({7: 1.0, 9: 0.5 * MENTIONING})
    assert answering_items({}, [], {}) == {}


def test_named_items_belong_to_what_the_query_names():
    links = [Link(1, 7, "own", 1.0, 1), Link(2, 7, "own", 1.0, 1), Link(2, 8, "own", 1.0, 2), Link(1, 9, "edge", 1, 1)]
    assert named_items({1: 0.25, 2: 1.0}, links) == pytest.approx({7: 1.0, 8: 1 / (1 + math.log(2))})


def test_the_strength_of_a_start_falls_with_the_square_of_its_score():
    assert walk_starts(texts(5.0, 3.0, 1.0), {}) == pytest.approx({1: BEST_HIT, 2: BEST_HIT / 4})


def test_a_walk_starts_at_what_the_query_names():
    starts = walk_starts(texts(5.0, 3.0, 1.0), {2: 1.0, 1: 0.1, 99: 0.25})
    assert starts == pytest.approx({1: BEST_HIT, 2: 1.0, 99: 0.25})
    assert walk_starts(texts(), {99: 0.25}) == {99: 0.25}
    assert walk_starts(texts(), {}) == {}


def test_mentions_count_more_for_a_question_that_names_nothing():
    assert mention_factor({}, asks=True) == mention_factor({7: PERHAPS}, asks=True) == INSTEAD_OF_NAMES
    assert mention_factor({7: 1.0}, asks=True) == mention_factor({}, asks=False) == 1.0
    links = [Link(1, 7, "mentions", 1.0, 1), Link(1, 8, "mentioned-by", 1.0, 1), Link(1, 9, "edge", 1.0, 1)]
    plain, more = (dict(rank_by_links({1: 0.3}, links, mentions=factor)) for factor in (1.0, 4.0))
    assert more == pytest.approx({7: 4 * plain[7], 8: 4 * plain[8], 9: plain[9]})


def test_a_walk_starts_at_a_limited_number_of_good_hits():
    starts = walk_starts(texts(*range(30, 0, -1)), {})
    assert set(starts) == set(range(1, WALK_STARTS + 1))
    assert set(walk_starts(texts(9.0, 5.0, 2.0, 1.0), {})) == {1, 2}


def test_no_link_passes_more_than_the_full_strength():
    assert max(NEARNESS.values()) == NEARNESS["own"] == 1.0


def test_names_inside_longer_names_are_dropped():
    known = {"york": [1], "new york city": [2, 3], "yorkshire": [4], "city": [2]}
    assert longest_named(known, [*known, "unknown new york city"]) == {2, 3, 4}
    assert longest_named(known, ["york", "city"]) == {1, 2}
