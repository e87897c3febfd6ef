"""Fusion and expansion in the kernel against the same arithmetic in Python."""

from __future__ import annotations

import copy
import ctypes
import math
import pickle
from bisect import bisect_left, bisect_right
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import fused

from fourfold.index.link_state import LinkRows, LinkState
from fourfold.limits import CANDIDATES
from fourfold.native import bindings
from fourfold.native.rankings import FusionList, common, in_kernel, missing, ranges, values_and_best
from fourfold.ranking.connections import INSTEAD_OF_NAMES, walk_starts
from fourfold.ranking.fusion import TEXTS, Expanded, Expansion, fuse_scaled, grid_of, mean_of
from fourfold.ranking.retrievers import EXPANSIONS, RETRIEVERS
from fourfold.retrieval import Background, Hits

# ---------------------------------------------------------------- fusion


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
def test_values_of_later_columns_have_precedence_and_the_two_highest_are_found(tables, wanted):
    found = values_and_best(np.array(wanted, np.int64), tables)
    for (numbers, *best), table in zip(found, tables, strict=True):
        assert best == sorted([0.0, 0.0, *(score for column in table for _, score in column)])[:-3:-1]
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


# ---------------------------------------------------------------- expansion


ITEMS, NODES, TAGS = 30, 12, 6
ITEM, NODE, TAG = (st.integers(1, count) for count in (ITEMS, NODES, TAGS))
SOME_IDS = st.lists(st.integers(1, ITEMS + 4), max_size=25, unique=True)


def pairs(first: Any, second: Any) -> Any:
    return st.lists(st.tuples(first, second), max_size=40, unique=True).map(
        lambda found: np.array(found, np.int64).reshape(-1, 2).T.copy()
    )


@st.composite
def links(draw: st.DrawFn) -> LinkState:
    owned, mentions, edges = draw(pairs(NODE, ITEM)), draw(pairs(NODE, ITEM)), draw(pairs(NODE, NODE))
    tagged = draw(pairs(TAG.map(lambda tag: tag - 1), ITEM))
    numbers = range(1, NODES + 1)
    counts = [[np.count_nonzero(column == node) for node in numbers] for column in (owned[0], mentions[0])]
    degrees = [np.count_nonzero(edges == node) for node in numbers]
    return LinkState(
        LinkRows(
            items=np.arange(1, ITEMS + 1),
            nodes=np.arange(1, NODES + 1),
            counts=np.array([*counts, degrees], np.int64),
            names=np.empty((2, 0), np.int64),
            owned=owned,
            mentions=mentions,
            edges=edges,
            weights=np.array(draw(st.lists(st.floats(0.1, 2.0), min_size=edges.shape[1], max_size=edges.shape[1]))),
            tags=[f"tag-{number}" for number in range(TAGS)],
            tag_ids=range(TAGS),
            tagged=tagged,
        )
    )


@st.composite
def some_hits(draw: st.DrawFn) -> Hits:
    ids = draw(SOME_IDS)
    scores = draw(st.lists(st.floats(0.0, 1.0) | st.just(0.5), min_size=len(ids), max_size=len(ids)))
    return Hits(np.array(ids, np.int64), np.array(sorted(scores, reverse=True), np.float64))


@st.composite
def expansions(draw: st.DrawFn) -> Expansion:
    texts = {name: draw(some_hits()) for name in draw(st.lists(st.sampled_from(TEXTS), unique=True))}
    weights = {name: draw(st.floats(0.01, 1.0)) for name, found in texts.items() if len(found) and draw(st.booleans())}
    named = dict(draw(st.lists(st.tuples(ITEM, st.floats(0.1, 1.0)), max_size=6)))
    others = [np.array(ids, np.int64) for ids in draw(st.lists(SOME_IDS, max_size=2))]
    wanted = draw(st.sampled_from([{"walk"}, {"shared"}, {"walk", "shared"}]))
    average = draw(st.none() | st.floats(-0.5, 0.9).map(Background))
    mentions = draw(st.sampled_from([1.0, INSTEAD_OF_NAMES]))
    return Expansion(
        texts, weights, mean_of(average), grid_of(weights), named, mentions, others, frozenset(wanted), CANDIDATES
    )


def step_by_step(state: LinkState, asked: Expansion, allowed: Any) -> Expanded:
    fused = fuse_scaled(asked.texts, {}, asked.weights, Background(asked.average), asked.weights)
    starts = walk_starts(fused, asked.named)
    steps = {"walk": partial(state.walk, mentions=asked.mentions), "shared": state.shared}
    found = {name: steps[name](starts, allowed, CANDIDATES) for name in sorted(asked.wanted)[::-1]} if starts else {}
    every = (
        [some_hits.ids for some_hits in asked.texts.values()]
        + [*asked.others]
        + [some_hits.ids for some_hits in found.values()]
    )
    listed = np.concatenate([np.empty(0, np.int64), *every])
    return Expanded(found, {name: missing(listed, some_hits.ids) for name, some_hits in asked.texts.items()}, {})


@given(links(), expansions(), st.none() | st.sets(ITEM).map(lambda ids: np.array(sorted(ids), np.int64)))
@settings(deadline=None)
def test_expansion_in_the_kernel_gives_what_its_steps_give(state: LinkState, asked: Expansion, allowed: Any) -> None:
    found, expected = state.expand(asked, allowed, {}), step_by_step(state, asked, allowed)
    assert {name: list(some_hits) for name, some_hits in found.lists.items()} == {
        name: list(some_hits) for name, some_hits in expected.lists.items()
    }
    for name, ids in expected.unlisted.items():
        assert sorted(found.unlisted[name].tolist()) == sorted(ids.tolist())
