"""Fusion of all lists in one call (`fusion.c`), and what is found from the best hits of some (`expansion.c`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import Structure, addressof, byref, c_double, c_int64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from fourfold.native import (
    KEEPING_GIL,
    LIBRARY,
    QueryColumns,
    RowColumns,
    TextColumns,
    VectorColumns,
    addresses,
    as_in_kernel,
    failure,
    function,
)

if TYPE_CHECKING:
    from fourfold.native import Floats, Ints, Matrix
    from fourfold.native.links import LinkColumns, TailedColumns

SCALES: Final = {"cosine": 0, "absolute": 1, "best": 2}

_P, _N, _D = c_void_p, c_int64, c_double
_fuse = function(LIBRARY, "fuse", c_int64, _P, _N, _D, _D, _D, _P, _P, _P, _P, _P)
_missing = function(KEEPING_GIL, "missing", c_int64, _P, _N, _P, _N, _P)
_INT64, _FLOAT64, _FLOAT32 = map(np.dtype, (np.int64, np.float64, np.float32))


class FusionList(NamedTuple):
    """The hits that a retriever listed, best first, and its scores of other items."""

    ids: Ints
    scores: Floats
    more_ids: Ints | None
    more_scores: Floats | None
    scale: str
    """A key of SCALES."""
    weight: float


@dataclass(frozen=True, slots=True)
class Fused:
    ids: Ints
    scores: Floats
    parts: list[tuple[int, Ints, Floats, Floats]]
    """For each list: how many of its hits were listed, ids, raw scores and the values that it adds."""


@as_in_kernel(0)
class List(Structure):
    """`List` of rankings.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("ids", "more_ids", "scores", "more_scores")),
        *((name, c_int64) for name in ("count", "more_count", "scale")),
        ("weight", c_double),
        ("length", c_int64),
        ("listed", c_int64),
    )


def fuse(lists: Sequence[FusionList], average: float, below_share: float, grid: float) -> Fused:
    """Add up what the lists say of each item. `average`: cosine of the store; below -1 if unknown."""
    given: Any = (List * len(lists))(*[in_kernel(each) for each in lists])
    room = sum([len(one.ids) + (0 if one.more_ids is None else len(one.more_ids)) for one in lists])
    numbers, floats = np.empty((2, room), np.int64), np.empty((3, room))
    start, column = cast("tuple[int, int]", tuple(addresses((numbers, _INT64), (floats, _FLOAT64))))
    step = room * floats.itemsize
    found = _fuse(
        given, len(lists), average, below_share, grid, start, column, column + step, start + step, column + 2 * step
    )
    if found < 0:
        raise failure(found)
    parts: list[tuple[int, Ints, Floats, Floats]] = []
    begin = 0
    for made in given:
        end = begin + made.length
        parts.append((made.listed, numbers[0, begin:end], floats[0, begin:end], floats[1, begin:end]))
        begin = end
    return Fused(numbers[1, :found], floats[2, :found], parts)


def in_kernel(one: FusionList) -> List:
    """Return the list as the kernel takes it; the arrays must stay alive during the call."""
    ids, scores, more_ids, more_scores = addresses(
        (one.ids, _INT64), (one.scores, _FLOAT64), (one.more_ids, _INT64), (one.more_scores, _FLOAT64)
    )
    more = 0 if one.more_ids is None else len(one.more_ids)
    return List(ids, more_ids, scores, more_scores, len(one.ids), more, SCALES[one.scale], one.weight)


def missing(ids: Ints, known: Ints) -> Ints:
    """Return the distinct ids that are not among the known ones, in the order in which they occur."""
    found = np.empty(len(ids), np.int64)
    given, listed, target = addresses((ids, _INT64), (known, _INT64), (found, _INT64))
    if (count := _missing(given, len(ids), listed, len(known), target)) < 0:
        raise failure(count)
    return found[:count]


# ---------------------------------------------------------------- expansion (`expansion.c`)

_expand = function(LIBRARY, "expand", c_int64, _P, _P)


@as_in_kernel(3)
class _Expansion(Structure):
    """`Expansion` of expansion.c."""

    _fields_ = (
        ("texts", List * 2),
        *((name, c_double) for name in ("average", "below_share", "grid")),
        *((name, c_void_p) for name in ("named", "named_strengths")),
        *((name, c_int64) for name in ("named_count", "most_starts")),
        *((name, c_double) for name in ("best_hit", "least_start")),
        ("nearness", c_void_p),
        ("shares_tags", c_int64),
        ("allowed", c_void_p),
        *((name, c_int64) for name in ("allowed_count", "limit")),
        ("others", c_void_p),
        ("other_count", c_int64),
        *((name, c_void_p) for name in ("walk", "shared", "walk_scores", "shared_scores")),
        ("unlisted", c_void_p * 2),
        *((name, c_int64) for name in ("start_count", "walk_count", "shared_count")),
        ("unlisted_counts", c_int64 * 2),
        ("scoring", c_void_p * 2),
    )


_PARTS = 2


class RowsPart(Structure):
    """`Rows` of rankings.h: the published part of an index, or its tail. Its arrays must outlive it."""

    _fields_ = (
        *((name, c_void_p) for name in ("sorted", "order", "dead")),
        ("row_count", c_int64),
        *((name, c_void_p) for name in ("ids", "content", "ends")),
        ("size", c_int64),
        ("sums", c_void_p),
    )


