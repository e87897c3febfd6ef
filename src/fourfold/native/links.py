"""Links and tags of items as columns: walks and shared tags in C (`links.c`)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from ctypes import Structure, addressof, byref, c_int, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.native import KEEPING_GIL, LIBRARY, addresses, as_in_kernel, failure, function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.native import Floats, Ints, Places

_P, _N = c_void_p, c_int64
_walk = function(LIBRARY, "walk", c_int64, _P, _P, _P, _N, _P, _P, _N, _N, _P, _P)
_shared = function(LIBRARY, "shared", c_int64, _P, _P, _P, _N, _P, _N, _N, _P, _P)
_check_lists = function(LIBRARY, "check_lists", c_int, _P, _N, _P, _N, _N)
_ranges = function(KEEPING_GIL, "ranges", c_int64, _P, _N, _P, _N, _P)
_RANGE_BYTES = 24
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

    def check(self, places: int) -> None:
        """Raise OutOfRange if a list or a member is out of range: C trusts them."""
        ends, members = addresses((self.ends, _INT64), (self.members, _INT32))
        if (state := _check_lists(ends, len(self.ends), members, len(self.members), places)) < 0:
            raise failure(state)


def ranges(numbers: Ints, wanted: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return those of the wanted numbers that a sorted column has: the index of each, and where it begins and ends."""
    asked, found = array("q", wanted), array("q", bytes(_RANGE_BYTES * len(wanted)))
    (column,) = addresses((numbers, _INT64))
    count = _ranges(column, len(numbers), asked.buffer_info()[0], len(asked), found.buffer_info()[0])
    listed = found[: 3 * count].tolist()
    return list(zip(listed[::3], listed[1::3], listed[2::3], strict=True))


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


@as_in_kernel(1)
class _Columns(Structure):
    """`Columns` of rankings.h."""

    _fields_ = (
        *((name, c_int64) for name in ("item_count", "node_count", "tag_count")),
        *((name, c_void_p) for name in ("items", "nodes", "holders", "mentioned", "degrees", "uses")),
        *((name, _Lists) for name in ("own", "said", "tags", "owners", "speakers", "neighbours")),
        ("weights", c_void_p),
        ("users", _Lists),
        *((name, c_int64) for name in ("hub", "most_edges", "most_uses")),
        *((name, c_void_p) for name in ("ranks", "tail", "moved_nodes", "moved_tags")),
    )


class _Walking:
    """Walks and shared tags over the columns of a struct."""

    struct: Any

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


@dataclass(frozen=True)
class LinkColumns(_Walking):
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
    before: tuple[int, int, int] = (0, 0, 0)
    """Of a tail: the numbers of items, nodes and tags in the columns that its numbers continue."""
    tag_uses: Places | None = None
    """By tag; None: `users` has all of them."""
    ranks: Floats | None = None
    """By tag: its place among the sorted names of all tags; None: its number."""

    def __post_init__(self) -> None:
        items, nodes, tags = len(self.items), len(self.nodes), len(self.users.ends)
        all_items, all_nodes, all_tags = (sum(pair) for pair in zip((items, nodes, tags), self.before, strict=True))
        pointed = ((self.own, all_nodes), (self.said, all_nodes), (self.tags, all_tags), (self.owners, all_items))
        further = (self.speakers, all_items), (self.neighbours, all_nodes), (self.users, all_items)
        for lists, places in (*pointed, *further):
            lists.check(places)
        by_item, by_node = (self.own, self.said, self.tags), (self.owners, self.speakers, self.neighbours)
        columns = (self.holders, self.mentioned, self.degrees)
        if (
            any(len(lists.ends) != items for lists in by_item)
            or any(len(lists.ends) != nodes for lists in by_node)
            or any(len(column) != nodes for column in columns)
            or len(self.weights) != len(self.neighbours.members)
            or any(column is not None and len(column) != tags for column in (self.tag_uses, self.ranks))
        ):
            raise ValueError("the columns have different lengths")

    @cached_property
    def uses(self) -> Places:
        """By tag: the number of items that carry it."""
        return self.tag_uses if self.tag_uses is not None else np.diff(self.users.ends, prepend=0).astype(np.int32)

    @cached_property
    def struct(self) -> _Columns:  # pyright: ignore[reportIncompatibleVariableOverride]
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
        (found.ranks,) = addresses((self.ranks, _FLOAT64))
        counts = (self.holders, self.mentioned, self.degrees, self.uses)
        found.holders, found.mentioned, found.degrees, found.uses = addresses(*((each, _INT32) for each in counts))
        for name in ("own", "said", "tags", "owners", "speakers", "neighbours", "users"):
            lists: Lists = getattr(self, name)
            setattr(found, name, _Lists(*addresses((lists.ends, _INT64), (lists.members, _INT32))))
        return found


@dataclass(frozen=True)
class TailedColumns(_Walking):
    """Columns with the tail of what changed since."""

    published: LinkColumns
    tail: LinkColumns
    moved_nodes: Places
    """By node of the first: the number of one that changed, or -1."""
    moved_tags: Places

    def __post_init__(self) -> None:
        first = self.published
        counts = len(first.items), len(first.nodes), len(first.users.ends)
        if self.tail.before != counts or self.tail.ranks is None or self.tail.bounds != first.bounds:
            raise ValueError("the tail belongs to other columns")
        for moved, count, more in (
            (self.moved_nodes, counts[1], len(self.tail.nodes)),
            (self.moved_tags, counts[2], len(self.tail.users.ends)),
        ):
            if len(moved) != count or (count and not -1 <= moved.min() <= moved.max() < count + more):
                raise ValueError("a number that moved is out of range")

    @cached_property
    def struct(self) -> _Columns:  # pyright: ignore[reportIncompatibleVariableOverride]
        found = _Columns.from_buffer_copy(self.published.struct)
        found.tail = addressof(self.tail.struct)
        found.moved_nodes, found.moved_tags = addresses((self.moved_nodes, _INT32), (self.moved_tags, _INT32))
        return found
