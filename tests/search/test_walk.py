"""Scores from relations: what a link passes on, and where a walk starts."""

import math

import pytest

from fourfold.limits import EXPAND_SEEDS
from fourfold.model import Hit
from fourfold.search.fusion import weighted
from fourfold.search.walk import BEST_HIT, NEARNESS, Link, linked, longest, named, related, seeds

pytestmark = pytest.mark.spec("S4.2")


def texts(*scores: float):
    """A ranking by text, with these scores for the items 1, 2, ...; the last one is 0, as it is the worst."""
    return weighted({"keyword": [Hit(id, score) for id, score in enumerate(scores, 1)]}, {"keyword": 0.8})


@pytest.mark.parametrize(
    ("kind", "passed"),
    [("own", 0.5), ("edge", 0.5 * 0.8), ("mentions", 0.25), ("mentioned-by", 0.25 * 0.5), ("names", 0.25 * 0.1)],
)
def test_a_said_link_passes_the_strength_on_and_a_mention_its_square(kind, passed):
    assert linked({1: 0.5}, [Link(1, 7, kind, 1.0, 1)]) == (Hit(7, pytest.approx(passed)),)


def test_weight_and_the_number_of_ways_count_and_what_reaches_an_item_adds_up():
    links = [Link(1, 7, "edge", 0.5, 1), Link(2, 7, "edge", 1.0, 6), Link(1, 8, "own", 1.0, 2)]
    found = dict(linked({1: 1.0, 2: 0.5}, links))
    assert found == pytest.approx({7: 0.8 * (0.5 + 0.5 / (1 + math.log(6))), 8: 1 / (1 + math.log(2))})


def test_the_best_first_ties_by_id_and_no_more_than_asked_for():
    links = [Link(1, id, "own", 1.0, degree) for id, degree in ((9, 2), (4, 3), (3, 2), (5, 1))]
    assert [hit.id for hit in linked({1: 1.0}, links, 3)] == [5, 3, 9]


@pytest.mark.spec("C2")
def test_related_is_what_the_query_names_and_what_a_stored_relation_joins_to_it():
    """Whatever the number of relations; a mention is no stored relation."""
    links = [
        Link(1, 7, "own", 1.0, 9),
        Link(1, 8, "edge", 0.5, 90),
        Link(2, 8, "edge", 2.0, 1),
        Link(1, 9, "names", 1, 1),
    ]
    assert related({1: 1.0, 2: 0.25}, links) == pytest.approx({7: 1.0, 8: 0.8 * 0.5})


def test_named_are_the_own_items_of_what_the_query_names():
    links = [Link(1, 7, "own", 1.0, 1), Link(2, 7, "own", 1.0, 1), Link(2, 8, "own", 1.0, 2), Link(1, 9, "edge", 1, 1)]
    assert named({1: 0.25, 2: 1.0}, links) == pytest.approx({7: 1.0, 8: 1 / (1 + math.log(2))})


def test_a_walk_starts_at_the_best_by_text_whose_strength_falls_faster_than_their_score():
    assert seeds(texts(5.0, 3.0, 1.0), {}) == pytest.approx({1: BEST_HIT, 2: BEST_HIT / 4})


def test_a_walk_starts_at_what_the_query_names_whether_text_finds_it_or_not():
    starts = seeds(texts(5.0, 3.0, 1.0), {2: 1.0, 1: 0.1, 99: 0.25})
    assert starts == pytest.approx({1: BEST_HIT, 2: 1.0, 99: 0.25})
    assert seeds(texts(), {99: 0.25}) == {99: 0.25}
    assert seeds(texts(), {}) == {}


def test_a_walk_starts_at_a_few_good_ones():
    starts = seeds(texts(*range(30, 0, -1)), {})
    assert set(starts) == set(range(1, EXPAND_SEEDS + 1))
    assert set(seeds(texts(9.0, 5.0, 2.0, 1.0), {})) == {1, 2}


def test_no_link_passes_more_than_the_thing_itself():
    assert max(NEARNESS.values()) == NEARNESS["own"] == 1.0


def test_the_longest_name_is_meant():
    assert longest(["york", "new york city", "yorkshire", "city"]) == ["new york city", "yorkshire"]
