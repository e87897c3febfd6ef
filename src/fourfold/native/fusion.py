"""Fusion of all lists in one call (`fusion.c`), and what is found from the best hits of some (`expansion.c`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import Structure, addressof, byref, c_double, c_int64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from fourfold.native import KEEPING_GIL, LIBRARY, addresses, as_in_kernel, failure, function
from fourfold.native.scoring import PARTS, Scorer, Scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.native import Floats, Ints
    from fourfold.native.links import LinkColumns, TailedColumns

SCALES: Final = {"cosine": 0, "absolute": 1, "best": 2}

_P, _N, _D = c_void_p, c_int64, c_double
_fuse = function(LIBRARY, "fuse", c_int64, _P, _N, _D, _D, _D, _P, _P, _P, _P, _P)
_missing = function(KEEPING_GIL, "missing", c_int64, _P, _N, _P, _N, _P)
_INT64, _FLOAT64 = map(np.dtype, (np.int64, np.float64))
_NO_IDS: Final = np.empty(0, np.int64)


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
_RESULTS: Final = 6
"""Rows of integers (walk, shared tags, what each text lacks, what of it was scored), and of floats (both, scores and
coverage of each text)."""
_NO_WALK: Final = (0.0, 0.0, 0.0)


@as_in_kernel(3)
class _Expansion(Structure):
    """`Expansion` of expansion.c."""

    _fields_ = (
        ("texts", List * 2),
        *((name, c_double) for name in ("average", "below_share", "grid")),
        *((name, c_void_p) for name in ("named", "named_strengths")),
        *((name, c_int64) for name in ("named_count", "most_starts")),
        *((name, c_double) for name in ("best_hit", "least_start")),
        ("walks", c_int64),
        ("nearness", c_double * 3),
        ("shares_tags", c_int64),
        ("allowed", c_void_p),
        *((name, c_int64) for name in ("allowed_count", "limit")),
        ("others", c_void_p),
        ("other_count", c_int64),
        *((name, c_void_p) for name in ("walk", "shared", "walk_scores", "shared_scores")),
        ("unlisted", c_void_p * 2),
        ("scoring", c_void_p * 2),
        *((name, c_int64) for name in ("start_count", "walk_count", "shared_count")),
        ("unlisted_counts", c_int64 * 2),
    )


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
    scored: list[Scores | None]
    """For each of the two lists, the scores of those; None if it was not to score them."""


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
    scorers: Sequence[Scorer | None] = (None, None),
    *,
    shares: bool,
) -> Reached:
    """Search from the best hits of two lists. `scale`: what `fusion.fuse` takes. `nearness`: None for no walk.

    `scorers`: by what each list scores the items that it lacks; raise OutOfRange if rows are damaged.
    """
    listed = np.concatenate(others) if others else _NO_IDS
    room = len(texts[0].ids) + len(texts[1].ids) + len(listed) + 2 * limit
    numbers, floats = np.empty((_RESULTS, PARTS * room), np.int64), np.empty((_RESULTS, PARTS * room))
    starts, strengths = np.array([*named], np.int64), np.array([*named.values()], np.float64)
    ids, powers, passing, known = addresses(
        (starts, _INT64), (strengths, _FLOAT64), (allowed, _INT64), (listed, _INT64)
    )
    walk, shared, *unlisted, first_ids, second_ids = _row_addresses(numbers, _INT64)
    walk_scores, shared_scores, *scored = _row_addresses(floats, _FLOAT64)
    for scorer, target, scores, coverage in zip(
        scorers, (first_ids, second_ids), scored[::2], scored[1::2], strict=True
    ):
        if scorer is not None:
            scorer.struct.ids, scorer.struct.scores, scorer.struct.coverage = target, scores, coverage
    given: Any = _Expansion(
        (in_kernel(texts[0]), in_kernel(texts[1])), *scale, ids, powers, len(named), *rules, nearness is not None,
        nearness or _NO_WALK, shares, passing, -1 if allowed is None else len(allowed), limit, known, len(listed),
        walk, shared, walk_scores, shared_scores, tuple(unlisted),
        tuple([None if scorer is None else addressof(scorer.struct) for scorer in scorers]),
    )  # fmt: skip
    if (state := _expand(byref(given), byref(columns.struct))) < 0:
        raise failure(state)
    return _reached(given, numbers, floats, scorers)


def _reached(given: Any, numbers: Ints, floats: Floats, scorers: Sequence[Scorer | None]) -> Reached:
    walk, shared, (one, other) = given.walk_count, given.shared_count, given.unlisted_counts
    scored: list[Scores | None] = []
    for ids, scores, scorer in zip(numbers[4:], (floats[2:4], floats[4:]), scorers, strict=True):
        count = 0 if scorer is None else scorer.struct.count
        scored.append(None if scorer is None else Scores(ids[:count], *scores[:, :count]))
    return Reached(
        given.start_count,
        (numbers[0, :walk], floats[0, :walk]),
        (numbers[1, :shared], floats[1, :shared]),
        (numbers[2, :one], numbers[3, :other]),
        scored,
    )


def _row_addresses(table: NDArray[Any], kind: np.dtype[Any]) -> list[int]:
    (start,) = addresses((table, kind))
    return [cast("int", start) + row * table.strides[0] for row in range(len(table))]
