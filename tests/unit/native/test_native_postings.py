"""Postings and rows score as the terms that they were made from do: the same numbers, bit by bit."""

from __future__ import annotations

import gc
from ctypes import byref, c_int, c_int64, c_void_p
from dataclasses import replace
from itertools import pairwise
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.index import text_index
from fourfold.index.rows import Documents, append
from fourfold.index.text_index import Span
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
def test_the_best_words_are_those_of_a_scan(
    published: Any, tail: Any, words: Any, limit: int, pieces: int, data: Any
) -> None:
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
    assert made.postings is not None
    (block,) = made.postings.blocks
    assert block.counts.tolist() == [1, 254, 255, 255, 255]
    asking = scorer(made, Documents.empty(), [[(7, 1.0)]])
    assert same(asking.best_words(None, NOWHERE, 9), asking.best(made.live, NOWHERE, 9))


@given(texts, st.integers(1, 4), hashes)
def test_frequencies_and_rows_are_those_of_the_terms(rows: Any, pieces: int, hashed: int) -> None:
    made = documents(rows, pieces=pieces)
    expected = [number for number, row in enumerate(rows) if hashed in row]
    assert made.postings is not None
    assert made.postings.frequencies([hashed, 4]) == [len(expected), 0]
    assert made.postings.rows_with(hashed).tolist() == expected


def test_terms_are_found_among_many() -> None:
    random = np.random.default_rng(5)
    terms = np.unique(random.integers(0, 2**32, 20_000, np.uint32))
    made = documents([terms.tolist()])
    absent = [int(hashed) for hashed in random.integers(0, 2**32, 2000) if hashed not in set(terms.tolist())]
    assert made.postings is not None
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
