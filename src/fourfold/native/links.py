"""Links and tags of items as columns: walks and shared tags in C (`links.c`)."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import Structure, byref, c_int, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.native import LIBRARY, addresses, failure, function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.native import Floats, Ints, Places

_P, _N = c_void_p, c_int64
_walk = function(LIBRARY, "walk", c_int64, _P, _P, _P, _N, _P, _P, _N, _N, _P, _P)
_shared = function(LIBRARY, "shared", c_int64, _P, _P, _P, _N, _P, _N, _N, _P, _P)
_check_lists = function(LIBRARY, "check_lists", c_int, _P, _N, _P, _N, _N)
_INT64, _INT32, _FLOAT64 = map(np.dtype, (np.int64, np.int32, np.float64))


@dataclass(frozen=True, slots=True)
class Lists:
    """A list for each number: that of number n is members[ends[n - 1]:ends[n]]."""

    ends: Ints
    members: Places

    @staticmethod
    def of_pairs(numbers: NDArray[Any], members: NDArray[Any], count: int) -> Lists:
        """Build the lists of `count` numbers from pairs of a number and a member; each list ascends."""
        order = np.lexsort((members, numbers))
        return Lists(ends_of(numbers, count), members[order].astype(np.int32))

    def of(self, number: int) -> Places:
        return self.members[self.start(number) : self.ends[number]]

    def start(self, number: int) -> int:
        return int(self.ends[number - 1]) if number else 0

    def check(self, places: int) -> None:
        """Raise OutOfRange if a list or a member is out of range: C trusts them."""
        ends, members = addresses((self.ends, _INT64), (self.members, _INT32))
        if (state := _check_lists(ends, len(self.ends), members, len(self.members), places)) < 0:
            raise failure(state)


def ends_of(numbers: NDArray[Any], count: int) -> Ints:
    return np.cumsum(np.bincount(numbers, minlength=count)[:count]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Bounds:
    """`limits.HUB`, WALK_EDGES and CANDIDATES."""

    hub: int
    edges: int
    uses: int


class _Lists(Structure):
    _fields_ = (("ends", c_void_p), ("members", c_void_p))


class _Columns(Structure):
    """`Columns` of rankings.h."""

    _fields_ = (
        *((name, c_int64) for name in ("item_count", "node_count", "tag_count")),
        *((name, c_void_p) for name in ("items", "nodes", "holders", "mentioned", "degrees", "uses")),
        *((name, _Lists) for name in ("own", "said", "tags", "owners", "speakers", "neighbours")),
        ("weights", c_void_p),
        ("users", _Lists),
        *((name, c_int64) for name in ("hub", "most_edges", "most_uses")),
    )


@dataclass(frozen=True)
class LinkColumns:
    """Items, nodes and tags are numbered by their places in `items`, `nodes` and the sorted tags."""

    items: Ints
    nodes: Ints
    holders: Places
    """By node: the number of its own items."""
    mentioned: Places
    degrees: Places
    own: Lists
    """By item: its nodes."""
    said: Lists
    """By item: the nodes that it mentions."""
    tags: Lists
    owners: Lists
    """By node: its items."""
    speakers: Lists
    """By node: the items that mention it."""
    neighbours: Lists
    """By node: the nodes at the other ends of its edges, heaviest edge first, ties by number."""
    weights: Floats
    users: Lists
    """By tag: the items that carry it."""
    bounds: Bounds

    def __post_init__(self) -> None:
        items, nodes, tags = len(self.items), len(self.nodes), len(self.users.ends)
        pointed = ((self.own, nodes), (self.said, nodes), (self.tags, tags), (self.owners, items))
        for lists, places in (*pointed, (self.speakers, items), (self.neighbours, nodes), (self.users, items)):
            lists.check(places)
        by_item, by_node = (self.own, self.said, self.tags), (self.owners, self.speakers, self.neighbours)
        columns = (self.holders, self.mentioned, self.degrees)
        if (
            any(len(lists.ends) != items for lists in by_item)
            or any(len(lists.ends) != nodes for lists in by_node)
            or any(len(column) != nodes for column in columns)
            or len(self.weights) != len(self.neighbours.members)
        ):
            raise ValueError("the columns have different lengths")

    @cached_property
    def uses(self) -> Places:
        """By tag: the number of items that carry it."""
        return np.diff(self.users.ends, prepend=0).astype(np.int32)

    @cached_property
    def struct(self) -> _Columns:
        found = _Columns(
            item_count=len(self.items),
            node_count=len(self.nodes),
            tag_count=len(self.uses),
            hub=self.bounds.hub,
            most_edges=self.bounds.edges,
            most_uses=self.bounds.uses,
        )
        found.items, found.nodes, found.weights = addresses(
            (self.items, _INT64), (self.nodes, _INT64), (self.weights, _FLOAT64)
        )
        counts = (self.holders, self.mentioned, self.degrees, self.uses)
        found.holders, found.mentioned, found.degrees, found.uses = addresses(*((each, _INT32) for each in counts))
        for name in ("own", "said", "tags", "owners", "speakers", "neighbours", "users"):
            lists: Lists = getattr(self, name)
            setattr(found, name, _Lists(*addresses((lists.ends, _INT64), (lists.members, _INT32))))
        return found

    def walk(
        self, strengths: Mapping[int, float], nearness: tuple[float, float, float], allowed: Ints | None, limit: int
    ) -> tuple[Ints, Floats]:
        """Return the items that links lead to from the starts, best first, with their scores.

        `nearness`: the share of the strength that a mention passes on, being mentioned, and an edge.
        """
        return self._ranked(_walk, strengths, np.array(nearness), allowed, limit)

    def shared(self, strengths: Mapping[int, float], allowed: Ints | None, limit: int) -> tuple[Ints, Floats]:
        """Return the items that share tags with the starts, best first, with their scores."""
        return self._ranked(_shared, strengths, None, allowed, limit)

    def _ranked(
        self, call: Any, strengths: Mapping[int, float], nearness: Floats | None, allowed: Ints | None, limit: int
    ) -> tuple[Ints, Floats]:
        count = len(strengths)
        starts = np.fromiter(strengths, np.int64, count)
        values = np.fromiter(strengths.values(), np.float64, count)
        ids, scores = np.empty(limit, np.int64), np.empty(limit)
        given, powers, near, passing, target, found_scores = addresses(
            (starts, _INT64), (values, _FLOAT64), (nearness, _FLOAT64), (allowed, _INT64), (ids, _INT64),
            (scores, _FLOAT64),
        )  # fmt: skip
        shares = () if nearness is None else (near,)
        permitted = -1 if allowed is None else len(allowed)
        found = call(byref(self.struct), given, powers, count, *shares, passing, permitted, limit, target, found_scores)
        if found < 0:
            raise failure(found)
        return ids[:found], scores[:found]
