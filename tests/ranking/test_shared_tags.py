"""Scores from tags shared with the best hits."""

import math

import pytest

from fourfold.limits import CANDIDATES, HUB
from fourfold.ranking.connections import rank_by_shared_tags, rarity, selective_tags
from fourfold.retrieval import Hit

pytestmark = pytest.mark.spec("S5.2")


def test_a_tag_passes_on_the_strength_of_the_best_other_start():
    carried = [(1, "red", 3), (2, "red", 3), (9, "red", 3)]
    found = dict(rank_by_shared_tags({1: 0.8, 2: 0.5}, carried))
    red = 1 / (1 + math.log(3))
    assert found == pytest.approx({1: 0.5 * red, 2: 0.8 * red, 9: 0.8 * red})


def test_scores_of_tags_add_up_and_rare_tags_count_more():
    carried = [(1, "red", 2), (1, "wide", 50), (7, "red", 2), (7, "wide", 50), (8, "wide", 50)]
    found = dict(rank_by_shared_tags({1: 1.0}, carried))
    assert found == pytest.approx({7: rarity(2) + rarity(50), 8: rarity(50)})
    assert rarity(2) > rarity(50) > 0


def test_a_tag_of_one_item_only_finds_nothing():
    assert rank_by_shared_tags({1: 1.0}, [(1, "red", 1), (8, "blue", 4), (9, "blue", 4)]) == ()
    assert rank_by_shared_tags({}, [(1, "red", 2), (2, "red", 2)]) == ()


def test_the_ranking_is_sorted_with_ties_by_id_and_limited():
    carried = [(item, "red", 9) for item in (1, 9, 4, 3)] + [(1, "blue", 2), (5, "blue", 2)]
    assert [hit.id for hit in rank_by_shared_tags({1: 1.0}, carried, 3)] == [5, 3, 4]
    assert rank_by_shared_tags({1: 1.0}, carried, 1) == (Hit(5, pytest.approx(rarity(2))),)


def test_selective_tags_are_shared_by_a_few_items():
    assert selective_tags({"own": 1, "most": HUB, "pair": 2, "a": 2}) == ["a", "pair", "most"]
    assert selective_tags({"hub": HUB + 1}) == []


def test_the_number_of_uses_followed_is_limited():
    wide = {f"tag {number:02}": HUB for number in range(20)}
    assert selective_tags({**wide, "rare": 3}) == ["rare", *sorted(wide)[: CANDIDATES // HUB - 1]]
