"""Fusion in the kernel against the same arithmetic in Python."""

from __future__ import annotations

import copy
import ctypes
import math
import pickle
from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import fused

from fourfold.native import bindings
from fourfold.native.rankings import FusionList, common, in_kernel, missing, ranges, values_of
from fourfold.ranking.fusion import fuse_scaled
from fourfold.ranking.retrievers import EXPANSIONS, RETRIEVERS
from fourfold.retrieval import Background, Hits

NAMES = (*RETRIEVERS, *EXPANSIONS.values())
IDS = st.lists(st.integers(0, 60), min_size=1, max_size=40, unique=True)


@st.composite
def hits(draw: st.DrawFn, name: str) -> Hits:
    ids = draw(IDS)
    least = -1.0 if name == "semantic" else draw(st.sampled_from([0.0, 0.001]))
    drawn = draw(st.lists(st.floats(least, 30.0) | st.sampled_from([0.5, 1.0]), min_size=len(ids), max_size=len(ids)))
    scores = [min(score, 1.0) if name == "semantic" else score for score in drawn]
    return Hits(np.array(ids, np.int64), np.array(sorted(scores, reverse=True), np.float64))


@st.composite
def lists(draw: st.DrawFn) -> dict[str, Hits]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    return {name: draw(hits(name)) for name in names}


@given(lists(), st.data(), st.none() | st.floats(-1.5, 1.0).map(Background))
def test_scores_and_contributions_are_those_of_python(given_lists, data, average):
    unlisted = {name: data.draw(hits(name)) for name in given_lists if name in ("semantic", "keyword")}
    weights = {name: data.draw(st.floats(0.001, 1.0)) for name in given_lists}
    found, expected = (fuse(given_lists, unlisted, weights, average, weights) for fuse in (fuse_scaled, fused))
    assert found.ids == expected.ids
    assert found.hits.scores.tolist() == expected.hits.scores.tolist()
    assert found.weights == expected.weights
    for one, other in zip(found.parts, expected.parts, strict=True):
        assert (one.source, one.weight, one.listed) == (other.source, other.weight, other.listed)
        assert one.raw.ids.tolist() == other.raw.ids.tolist()
        assert one.raw.scores.tolist() == other.raw.scores.tolist()
        assert one.values.tolist() == other.values.tolist()
    for item in found.ids:
        assert sum(line.value for line in found.contributions(item)) == found.scores[item]


@given(st.lists(st.integers(-5, 40), max_size=80), st.lists(st.integers(-5, 40), max_size=40))
def test_missing_ids_are_named_once_in_their_order(ids, known):
    expected = list(dict.fromkeys(each for each in ids if each not in known))
    assert missing(np.array(ids, np.int64), np.array(known, np.int64)).tolist() == expected


@given(hits("keyword"), hits("keyword"))
def test_common_ids_are_counted(one, other):
    assert common(one, other) == len({*one.ids.tolist()} & {*other.ids.tolist()})


@given(st.lists(st.lists(hits("keyword"), max_size=3), min_size=1, max_size=3), IDS)
def test_a_later_column_of_a_table_has_precedence(tables, wanted):
    found = values_of(np.array(wanted, np.int64), tables)
    for numbers, table in zip(found, tables, strict=True):
        known = {id: score for column in table for id, score in column}
        assert [None if math.isnan(number) else number for number in numbers] == [known.get(id) for id in wanted]


@given(st.lists(st.integers(-9, 9), max_size=30), st.lists(st.integers(-12, 12), max_size=12))
def test_wanted_numbers_are_found_in_a_sorted_column(numbers, wanted):
    numbers.sort()
    spans = [(index, bisect_left(numbers, each), bisect_right(numbers, each)) for index, each in enumerate(wanted)]
    assert ranges(np.array(numbers, np.int64), wanted) == [span for span in spans if span[1] < span[2]]


def test_copies_of_hits_have_addresses_of_their_own():
    first = Hits(np.array([3, 4]), np.array([0.5, 0.25]))
    before = in_kernel(FusionList(first, None, "best", 1.0))
    for again in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert again == first
        assert in_kernel(FusionList(again, None, "best", 1.0))[0] != before[0]


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="1 scores of 2 ids"):
        common(Hits(np.arange(2), np.ones(1)), Hits(np.arange(1), np.ones(1)))


def test_columns_of_another_type_are_refused():
    with pytest.raises(ctypes.ArgumentError, match="contiguous"):
        missing(np.arange(4, dtype=np.int32), np.arange(4))
    with pytest.raises(ctypes.ArgumentError, match="contiguous"):
        bindings.order(np.arange(8)[::2], np.ones(4))
