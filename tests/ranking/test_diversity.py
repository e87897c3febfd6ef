"""Limit on the results from one file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.engine.present import at_most_per_source, check_per_source
from fourfold.errors import InvalidQuery

PATHS = {1: "a", 2: "a", 3: "b", 4: "a", 5: None, 6: None, 7: None, 8: "b", 9: "b"}


def kept(per_source: int | None) -> list[int]:
    return list(at_most_per_source(PATHS, PATHS.__getitem__, per_source))


@pytest.mark.spec("B12")
def test_results_beyond_the_limit_of_a_file_are_skipped():
    assert kept(2) == [1, 2, 3, 5, 6, 7, 8]
    assert kept(1) == [1, 3, 5, 6, 7]
    assert kept(None) == list(PATHS)


@pytest.mark.spec("B12")
@given(st.lists(st.tuples(st.integers(), st.none() | st.sampled_from("abc"))), st.integers(1, 4), st.integers(0, 20))
def test_results_for_fewer_candidates_are_a_prefix(results, per_source, n):
    def path(result: tuple[int, str | None]) -> str | None:
        return result[1]

    whole = list(at_most_per_source(results, path, per_source))
    part = list(at_most_per_source(results[:n], path, per_source))
    assert whole[: len(part)] == part


@pytest.mark.spec("B12")
@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_a_limit_below_one_is_rejected(wrong):
    with pytest.raises(InvalidQuery, match="per_source"):
        check_per_source(wrong)
    assert check_per_source(3) == 3
