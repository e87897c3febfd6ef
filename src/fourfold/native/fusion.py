"""Fusion of all lists in one call (`fusion.c`), and what is found from the best hits of some (`expansion.c`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from ctypes import Structure, addressof, byref, c_double, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from fourfold.hits import Hits
from fourfold.native import KEEPING_GIL, LIBRARY, addresses, as_in_kernel, failure, function
from fourfold.native.scoring import PARTS, Scorer, Scores

if TYPE_CHECKING:
    from fourfold.native import Floats, Ints
    from fourfold.native.links import LinkColumns, TailedColumns

SCALES: Final = {"cosine": 0, "absolute": 1, "best": 2}

_P, _N, _D = c_void_p, c_int64, c_double
_fuse = function(LIBRARY, "fuse", c_int64, _P, _N, _D, _D, _D, _P, _P, _P, _P, _P)
_missing = function(KEEPING_GIL, "missing", c_int64, _P, _N, _P, _N, _P)
_common = function(KEEPING_GIL, "common", c_int64, _P, _N, _P, _N)
_highest = function(KEEPING_GIL, "highest", c_double, _P, _N)
_values = function(KEEPING_GIL, "values", None, _P, _N, _P, _N, _P, _N)
_INT64, _FLOAT64 = map(np.dtype, (np.int64, np.float64))
_NO_IDS: Final = np.empty(0, np.int64)


class FusionList(NamedTuple):
    hits: Hits
    """What a retriever listed, best first."""
    more: Hits | None
    """Its scores of other items."""
    scale: str
    """A key of SCALES."""
    weight: float


class Fused(NamedTuple):
    hits: Hits
    lists: Any
    """Those of the kernel, with the length of each."""
    ids: Ints
    scores: Floats
    values: Floats

    def parts(self) -> Iterator[tuple[int, Hits, Floats]]:
        """For each list: how many of its hits were listed, all of them, and the values that it adds."""
        begin = 0
        for made in self.lists:
            end = begin + made.length
            yield made.listed, Hits(self.ids[begin:end], self.scores[begin:end]), self.values[begin:end]
            begin = end


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
    given: Any = (List * len(lists))(*map(in_kernel, lists))
    room = sum([len(one.hits.ids) + (0 if one.more is None else len(one.more.ids)) for one in lists])
    numbers, floats = np.empty(2 * room, np.int64), np.empty(3 * room)
    start, column = cast("tuple[int, int]", tuple(addresses((numbers, _INT64), (floats, _FLOAT64))))
    step = room * floats.itemsize
    found = _fuse(
        given, len(lists), average, below_share, grid, start, column, column + step, start + step, column + 2 * step
    )
    if found < 0:
        raise failure(found)
    hits = Hits(numbers[room : room + found], floats[2 * room : 2 * room + found])
    return Fused(hits, given, numbers[:room], floats[:room], floats[room : 2 * room])


def in_kernel(one: FusionList) -> tuple[int | float | None, ...]:
    """Return the fields of `List`; the arrays must stay alive during the call."""
    hits, more, scale, weight = one
    ids, scores = hits.addresses or addresses_of(hits)
    if more is None:
        return ids, None, scores, None, len(hits.ids), 0, SCALES[scale], weight
    more_ids, more_scores = more.addresses or addresses_of(more)
    return ids, more_ids, scores, more_scores, len(hits.ids), len(more.ids), SCALES[scale], weight


def addresses_of(hits: Hits) -> tuple[int | None, int | None]:
    """The addresses of both arrays, which are remembered."""
    if len(hits.ids) != len(hits.scores):
        raise ValueError(f"there are {len(hits.scores)} scores of {len(hits.ids)} ids")
    ids, scores = addresses((hits.ids, _INT64), (hits.scores, _FLOAT64))
    hits.addresses = ids, scores
    return ids, scores


def missing(ids: Ints, known: Ints) -> Ints:
    """Return the distinct ids that are not among the known ones, in the order in which they occur."""
    found = np.empty(len(ids), np.int64)
    given, listed, target = addresses((ids, _INT64), (known, _INT64), (found, _INT64))
    if (count := _missing(given, len(ids), listed, len(known), target)) < 0:
        raise failure(count)
    return found[:count]


def common(one: Hits, other: Hits) -> int:
    """Return how many ids are in both lists."""
    ids, _ = one.addresses or addresses_of(one)
    others, _ = other.addresses or addresses_of(other)
    if (count := _common(ids, len(one.ids), others, len(other.ids))) < 0:
        raise failure(count)
    return count


def highest(hits: Hits) -> float | None:
    """Return the highest score, None if there is none."""
    _, scores = hits.addresses or addresses_of(hits)
    return _highest(scores, len(hits.ids)) if scores else None


class _Column(Structure):
    """`Column` of fusion.c."""

    _fields_ = (("ids", c_void_p), ("numbers", c_void_p), ("count", c_int64), ("table", c_int64))


def values_of(wanted: Ints, tables: Sequence[Sequence[Hits]]) -> list[list[float]]:
    """Return the numbers of a few ids in each table, NaN for a missing one; a later column has precedence."""
    columns = [
        (*(hits.addresses or addresses_of(hits)), len(hits.ids), table)
        for table, parts in enumerate(tables)
        for hits in parts
    ]
    found = np.empty((len(tables), len(wanted)))
    asked, target = addresses((wanted, _INT64), (found, _FLOAT64))
    _values((_Column * len(columns))(*columns), len(columns), asked, len(wanted), target, len(tables))
    return found.tolist()


# ---------------------------------------------------------------- expansion (`expansion.c`)

_expand = function(LIBRARY, "expand", c_int64, _P, _P)
_RESULTS: Final = 6
"""Rows of integers and of floats that the kernel fills; `Expansion` of expansion.c names them."""
_SCORED: Final = 4
_SCORES: Final = 2
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
        ("scoring", c_void_p * 2),
        *((name, c_void_p) for name in ("numbers", "floats")),
        *((name, c_int64) for name in ("room", "start_count", "walk_count", "shared_count")),
        *((name, c_int64) for name in ("first_unlisted", "second_unlisted")),
    )


class StartRules(NamedTuple):
    """`limits.WALK_STARTS`, and BEST_HIT and LEAST_START of `ranking/connections.py`."""

    most: int
    best_hit: float
    least: float


class Reached(NamedTuple):
    starts: int
    walk: Hits
    shared: Hits
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
    room = PARTS * (len(texts[0].hits.ids) + len(texts[1].hits.ids) + len(listed) + 2 * limit)
    numbers, floats = np.empty(_RESULTS * room, np.int64), np.empty(_RESULTS * room)
    starts, strengths = array("q", named), array("d", named.values())
    passing, known, first, column = addresses(
        (allowed, _INT64), (listed, _INT64), (numbers, _INT64), (floats, _FLOAT64)
    )
    given: Any = _Expansion(
        (in_kernel(texts[0]), in_kernel(texts[1])), *scale, starts.buffer_info()[0], strengths.buffer_info()[0],
        len(named), *rules, nearness is not None, nearness or _NO_WALK, shares, passing,
        -1 if allowed is None else len(allowed), limit, known, len(listed),
        tuple([None if scorer is None else addressof(scorer.struct) for scorer in scorers]), first, column, room,
    )  # fmt: skip
    if (state := _expand(byref(given), byref(columns.struct))) < 0:
        raise failure(state)
    scored: list[Scores | None] = []
    for number, scorer in enumerate(scorers):
        ids, scores = (_SCORED + number) * room, (_SCORES + 2 * number) * room
        count = 0 if scorer is None else scorer.struct.count
        both = floats[scores : scores + count], floats[scores + room : scores + room + count]
        scored.append(None if scorer is None else Scores(numbers[ids : ids + count], *both))
    walk, shared = given.walk_count, given.shared_count
    one, other = given.first_unlisted, given.second_unlisted
    return Reached(
        given.start_count,
        Hits(numbers[:walk], floats[:walk]),
        Hits(numbers[room : room + shared], floats[room : room + shared]),
        (numbers[2 * room : 2 * room + one], numbers[3 * room : 3 * room + other]),
        scored,
    )