@as_in_kernel(2)
class Scoring(Structure):
    """`Scoring` of rankings.h: what one list scores items by."""

    _fields_ = (
        ("parts", RowsPart * _PARTS),
        *((name, c_void_p) for name in ("vector", "hashes", "worth", "same", "firsts", "idfs")),
        ("words", c_int64),
        *((name, c_double) for name in ("weight", "average_length", "k1", "b", "base_length")),
        *((name, c_void_p) for name in ("ids", "scores", "coverage")),
        ("count", c_int64),
    )


def rows_part(places: RowColumns, ids: Ints, content: TextColumns | VectorColumns) -> RowsPart:
    (items,) = addresses((ids, _INT64))
    if isinstance(content, TextColumns):
        terms, size, ends, sums, rows = content.arguments
    else:
        (terms, rows, size, sums), ends = content.arguments, None
    if not rows == len(ids) == places.arguments[-1]:
        raise ValueError("the columns have different lengths")
    return RowsPart(*places.arguments, items, terms, ends, size, sums)


class ByVector(NamedTuple):
    """Score items by cosines with a query of the dimension of the parts."""

    parts: tuple[RowsPart, RowsPart]
    query: Matrix


class ByWords(NamedTuple):
    """Score items by BM25, with the arguments of `native.bm25`."""

    parts: tuple[RowsPart, RowsPart]
    words: QueryColumns
    weight: float
    average_length: float
    constants: tuple[float, float, float]


def _scoring(given: ByVector | ByWords | None, room: int) -> tuple[Scoring, Ints, Floats] | None:
    """Return how the kernel scores, with the arrays for ids and for scores and coverage."""
    if given is None:
        return None
    if isinstance(given, ByVector):
        if any(part.row_count and given.query.shape != (part.size,) for part in given.parts):
            raise ValueError(f"the query has the shape {given.query.shape}, the rows have other lengths")
        made = Scoring(given.parts, *addresses((given.query, _FLOAT32)))
    else:
        parts, words, weight, average_length, constants = given
        made = Scoring(parts, None, *words.arguments, weight, average_length, *constants)
    ids, found = np.empty(_PARTS * room, np.int64), np.empty((2, _PARTS * room))
    first, scores = cast("tuple[int, int]", tuple(addresses((ids, _INT64), (found, _FLOAT64))))
    made.ids, made.scores, made.coverage = first, scores, scores + found.strides[0]
    return made, ids, found


class StartRules(NamedTuple):
    """`limits.WALK_STARTS`, and BEST_HIT and LEAST_START of `ranking/connections.py`."""

    most: int
    best_hit: float
    least: float


class Reached(NamedTuple):
    starts: int
    walk: tuple[Ints, Floats]
    """Ids and scores, best first."""
    shared: tuple[Ints, Floats]
    unlisted: tuple[Ints, Ints]
    """For each of the two lists, the ids that are in other lists only."""
    scored: list[tuple[Ints, Floats, Floats] | None]
    """For each of the two lists, ids, scores and coverage of those; None if it was not to score them."""


def expand(
    columns: LinkColumns | TailedColumns,
    texts: tuple[FusionList, FusionList],
    scale: tuple[float, float, float],
    named: Mapping[int, float],
    rules: StartRules,
    nearness: tuple[float, float, float] | None,
    others: Sequence[Ints],
    allowed: Ints | None,
    limit: int,
    scoring: Sequence[ByVector | ByWords | None] = (None, None),
    *,
    shares: bool,
) -> Reached:
    """Search from the best hits of two lists. `scale`: what `fusion.fuse` takes. `nearness`: None for no walk.

    `scoring`: by what each list scores the items that it lacks; raise OutOfRange if rows are damaged.
    """
    listed = np.concatenate(others) if others else np.empty(0, np.int64)
    room = len(texts[0].ids) + len(texts[1].ids) + len(listed) + 2 * limit
    numbers, floats = np.empty(2 * (limit + room), np.int64), np.empty(2 * limit)
    starts, strengths = (
        np.fromiter(named, np.int64, len(named)),
        np.fromiter(named.values(), np.float64, len(named)),
    )
    near = None if nearness is None else np.array(nearness)
    ids, powers, shares_of, passing, known = addresses(
        (starts, _INT64), (strengths, _FLOAT64), (near, _FLOAT64), (allowed, _INT64), (listed, _INT64)
    )
    first, scores = cast("tuple[int, int]", tuple(addresses((numbers, _INT64), (floats, _FLOAT64))))
    step = numbers.itemsize
    given: Any = _Expansion(
        (in_kernel(texts[0]), in_kernel(texts[1])), *scale, ids, powers, len(named), *rules, shares_of, shares,
        passing, -1 if allowed is None else len(allowed), limit, known, len(listed),
        first, first + limit * step, scores, scores + limit * step,
        (first + 2 * limit * step, first + (2 * limit + room) * step),
    )  # fmt: skip
    scored = [_scoring(each, room) for each in scoring]
    given.scoring = tuple([each and addressof(each[0]) for each in scored])
    if (state := _expand(byref(given), byref(columns.struct))) < 0:
        raise failure(state)
    begin = 2 * limit
    one, other = given.unlisted_counts
    return Reached(
        given.start_count,
        (numbers[: given.walk_count], floats[: given.walk_count]),
        (numbers[limit : limit + given.shared_count], floats[limit : limit + given.shared_count]),
        (numbers[begin : begin + one], numbers[begin + room : begin + room + other]),
        [each and (each[1][: each[0].count], *each[2][:, : each[0].count]) for each in scored],
    )
