"""Postings and rankings in the kernel against the same in Python."""

import copy
import ctypes
import gc
import math
import pickle
from bisect import bisect_left, bisect_right
from ctypes import byref, c_int, c_int64, c_void_p
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import fused

from fourfold.index import text_index
from fourfold.index.link_state import LinkRows, LinkState
from fourfold.index.rows import Documents, append
from fourfold.index.text_index import Span
from fourfold.limits import CANDIDATES
from fourfold.native import bindings
from fourfold.native.bindings import (
    FLOAT64,
    INT64,
    KEEPING_GIL,
    OutOfRange,
    Postings,
    QueryColumns,
    Scorer,
    function,
    invert,
)
from fourfold.native.rankings import FusionList, common, in_kernel, missing, ranges, values_and_best
from fourfold.ranking.connections import INSTEAD_OF_NAMES, walk_starts
from fourfold.ranking.fusion import TEXTS, Expanded, Expansion, fuse_scaled, grid_of, mean_of
from fourfold.ranking.retrievers import EXPANSIONS, RETRIEVERS
from fourfold.retrieval import Background, Hits

NOWHERE = np.empty(0, np.int64)
CONSTANTS = (1.2, 0.75, 50.0)
ALL_HASHES = (0, 2**32 - 1)
_score_posted = function(KEEPING_GIL, "score_posted", c_int, c_void_p, c_void_p, INT64, c_int64, FLOAT64, FLOAT64)

hashes = st.sampled_from([0, 1, 2, 3, 5, 8, 2**31, 2**32 - 1])
texts = st.lists(st.lists(hashes, max_size=12), max_size=40)
variants = st.tuples(hashes, st.sampled_from([0.0, 0.5, 1.0, 2.5]))
queries = st.lists(st.lists(variants, min_size=1, max_size=3), max_size=4)


def documents(rows: list[list[int]], spans: list[Span] | None = None, pieces: int = 1) -> Documents:
    """Rows with postings in one block for each of these spans and pieces of the range of hashes."""
    found = append(
        Documents.empty(), range(len(rows), 0, -1), [*map(len, rows)], [np.array(row, np.uint32) for row in rows]
    )
    bounds = [2**32 * piece // pieces for piece in range(pieces + 1)]
    blocks = [
        invert(found.terms, found.ends, *span, lowest, end - 1)
        for span in spans or [Span(0, len(rows))]
        for lowest, end in pairwise(bounds)
    ]
    return replace(found, postings=Postings(blocks if rows else []))


def scorer(published: Documents, tail: Documents, words: list[list[tuple[int, float]]]) -> Scorer:
    flat = [variant for word in words for variant in word]
    firsts = [0, *np.cumsum([len(word) for word in words]).tolist()]
    same = [next(place for place, (other, _) in enumerate(flat) if other == hashed) for hashed, _ in flat]
    columns = QueryColumns(
        [hashed for hashed, _ in flat], [value for _, value in flat], same, firsts, [1.5] * len(words)
    )
    return Scorer.by_words((published.part, tail.part), columns, 4.0, 6.0, CONSTANTS)


def same(one: Any, other: Any) -> bool:
    return all(map(np.array_equal, one, other))


@given(texts, texts, queries, st.integers(1, 9), st.integers(1, 3), st.data())
def test_the_best_words_are_those_of_a_scan(published, tail, words, limit, pieces, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(published) - 1)), max_size=3)))
    bounds = [0, *(cut for cut in cuts if cut < len(published)), len(published)]
    spans = [Span(first, end) for first, end in pairwise(bounds)]
    made, newer = documents(published, spans, pieces), documents(tail)
    passing = np.array(data.draw(st.lists(st.booleans(), min_size=len(published), max_size=len(published))), np.bool_)
    asking = scorer(made, newer, words)
    expected = asking.best(np.flatnonzero(passing), newer.live, limit)
    assert same(asking.best_words(passing, newer.live, limit), expected)
    assert same(asking.best_words(None, newer.live, limit), asking.best(made.live, newer.live, limit))


