"""Fusion of all lists in one call (`fusion.c`)."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Structure, c_double, c_int64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from fourfold.native import KEEPING_GIL, addresses, failure, function

if TYPE_CHECKING:
    from fourfold.native import Floats, Ints

SCALES: Final = {"cosine": 0, "absolute": 1, "best": 2}

_P, _N, _D = c_void_p, c_int64, c_double
_fuse = function(KEEPING_GIL, "fuse", c_int64, _P, _N, _D, _D, _D, _P, _P, _P, _P, _P)
_missing = function(KEEPING_GIL, "missing", c_int64, _P, _N, _P, _N, _P)
_INT64, _FLOAT64 = map(np.dtype, (np.int64, np.float64))


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
