"""Bindings of what makes rankings: fusion of all lists, links and tags, and the expansion from the best hits."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from ctypes import Structure, addressof, byref, c_double, c_int, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fourfold.hits import Hits
from fourfold.native.bindings import (
    FLOAT64,
    INT32,
    INT64,
    KEEPING_GIL,
    LIBRARY,
    PARTS,
    D,
    N,
    P,
    Scorer,
    Scores,
    as_in_kernel,
    function,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.native.bindings import Floats, Ints, Places


# ---------------------------------------------------------------- links and tags (`links.c`)

_walk = function(LIBRARY, "walk", c_int64, P, INT64, FLOAT64, N, FLOAT64, INT64, N, N, INT64, FLOAT64)
_shared = function(LIBRARY, "shared", c_int64, P, INT64, FLOAT64, N, INT64, N, N, INT64, FLOAT64)
_check_lists = function(LIBRARY, "check_lists", c_int, INT64, N, INT32, N, N)
_ranges = function(KEEPING_GIL, "ranges", c_int64, INT64, N, P, N, P, fails=False)
_RANGE_BYTES = 24


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
        _check_lists(self.ends, len(self.ends), self.members, len(self.members), places)


def ranges(numbers: Ints, wanted: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return those of the wanted numbers that a sorted column has: the index of each, and where it begins and ends."""
    sought, triples = array("q", wanted), array("q", bytes(_RANGE_BYTES * len(wanted)))
    count = _ranges(numbers, len(numbers), sought.buffer_info()[0], len(sought), triples.buffer_info()[0])
    listed = triples[: 3 * count].tolist()
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
        shares = () if nearness is None else (nearness,)
        passing = allowed, -1 if allowed is None else len(allowed)
        reached = call(byref(self.struct), starts, values, count, *shares, *passing, limit, ids, scores)
        return ids[:reached], scores[:reached]


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
        names = ("own", "said", "tags", "owners", "speakers", "neighbours", "users")
        lists: dict[str, Lists] = {name: getattr(self, name) for name in names}
        counts = {name: INT32.address(getattr(self, name)) for name in ("holders", "mentioned", "degrees", "uses")}
        return _Columns(
            item_count=len(self.items),
            node_count=len(self.nodes),
            tag_count=len(self.uses),
            items=INT64.address(self.items),
            nodes=INT64.address(self.nodes),
            weights=FLOAT64.address(self.weights),
            ranks=FLOAT64.address(self.ranks),
            hub=self.bounds.hub,
            most_edges=self.bounds.edges,
            most_uses=self.bounds.uses,
            **counts,
            **{name: _Lists(INT64.address(of.ends), INT32.address(of.members)) for name, of in lists.items()},
        )


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
        columns = _Columns.from_buffer_copy(self.published.struct)
        columns.tail = addressof(self.tail.struct)
        columns.moved_nodes, columns.moved_tags = map(INT32.address, (self.moved_nodes, self.moved_tags))
        return columns


# ---------------------------------------------------------------- fusion (`fusion.c`)

SCALES: Final = {"cosine": 0, "absolute": 1, "best": 2}

_fuse = function(LIBRARY, "fuse", c_int64, P, N, D, D, D, INT64, FLOAT64, FLOAT64, INT64, FLOAT64)
_missing = function(KEEPING_GIL, "missing", c_int64, INT64, N, INT64, N, INT64)
_common = function(KEEPING_GIL, "common", c_int64, P, N, P, N)
_values = function(KEEPING_GIL, "values_and_best", None, P, N, INT64, N, FLOAT64, N)
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
    structs: Any = (List * len(lists))(*map(in_kernel, lists))
    room = sum([len(one.hits.ids) + (0 if one.more is None else len(one.more.ids)) for one in lists])
    ids, distinct = np.empty((2, room), np.int64)
    scores, values, totals = np.empty((3, room))
    count = _fuse(structs, len(lists), average, below_share, grid, ids, scores, values, distinct, totals)
    return Fused(Hits(distinct[:count], totals[:count]), structs, ids, scores, values)


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
    hits.addresses = both = INT64.address(hits.ids), FLOAT64.address(hits.scores)
    return both


def missing(ids: Ints, listed: Ints) -> Ints:
    """Return the distinct ids that are not among the known ones, in the order in which they occur."""
    unknown = np.empty(len(ids), np.int64)
    return unknown[: _missing(ids, len(ids), listed, len(listed), unknown)]


def common(one: Hits, other: Hits) -> int:
    """Return how many ids are in both lists."""
    ids, _ = one.addresses or addresses_of(one)
    others, _ = other.addresses or addresses_of(other)
    return _common(ids, len(one.ids), others, len(other.ids))


class _Column(Structure):
    """`Column` of fusion.c."""

    _fields_ = (("ids", c_void_p), ("numbers", c_void_p), ("count", c_int64), ("table", c_int64))


def values_and_best(wanted: Ints, tables: Sequence[Sequence[Hits]]) -> list[tuple[list[float], float, float]]:
    """Return for each table the numbers of a few ids, NaN for a missing one, and its two highest numbers.

    A later column of a table has precedence. Of fewer numbers, or lower ones, 0 is the highest.
    """
    columns = [
        (*(hits.addresses or addresses_of(hits)), len(hits.ids), table)
        for table, parts in enumerate(tables)
        for hits in parts
    ]
    numbers = np.empty((len(tables), len(wanted) + 2))
    _values((_Column * len(columns))(*columns), len(columns), wanted, len(wanted), numbers, len(tables))
    return [(row[:-2], row[-2], row[-1]) for row in numbers.tolist()]


# ---------------------------------------------------------------- expansion (`expansion.c`)

_expand = function(LIBRARY, "expand", c_int64, P, P)
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
    struct: Any = _Expansion(
        (in_kernel(texts[0]), in_kernel(texts[1])), *scale, starts.buffer_info()[0], strengths.buffer_info()[0],
        len(named), *rules, nearness is not None, nearness or _NO_WALK, shares, INT64.address(allowed),
        -1 if allowed is None else len(allowed), limit, INT64.address(listed), len(listed),
        tuple([None if scorer is None else addressof(scorer.struct) for scorer in scorers]),
        INT64.address(numbers), FLOAT64.address(floats), room,
    )  # fmt: skip
    _expand(byref(struct), byref(columns.struct))
    scored: list[Scores | None] = []
    for number, scorer in enumerate(scorers):
        ids, scores = (_SCORED + number) * room, (_SCORES + 2 * number) * room
        count = 0 if scorer is None else scorer.struct.count
        both = floats[scores : scores + count], floats[scores + room : scores + room + count]
        scored.append(None if scorer is None else Scores(numbers[ids : ids + count], *both))
    walk, shared = struct.walk_count, struct.shared_count
    one, other = struct.first_unlisted, struct.second_unlisted
    return Reached(
        struct.start_count,
        Hits(numbers[:walk], floats[:walk]),
        Hits(numbers[room : room + shared], floats[room : room + shared]),
        (numbers[2 * room : 2 * room + one], numbers[3 * room : 3 * room + other]),
        scored,
    )
