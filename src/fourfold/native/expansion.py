"""Walk, shared tags and missing scores from the best hits of vectors and words, in one call (`expansion.c`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import Structure, byref, c_double, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from fourfold.native import LIBRARY, addresses, failure, function
from fourfold.native.fusion import FusionList, List, in_kernel

if TYPE_CHECKING:
    from fourfold.native import Floats, Ints
    from fourfold.native.links import LinkColumns

_expand = function(LIBRARY, "expand", c_int64, c_void_p, c_void_p)
_INT64, _FLOAT64 = map(np.dtype, (np.int64, np.float64))


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


def expand(
    columns: LinkColumns,
    texts: tuple[FusionList, FusionList],
    scale: tuple[float, float, float],
    named: Mapping[int, float],
    rules: StartRules,
    nearness: tuple[float, float, float] | None,
    others: Sequence[Ints],
    allowed: Ints | None,
    limit: int,
    *,
    shares: bool,
) -> Reached:
    """Search from the best hits of two lists. `scale`: what `fusion.fuse` takes. `nearness`: None for no walk."""
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
    if (state := _expand(byref(given), byref(columns.struct))) < 0:
        raise failure(state)
    begin = 2 * limit
    one, other = given.unlisted_counts
    return Reached(
        given.start_count,
        (numbers[: given.walk_count], floats[: given.walk_count]),
        (numbers[limit : limit + given.shared_count], floats[limit : limit + given.shared_count]),
        (numbers[begin : begin + one], numbers[begin + room : begin + room + other]),
    )