@given(texts, queries, st.integers(1, 3), st.randoms())
def test_the_scores_of_rows_are_those_of_their_terms(rows: Any, words: Any, pieces: int, random: Any) -> None:
    made = documents(rows, pieces=pieces)
    asking = scorer(made, Documents.empty(), words)
    wanted = np.array(random.sample(range(len(rows)), random.randint(0, len(rows))), np.int64)
    found = np.empty((2, len(wanted)))
    part = byref(asking.struct.parts[0])
    assert not _score_posted(byref(asking.struct), part, wanted, len(wanted), *found)
    best = asking.best(wanted, NOWHERE, len(wanted))
    expected = dict(zip(best.ids.tolist(), zip(best.scores, best.coverage, strict=True), strict=True))
    for row, score, covered in zip(wanted.tolist(), *found, strict=True):
        assert expected.get(int(made.ids[row]), (0.0, 0.0)) == (score, covered)


@pytest.mark.parametrize("limit", [1, 3, 200])
@pytest.mark.parametrize("distinct", [1, 2, 40])
def test_many_equal_scores_are_cut_by_id(limit: int, distinct: int) -> None:
    """More rows than are kept at a time, in several windows, of which most or all have the same score."""
    rows = [[7] * (1 + number % distinct) for number in range(5000)]
    made = documents(rows)
    asking = scorer(made, Documents.empty(), [[(7, 1.0)]])
    assert same(asking.best_words(None, NOWHERE, limit), asking.best(made.live, NOWHERE, limit))


def test_rows_with_hundreds_of_occurrences_are_counted_exactly() -> None:
    made = documents([[7] * count for count in (1, 254, 255, 256, 1000)])
    (block,) = made.postings.blocks
    assert block.counts.tolist() == [1, 254, 255, 255, 255]
    asking = scorer(made, Documents.empty(), [[(7, 1.0)]])
    assert same(asking.best_words(None, NOWHERE, 9), asking.best(made.live, NOWHERE, 9))


@given(texts, st.integers(1, 4), hashes)
def test_frequencies_and_rows_are_those_of_the_terms(rows: Any, pieces: int, hashed: int) -> None:
    made = documents(rows, pieces=pieces)
    expected = [number for number, row in enumerate(rows) if hashed in row]
    assert made.postings.frequencies([hashed, 4]) == [len(expected), 0]
    assert made.postings.rows_with(hashed).tolist() == expected


def test_terms_are_found_among_many() -> None:
    random = np.random.default_rng(5)
    terms = np.unique(random.integers(0, 2**32, 20_000, np.uint32))
    made = documents([terms.tolist()])
    absent = [int(hashed) for hashed in random.integers(0, 2**32, 2000) if hashed not in set(terms.tolist())]
    assert made.postings.frequencies(terms.tolist()) == [1] * len(terms)
    assert made.postings.frequencies(absent) == [0] * len(absent)


@pytest.mark.parametrize("ends", [[3, 2], [2, 9], [-1, 2]])
def test_rows_that_end_outside_the_terms_are_not_inverted(ends: list[int]) -> None:
    with pytest.raises(OutOfRange):
        invert(np.arange(4, dtype=np.uint32), np.array(ends, np.int64), 0, 2, *ALL_HASHES)


def test_files_are_merged_where_that_is_cheap() -> None:
    spans: list[Span] = []
    written = 0
    for end in range(1000, 101_000, 1000):
        kept, fresh = text_index.continued_spans(spans, end)
        spans = [*kept, fresh]
        written += fresh.end_row - fresh.first_row
        assert [span.first_row for span in spans] == [0, *(span.end_row for span in spans[:-1])]
        assert len(spans) <= 7
    assert written < 7 * 100_000


# ---------------------------------------------------------------- lifetime


def test_a_scorer_keeps_the_columns_of_an_index_that_was_replaced() -> None:
    documents = append(Documents.empty(), [7], [3], [np.array([1, 2, 3], np.uint32)])
    words = QueryColumns([1], [1.0], [0], [0, 1], [1.0])
    scorer = Scorer.by_words((documents.part, Documents.empty().part), words, 1.0, 3.0, (1.2, 0.75, 50.0))
    columns = [ref(documents.ids), ref(documents.terms), ref(documents.ends)]
    del documents
    gc.collect()
    assert all(column() is not None for column in columns)
    found = scorer.best(np.array([0]), np.empty(0, np.int64), 1)
    assert found.ids.tolist() == [7]


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
