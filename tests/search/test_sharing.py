"""Scores from tags that items share with the best hits."""

import math

import pytest

from fourfold.limits import CANDIDATES, HUB
from fourfold.model import Hit
from fourfold.search.sharing import rarity, sharing, telling

pytestmark = pytest.mark.spec("S5.2")


def test_a_tag_passes_on_the_strength_of_the_best_start_beside_an_item():
    carried = [(1, "red", 3), (2, "red", 3), (9, "red", 3)]
    found = dict(sharing({1: 0.8, 2: 0.5}, carried))
    red = 1 / (1 + math.log(3))
    assert found == pytest.approx({1: 0.5 * red, 2: 0.8 * red, 9: 0.8 * red})


def test_tags_add_up_and_rare_ones_say_more():
    carried = [(1, "red", 2), (1, "wide", 50), (7, "red", 2), (7, "wide", 50), (8, "wide", 50)]
    found = dict(sharing({1: 1.0}, carried))
    assert found == pytest.approx({7: rarity(2) + rarity(50), 8: rarity(50)})
    assert rarity(2) > rarity(50) > 0


def test_what_only_one_hit_carries_leads_nowhere():
    assert sharing({1: 1.0}, [(1, "red", 1), (8, "blue", 4), (9, "blue", 4)]) == ()
    assert sharing({}, [(1, "red", 2), (2, "red", 2)]) == ()


def test_the_best_first_ties_by_id_and_no_more_than_asked_for():
    carried = [(item, "red", 9) for item in (1, 9, 4, 3)] + [(1, "blue", 2), (5, "blue", 2)]
    assert [hit.id for hit in sharing({1: 1.0}, carried, 3)] == [5, 3, 4]
    assert sharing({1: 1.0}, carried, 1) == (Hit(5, pytest.approx(rarity(2))),)


def test_telling_tags_are_those_that_few_items_carry_but_more_than_one():
    assert telling({"own": 1, "most": HUB, "pair": 2, "a": 2}) == ["a", "pair", "most"]
    assert telling({"hub": HUB + 1}) == []


def test_what_a_search_follows_is_bounded():
    wide = {f"tag {number:02}": HUB for number in range(20)}
    assert telling({**wide, "rare": 3}) == ["rare", *sorted(wide)[: CANDIDATES // HUB - 1]]
