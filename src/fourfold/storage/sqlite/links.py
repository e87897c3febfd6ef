"""Links and tags of the embedded store: read from the tables, or from columns in memory.

Columns are built in a background thread after a few searches, from one snapshot. A search folds what changed since into
their tail, so it sees what the tables hold; a search for which there are no columns reads the tables, and never waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import limits, scheduling
from fourfold.index.link_state import ItemLinks, LinkRows, LinkState, NodeLinks, TagLinks
from fourfold.index.log_tail import Change
from fourfold.limits import WALK_EDGES
from fourfold.model import NO_FILTERS, Filters
from fourfold.ranking.connections import MOST_TAGS, rarity
from fourfold.retrieval import Link
from fourfold.storage.sql.reading import where
from fourfold.storage.sqlite.database import Connection, Database, Tuning
from fourfold.storage.sqlite.namespaces import SourceRows
from fourfold.storage.values import TagUse
from fourfold.threads import Task, Workers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.storage.sqlite.store import SqliteSnapshot


_Row = tuple[int, int, int]
_Edge = tuple[int, int, float, int, int]
"""(node, neighbour, weight, the neighbour's degree and items)"""


def node_links(db: Connection, nodes: Sequence[int]) -> list[Link]:
    """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
    own = [Link(node, item, "own", 1.0, holders) for node, item, holders in _items_of(db, "node_items", nodes)]
    naming = [Link(node, item, "names", 1.0, mentions) for node, item, mentions in _items_of(db, "mentions", nodes)]
    degrees = _of_keys(db, "SELECT id, id, degree FROM nodes WHERE id {0}", nodes)
    return [*own, *naming, *_over_edges(db, degrees)]


def item_links(db: Connection, ns: int, items: Sequence[int]) -> list[Link]:
    """From items of the namespace to what they mention, to what mentions them, and over one edge from their nodes."""
    mentions = (Link(item, other, "mentions", 1.0, ways) for item, other, ways in _over_mentions(db, ns, items))
    back = _over_mentions(db, ns, items, back=True)
    mentioning = (Link(item, other, "mentioned-by", 1.0, ways) for item, other, ways in back)
    sql = (
        "SELECT item, node, degree FROM node_items CROSS JOIN nodes ON nodes.id = node WHERE +nodes.ns = ? AND item {0}"
    )
    links = (*mentions, *mentioning, *_over_edges(db, _of_keys(db, sql, items, ns)))
    return [link for link in links if link.source != link.item]


def _over_edges(db: Connection, starts: Sequence[_Row]) -> list[Link]:
    """`starts`: (what the links start from, its node, the node's degree)."""
    degree = {node: degree for _, node, degree in starts if degree}
    if not degree:
        return []
    edges = sorted(_heaviest_edges(db, degree), key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]
    targets: dict[int, list[int]] = {}
    for node, item, _ in _items_of(db, "node_items", {target for _, target, *_ in edges}):
        targets.setdefault(node, []).append(item)
    sources: dict[int, list[int]] = {}
    for source, node, _ in starts:
        sources.setdefault(node, []).append(source)
    return [
        Link(source, item, "edge", weight, degree[node] * others * holders)
        for node, target, weight, others, holders in edges
        for item in targets.get(target, ())
        for source in sources[node]
    ]


# Look-ups are joined from the left to the right (CROSS). Hubs lead nowhere (limits.HUB).


def _items_of(db: Connection, table: str, nodes: Iterable[int]) -> list[_Row]:
    """(node, item, items in the table of the node): the items whose title a node is, or whose texts name it."""
    count = "holders" if table == "node_items" else "mentioned"
    sql = (
        f"SELECT nodes.id, item, {count} FROM nodes CROSS JOIN {table} ON node = nodes.id "  # noqa: S608  (constants)
        f"WHERE nodes.id {{0}} AND {count} <= {limits.HUB} ORDER BY 1, 2"
    )
    return _of_keys(db, sql, nodes)


def _over_mentions(db: Connection, ns: int, items: Iterable[int], *, back: bool = False) -> list[_Row]:
    """(item, item, ways over the node between them): from what names something to the items that it names.

    `back`: the other way round.
    """
    start, end = ("node_items", "mentions") if back else ("mentions", "node_items")
    condition = "" if back else f"AND holders <= {limits.HUB}"
    sql = (
        f"SELECT a.item, b.item, mentioned * holders FROM {start} AS a CROSS JOIN nodes ON nodes.id = a.node "  # noqa: S608  (constants)
        f"CROSS JOIN {end} AS b ON b.node = a.node "
        f"WHERE +nodes.ns = ? AND a.item {{0}} AND mentioned <= {limits.HUB} {condition}"
    )
    return _of_keys(db, sql, items, ns)


def _heaviest_edges(db: Connection, degrees: Mapping[int, int]) -> list[_Edge]:
    """The edges of each node, in both directions; of a hub, the heaviest."""
    few = [node for node, degree in degrees.items() if 0 < degree <= limits.HUB]
    edges = [edge for sql in _EDGES_OF_NODES for edge in _of_keys(db, sql.format("{0}", ""), few)]
    tail = f"ORDER BY weight DESC, nodes.id LIMIT {limits.HUB}"
    for hub in (node for node, degree in degrees.items() if degree > limits.HUB):
        both = [edge for sql in _EDGES_OF_NODES for edge in db.rows(sql.format("= ?", tail), hub)]
        edges += sorted(both, key=lambda edge: (-edge[2], edge[1]))[: limits.HUB]
    return edges


_EDGES_OF_NODES = tuple(
    f"SELECT {near}, {far}, weight, degree, holders FROM edges CROSS JOIN nodes ON nodes.id = {far} "  # noqa: S608  (our own clauses)
    f"WHERE {near} {{0}} {{1}}"
    for near, far in (("source", "target"), ("target", "source"))
)


def _of_keys(db: Connection, sql: str, keys: Iterable[int], *before: int) -> list[Any]:
    """`before`: what is bound before the keys."""
    wanted = sorted(keys)
    return db.rows(sql.format(db.any_id), *before, db.ids(wanted)) if wanted else []


# ---------------------------------------------------------------- tags


def tag_counts(db: Connection, ns: int, *, hidden: bool) -> dict[str, int]:
    """Folded tag to the number of items that carry it; `hidden`: whether some of these are superseded."""
    if hidden:
        sql = (
            "SELECT folded, count(*) FROM tags JOIN item_tags ON tag = tags.id JOIN items ON items.id = item "
            "WHERE tags.ns = ? AND superseded_at IS NULL GROUP BY folded ORDER BY folded"
        )
        return dict(db.rows(sql, ns))
    return dict(db.rows("SELECT folded, uses FROM tags WHERE ns = ? AND uses > 0 ORDER BY folded", ns))


def carried_tags(db: Connection, ns: int, ids: Sequence[int]) -> dict[str, int]:
    """The tags of these items, folded, each with the number of items that carry it."""
    sql = f"SELECT folded, uses FROM item_tags CROSS JOIN tags ON tags.id = tag WHERE item {db.any_id} AND ns = ?"  # noqa: S608  (constants)
    return dict(db.rows(sql, db.ids(ids), ns))


def tag_uses(db: Connection, ns: int, candidates: Sequence[str], filters: Filters, limit: int) -> list[TagUse]:
    """Uses of those candidates that are tags, by the `limit` items that carry the most and rarest of them.

    SQLite adds up and cuts off: a tag that 20,000 items carry makes no 20,000 objects here.
    """
    sql = f"SELECT id, folded, uses FROM tags WHERE ns = ? AND folded {db.any_text} AND uses > 0"  # noqa: S608  (constants)
    tags = db.rows(sql, ns, db.texts(candidates)) if candidates else []
    condition, bindings = ("", ()) if filters is NO_FILTERS else where(db, filters, ns)
    source = "item_tags" if not condition else "item_tags CROSS JOIN items ON items.id = item"
    uses: list[TagUse] = []
    tags = sorted(tags, key=lambda row: row[2])[:MOST_TAGS]
    if tags:
        weights = " ".join(f"WHEN {tag} THEN {rarity(count)!r}" for tag, _, count in tags)
        bits = " ".join(f"WHEN {tag} THEN {1 << place}" for place, (tag, *_) in enumerate(tags))
        sql = (
            f"SELECT item, sum(CASE tag {bits} END) FROM {source} "  # noqa: S608  (numbers and our own clauses)
            f"WHERE tag IN ({', '.join(str(tag) for tag, *_ in tags)}){condition} "
            f"GROUP BY item ORDER BY sum(CASE tag {weights} END) DESC, item LIMIT ?"
        )
        for item, carried in db.rows(sql, *bindings, limit):
            uses += (TagUse(item, tag, count) for place, (_, tag, count) in enumerate(tags) if carried >> place & 1)
    return sorted(uses)


def uses_of_tags(db: Connection, ns: int, candidates: Sequence[str]) -> list[TagUse]:
    """Every use of those of these folded strings that are tags."""
    sql = (
        "SELECT item, folded, uses FROM tags CROSS JOIN item_tags ON tag = tags.id "  # noqa: S608  (constants)
        f"WHERE ns = ? AND folded {db.any_text}"
    )
    return sorted(map(TagUse._make, db.rows(sql, ns, db.texts(candidates)))) if candidates else []


# ---------------------------------------------------------------- what changed since some change


_RELEVANT = int(Change.TEXT | Change.REMOVED | Change.LABELS | Change.NODE)


def _changed(db: Connection, ns: int, after: int, last: int, most: int) -> tuple[list[int], list[int]] | None:
    """Items and nodes whose links or tags may have changed; None if that is not known, or if there are too many."""
    if SourceRows(db, ns).pruned > after:
        return None
    sql = (
        "SELECT DISTINCT item, what & ? FROM changes WHERE ns = ? AND seq > ? AND seq <= ? AND what & ? "
        "ORDER BY item LIMIT ?"
    )
    rows = db.rows(sql, int(Change.NODE), ns, after, last, _RELEVANT, most + 1)
    if len(rows) > most or any(not number for number, _ in rows):
        return None
    return [item for item, of_node in rows if not of_node], [node for node, of_node in rows if of_node]


@dataclass(slots=True, eq=False)
class SqliteLinkSource:
    """Implements `fourfold.index.link_state.LinkSource` inside the transaction of `db`."""

    _db: Connection

    def items(self, ids: Sequence[int]) -> dict[int, ItemLinks]:
        own = self._grouped("SELECT item, node FROM node_items WHERE item {0}", ids)
        said = self._grouped("SELECT item, node FROM mentions WHERE item {0}", ids)
        tags = self._grouped("SELECT item, tag FROM item_tags WHERE item {0}", ids)
        linked = {*own, *said, *tags}
        return {item: ItemLinks(own.get(item, ()), said.get(item, ()), tags.get(item, ())) for item in linked}

    def nodes(self, ids: Sequence[int]) -> dict[int, NodeLinks]:
        sql = "SELECT id, holders, mentioned, degree FROM nodes WHERE id {0}"
        counts: dict[int, tuple[int, int, int]] = {row[0]: row[1:] for row in _of_keys(self._db, sql, ids)}
        owned = [node for node, (holders, _, _) in counts.items() if holders <= limits.HUB]
        spoken = [node for node, (_, mentioned, _) in counts.items() if mentioned <= limits.HUB]
        owners = self._grouped("SELECT node, item FROM node_items WHERE node {0}", owned)
        speakers = self._grouped("SELECT node, item FROM mentions WHERE node {0}", spoken)
        names = self._grouped("SELECT node, folded FROM names WHERE node {0}", list(counts))
        edges: dict[int, list[tuple[int, float]]] = {}
        for near, far, weight, *_ in _heaviest_edges(self._db, {node: count[2] for node, count in counts.items()}):
            edges.setdefault(near, []).append((far, weight))
        return {
            node: NodeLinks(
                *numbers,
                owners=owners.get(node, ()),
                speakers=speakers.get(node, ()),
                neighbours=edges.get(node, ()),
                names=[hash(name) for name in names.get(node, ())],
            )
            for node, numbers in counts.items()
        }

    def tags(self, ids: Sequence[int]) -> dict[int, TagLinks]:
        rows = _of_keys(self._db, "SELECT id, folded, uses FROM tags WHERE id {0}", ids)
        few = [tag for tag, _, uses in rows if uses <= limits.HUB]
        users = self._grouped("SELECT tag, item FROM item_tags WHERE tag {0}", few)
        return {tag: TagLinks(name, uses, users.get(tag, ())) for tag, name, uses in rows}

    def _grouped(self, sql: str, keys: Sequence[int]) -> dict[int, list[Any]]:
        groups: dict[int, list[Any]] = {}
        for key, member in _of_keys(self._db, sql, keys):
            groups.setdefault(key, []).append(member)
        return groups


# ---------------------------------------------------------------- columns in memory, with a tail


_BATCH_ROWS = 2000
"""Rows that are read between two pauses for searches."""
_NAMESPACES = 16
"""Namespaces whose columns are kept."""
_LONGEST_TAIL = 4
"""Times the length at which columns are read again, up to which they are used meanwhile."""


class _Closed(Exception):
    """The store is being closed, so the build ends."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What this process knows about one namespace."""

    change: int
    """The last change that the state holds; without a state, the one at which the misses were counted."""
    state: LinkState | None = None
    misses: int = 0
    """Searches at this change that had to read the tables."""
    not_before: float = 0.0
    """When the next build may start, on the monotonic clock."""


class LinkCache:
    def __init__(self, database: Database, tuning: Tuning) -> None:
        self._database = database
        self._tuning = tuning
        self.entries: dict[int, Entry] = {}
        """By namespace."""
        self._changing = Lock()
        self._building: Task[None] | None = None
        self._builders = Workers(1, "fourfold-links")
        self._closed = False

    def state(self, at: SqliteSnapshot) -> LinkState | None:
        """The columns as of the snapshot, if `entries` has those of another change; None if there are none."""
        with self._changing:
            entry = self.entries.get(at.ns.id) or Entry(at.last_change)
            if entry.state is not None and entry.change <= at.last_change:
                state = self._folded(at, entry.state, entry.change)
                if state is not None:
                    self.entries[at.ns.id] = replace(entry, change=at.last_change, state=state)
                    if len(state.tail) > self._tuning.columns_tail:
                        self._begin(at.ns.id, entry)
                    return state
            if entry.change > at.last_change or not at.exists:
                return None  # an older snapshot than that of another search
            misses = entry.misses + 1 if entry.change == at.last_change else 1
            self.entries[at.ns.id] = Entry(at.last_change, None, misses, entry.not_before)
            if misses >= self._tuning.columns_after_searches:
                self._begin(at.ns.id, entry)
            return None

    def _folded(self, at: SqliteSnapshot, state: LinkState, since: int) -> LinkState | None:
        """The columns with the changes since; None if they have to be built again."""
        if since == at.last_change:
            return state  # another search was first
        changed = _changed(at.db, at.ns.id, since, at.last_change, self._tuning.columns_fold_changes)
        if changed is None or len(state.tail) > _LONGEST_TAIL * self._tuning.columns_tail:
            return None
        try:
            return state.updated(SqliteLinkSource(at.db), *changed) if any(changed) else state
        except ValueError:  # rows that point nowhere, which `check` reports
            return None

    def _begin(self, ns: int, entry: Entry) -> None:
        """Starts a build, unless one is running or has just ended."""
        idle = self._building is None or self._building.done.is_set
        if idle and time.monotonic() >= entry.not_before:
            self._building = self._builders.submit(partial(self._build, ns))

    def _build(self, ns: int) -> None:
        """In a background thread."""
        began = time.monotonic()
        change, state = 0, None
        try:
            with scheduling.in_bulk(), self._database.read() as db:
                change = SourceRows(db, ns).last_change
                size = db.value(_SIZE, ns, ns) or 0
                state = self._read(db, ns) if size <= self._tuning.max_column_rows else None
        except (_Closed, ValueError):  # ValueError: rows that refer to missing rows, which `check` reports
            pass
        finally:
            ended = time.monotonic()
            with self._changing:
                pause = _RETRY_SECONDS if state is None else (ended - began) * self._tuning.columns_pause
                if len(self.entries) > _NAMESPACES:
                    self.entries.clear()
                self.entries[ns] = Entry(change, state, 0, ended + pause)

    def _read(self, db: Connection, ns: int) -> LinkState:
        tags = db.rows("SELECT id, folded FROM tags WHERE ns = ? AND uses > 0", ns)
        place = {tag: number for number, (tag, _) in enumerate(tags)}
        tagged = self._columns(db, _TAGGED, ns, 2)
        tagged[0] = [place[tag] for tag in tagged[0].tolist()]
        nodes = self._columns(db, "SELECT id, holders, mentioned, degree FROM nodes WHERE ns = ?", ns, 4)
        edges = self._columns(db, _EDGES, ns, 3, np.float64)
        return LinkState(
            LinkRows(
                items=self._columns(db, "SELECT id FROM items WHERE ns = ?", ns, 1)[0],
                nodes=nodes[0],
                counts=nodes[1:],
                names=self._names(db, ns),
                owned=self._columns(db, _OF_NODES.format("node_items"), ns, 2),
                mentions=self._columns(db, _OF_NODES.format("mentions"), ns, 2),
                edges=edges[:2].astype(np.int64),
                weights=edges[2],
                tags=[folded for _, folded in tags],
                tag_ids=[tag for tag, _ in tags],
                tagged=tagged,
            )
        )

    def _names(self, db: Connection, ns: int) -> NDArray[np.int64]:
        sql = "SELECT folded, node FROM names WHERE ns = ?"
        pairs = ((hash(name), node) for name, node in self._paced(db.stream(sql, ns)))
        return np.fromiter(chain.from_iterable(pairs), np.int64).reshape(-1, 2).T.copy()

    def _columns(self, db: Connection, sql: str, ns: int, width: int, kind: Any = np.int64) -> NDArray[Any]:
        numbers = chain.from_iterable(self._paced(db.stream(sql, ns)))
        return np.fromiter(numbers, kind).reshape(-1, width).T.copy()

    def _paced(self, rows: Iterator[Any]) -> Iterator[Any]:
        while part := list(islice(rows, _BATCH_ROWS)):
            if self._closed:
                raise _Closed
            scheduling.give_way()
            yield from part

    def close(self) -> None:
        """Ends a build that is running."""
        self._closed = True
        self._builders.close()


_RETRY_SECONDS = 60.0
"""Pause after a build that gave no columns."""
_SIZE = (
    "SELECT (SELECT coalesce(sum(uses), 0) FROM tags WHERE ns = ?) "
    "+ coalesce(sum(1 + holders + mentioned + degree), 0) FROM nodes WHERE ns = ?"
)
_TAGGED = "SELECT tag, item FROM tags CROSS JOIN item_tags ON tag = tags.id WHERE ns = ?"
_OF_NODES = "SELECT node, item FROM nodes CROSS JOIN {} ON node = nodes.id WHERE ns = ?"
_EDGES = "SELECT source, target, weight FROM nodes CROSS JOIN edges ON source = nodes.id WHERE ns = ?"
