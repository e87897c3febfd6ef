"""The paired bootstrap, in cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.errors import InvalidQuery
from fourfold.evaluation.metrics import compared, interval

pytestmark = pytest.mark.spec("S5.7")


def test_the_same_difference_everywhere_has_no_spread() -> None:
    assert interval([0.25] * 7) == (0.25, 0.25)


def test_two_questions_can_be_drawn_in_four_ways() -> None:
    """The means are 0, 0.5, 0.5 and 1, a quarter each, so the interval reaches from 0 to 1."""
    assert interval([0.0, 1.0]) == (0.0, 1.0)


def test_one_of_a_hundred_is_missing_from_a_third_of_the_samples() -> None:
    """It is drawn Poisson(1) times: never at the 2.5 % quantile, three times at 97.5 %."""
    assert interval([1.0] + [0.0] * 99) == pytest.approx((0.0, 0.03))


def test_many_questions_are_near_the_normal_interval() -> None:
    values = np.random.default_rng(1).normal(0.02, 0.2, 2000)
    half = 1.96 * values.std() / np.sqrt(len(values))
    low, high = interval(list(values))
    assert low == pytest.approx(values.mean() - half, abs=half * 0.05)
    assert high == pytest.approx(values.mean() + half, abs=half * 0.05)


def test_questions_are_paired_by_name_not_by_order() -> None:
    old = {str(number): number / 100 for number in range(50)}
    new = {name: value + 0.01 for name, value in reversed(old.items())}
    found = compared(old, new)
    assert found.difference == pytest.approx(0.01)
    assert found.low == pytest.approx(found.high)
    assert found.gain
    assert not found.loss
    assert compared(new, old).loss


def test_a_difference_that_may_be_chance_is_neither_gain_nor_loss() -> None:
    old = {str(number): float(number % 2) for number in range(40)}
    new = {str(number): float((number + 1) % 2) for number in range(40)}
    found = compared(old, new)
    assert (found.loss, found.gain) == (False, False)


def test_the_bootstrap_is_deterministic() -> None:
    values = list(np.random.default_rng(2).normal(size=100))
    assert interval(values) == interval(values)


def test_runs_over_different_questions_are_refused() -> None:
    with pytest.raises(InvalidQuery, match="differ in 2 questions, such as 'a'"):
        compared({"a": 1.0, "b": 1.0}, {"b": 1.0, "c": 1.0})
    with pytest.raises(InvalidQuery, match="nothing"):
        compared({}, {})
