"""Recency: the scores of old items are lowered, down to a floor."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.errors import InvalidSetting
from fourfold.ranking.factors import RECENCY_STRENGTHS, check_recency, recency_factor
from fourfold.ranking.fusion import columns, with_factors
from fourfold.retrieval import Hit, Recency

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def factor(days: float, recency: Recency | None = None, tags: tuple[str, ...] = ()) -> float:
    return recency_factor(recency or Recency(0.01), NOW - timedelta(days=days), NOW, tags)


@pytest.mark.spec("S5.5")
@pytest.mark.parametrize(
    ("days", "expected"),
    [(0, 1.0), (0.5, math.exp(-0.005)), (70, 0.4965853), (100, 0.3678794), (120.3, 0.3003), (121, 0.3), (10**5, 0.3)],
)
def test_the_factor_decays_by_fractional_days_down_to_the_floor(days, expected):
    assert factor(days) == pytest.approx(expected, abs=1e-4)


@pytest.mark.spec("S5.5")
def test_floor_zero_gives_unbounded_decay():
    assert factor(700, Recency(0.01, floor=0.0)) == pytest.approx(math.exp(-7))


@pytest.mark.spec("C1")
@pytest.mark.parametrize(("days", "expected"), [(0, 1.0), (30, 0.948), (70, 0.899), (10**5, 0.86)])
def test_strength_is_the_share_of_the_score_affected_by_age(days, expected):
    assert factor(days, Recency(0.01, strength=0.2)) == pytest.approx(expected, abs=1e-3)


@pytest.mark.spec("C1")
def test_in_rrf_recency_does_not_move_the_oldest_answer_by_one_rank():
    assert factor(10**5, Recency(0.01, strength=RECENCY_STRENGTHS["rrf"])) / 61 > 1 / 62


@pytest.mark.spec("S5.5")
def test_the_factor_is_one_if_disabled_or_evergreen_or_in_the_future():
    assert factor(1000, Recency(0.0)) == 1.0
    assert recency_factor(None, NOW - timedelta(days=1000), NOW) == 1.0
    assert factor(1000, tags=("infra", "Evergreen")) == 1.0
    assert factor(1000, tags=("evergreens",)) == 0.3
    assert factor(-10) == 1.0


@pytest.mark.spec("S5.5")
@given(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 10), st.floats(0, 1), st.floats(0, 1))
def test_the_factor_falls_with_age_between_one_and_the_floor(first, second, decay, floor, strength):
    recency = Recency(decay, floor, strength)
    newer, older = factor(min(first, second), recency), factor(max(first, second), recency)
    assert min(floor, 1 - strength * (1 - floor)) <= older <= newer <= 1


@pytest.mark.spec("S5.5")
def test_recency_reorders_the_ranking_with_ties_by_id():
    ranked = columns([Hit(9, 1.0), Hit(2, 0.5), Hit(1, 0.5), Hit(4, 0.4)])
    assert with_factors(ranked, {9: 0.3, 4: 1.0}) == [Hit(1, 0.5), Hit(2, 0.5), Hit(4, 0.4), Hit(9, 0.3)]
    assert with_factors(columns([]), {}) == []


@pytest.mark.spec("S5.5")
@pytest.mark.parametrize(
    "recency",
    [Recency(-0.01), Recency(math.nan), Recency(0.01, 1.1), Recency(0.01, -0.1), Recency(0.01, 0.3, 2)],
)
def test_invalid_recency_settings_are_rejected(recency):
    with pytest.raises(InvalidSetting):
        check_recency(recency)
