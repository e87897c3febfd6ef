"""Links and tags as retrieval sees them: items near some nodes, items linked to some items, and uses of tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fourfold import limits
from fourfold.limits import WALK_EDGES
from fourfold.model import NO_FILTERS, Filters
from fourfold.ranking.connections import MOST_TAGS, rarity
from fourfold.retrieval import Link
from fourfold.storage.sql.filters import where
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.values import TagUse

_Row = tuple[int, int, int]
_Edge = tuple[int, int, float, int, int]


def node_links(db: Connection, nodes: Sequence[int]) -> list[Link]:
    """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
    scope = _Scope(db)
    own = [Link(node, item, "own", 1.0, degree) for node, item, degree in scope.own(nodes)]
    naming = [Link(node, item, "names", 1.0, degree) for node, item, degree in scope.mentioning(nodes)]
    return [*own, *naming, *_over_edges(scope, [(node, node, degree) for node, degree in scope.degrees(nodes)])]


def item_links(db: Connection, ns: int, items: Sequence[int]) -> list[Link]:
    """From items of the namespace to what they mention, to what mentions them, and over one edge from their nodes."""
    scope = _Scope(db)
    mentions = (Link(item, target, "mentions", 1.0, degree) for item, target, degree in scope.mentioned_by(ns, items))
    mentioning = (Link(item, by, "mentioned-by", 1.0, degree) for item, by, degree in scope.mentioners_of(ns, items))
    found = (*mentions, *mentioning, *_over_edges(scope, scope.nodes_of(ns, items)))
    return [link for link in found if link.source != link.item]


def _over_edges(scope: _Scope, starts: Sequence[_Row]) -> list[Link]:
    """`starts`: (what the links start from, its node, the node's degree)."""
    degree = {node: degree for _, node, degree in starts if degree}
    if not degree:
        return []
    edges = scope.edges(degree)
    targets: dict[int, list[int]] = {}
    for node, item, _ in scope.own({target for _, target, *_ in edges}):
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


def heaviest_edges(db: Connection, degrees: Mapping[int, int]) -> list[tuple[int, int, float]]:
    """(node, neighbour, weight) of the edges of each node, in both directions; of a hub, the heaviest."""
    return [(near, far, weight) for near, far, weight, *_ in _Scope(db).heaviest_of_each(degrees)]


class _Scope:
    """Batched look-ups, joined from the left to the right (CROSS). Hubs lead nowhere (limits.HUB)."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def own(self, nodes: Iterable[int]) -> list[_Row]:
        """(node, item, items of the node): the items whose title or heading a node is."""
        return self._of_nodes("node_items", "holders", nodes)

    def mentioning(self, nodes: Iterable[int]) -> list[_Row]:
        """(node, item, mentions of the node): the items whose text names a node."""
        return self._of_nodes("mentions", "mentioned", nodes)

    def _of_nodes(self, table: str, count: str, nodes: Iterable[int]) -> list[_Row]:
        sql = (
            f"SELECT nodes.id, item, {count} FROM nodes CROSS JOIN {table} ON node = nodes.id "  # noqa: S608  (constants and our own clauses)
            f"WHERE nodes.id {{0}} AND {count} <= {limits.HUB} ORDER BY 1, 2"
        )
        return _of_keys(self._db, sql, nodes)

    def nodes_of(self, ns: int, items: Iterable[int]) -> list[_Row]:
        """(item, node, degree of the node): what items have as title or heading."""
        sql = (
            "SELECT item, node, degree FROM node_items CROSS JOIN nodes ON nodes.id = node "
            "WHERE +nodes.ns = ? AND item {0}"
        )
        return _of_keys(self._db, sql, items, ns)

    def mentioned_by(self, ns: int, items: Iterable[int]) -> list[_Row]:
        """(item, item, ways over the node between them): from what names something to the items that it names."""
        return self._over_mentions("mentions", "node_items", f"AND holders <= {limits.HUB}", ns, items)

    def mentioners_of(self, ns: int, items: Iterable[int]) -> list[_Row]:
        """The other way round."""
        return self._over_mentions("node_items", "mentions", "", ns, items)

    def _over_mentions(self, start: str, end: str, condition: str, ns: int, items: Iterable[int]) -> list[_Row]:
        sql = (
            f"SELECT a.item, b.item, mentioned * holders FROM {start} AS a CROSS JOIN nodes ON nodes.id = a.node "  # noqa: S608  (constants and our own clauses)
            f"CROSS JOIN {end} AS b ON b.node = a.node "
            f"WHERE +nodes.ns = ? AND a.item {{0}} AND mentioned <= {limits.HUB} {condition}"
        )
        return _of_keys(self._db, sql, items, ns)

    def degrees(self, nodes: Iterable[int]) -> list[tuple[int, int]]:
        return _of_keys(self._db, "SELECT id, degree FROM nodes WHERE id {0}", nodes)

    def edges(self, degrees: Mapping[int, int]) -> list[_Edge]:
        """(node, neighbour, weight, the neighbour's degree and items): each node's heaviest, and the heaviest of all.

        In both directions.
        """
        return sorted(self.heaviest_of_each(degrees), key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]

    def heaviest_of_each(self, degrees: Mapping[int, int]) -> list[_Edge]:
        """The edges of each node; of a hub, the heaviest."""
        few = [node for node, degree in degrees.items() if 0 < degree <= limits.HUB]
        found = [edge for sql in _EDGES for edge in _of_keys(self._db, sql.format("{0}", ""), few)]
        return [*found, *(edge for node in degrees if degrees[node] > limits.HUB for edge in self._heaviest(node))]

    def _heaviest(self, node: int) -> list[_Edge]:
        tail = f"ORDER BY weight DESC, nodes.id LIMIT {limits.HUB}"
        found = [edge for sql in _EDGES for edge in self._db.rows(sql.format("= ?", tail), node)]
        return sorted(found, key=lambda edge: (-edge[2], edge[1]))[: limits.HUB]


_EDGES = tuple(
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


def carried(db: Connection, ns: int, ids: Sequence[int]) -> dict[str, int]:
    """The tags of these items, folded, each with the number of items that carry it."""
    sql = f"SELECT folded, uses FROM item_tags CROSS JOIN tags ON tags.id = tag WHERE item {db.any_id} AND ns = ?"  # noqa: S608  (constants)
    return dict(db.rows(sql, db.ids(ids), ns))


def uses(db: Connection, ns: int, candidates: Sequence[str], filters: Filters, limit: int) -> list[TagUse]:
    """Uses of those candidates that are tags, by the `limit` items that carry the most and rarest of them.

    SQLite adds up and cuts off: a tag that 20,000 items carry makes no 20,000 objects here.
    """
    sql = f"SELECT id, folded, uses FROM tags WHERE ns = ? AND folded {db.any_text} AND uses > 0"  # noqa: S608  (constants)
    known = db.rows(sql, ns, db.texts(candidates)) if candidates else []
    condition, bindings = ("", ()) if filters is NO_FILTERS else where(db, filters, ns)
    source = "item_tags" if not condition else "item_tags CROSS JOIN items ON items.id = item"
    found: list[TagUse] = []
    known = sorted(known, key=lambda row: row[2])[:MOST_TAGS]
    if known:
        weights = " ".join(f"WHEN {tag} THEN {rarity(count)!r}" for tag, _, count in known)
        bits = " ".join(f"WHEN {tag} THEN {1 << place}" for place, (tag, *_) in enumerate(known))
        sql = (
            f"SELECT item, sum(CASE tag {bits} END) FROM {source} "  # noqa: S608  (numbers and our own clauses)
            f"WHERE tag IN ({', '.join(str(tag) for tag, *_ in known)}){condition} "
            f"GROUP BY item ORDER BY sum(CASE tag {weights} END) DESC, item LIMIT ?"
        )
        for item, carried in db.rows(sql, *bindings, limit):
            found += (TagUse(item, tag, count) for place, (_, tag, count) in enumerate(known) if carried >> place & 1)
    return sorted(found)


def tagged(db: Connection, ns: int, candidates: Sequence[str]) -> list[TagUse]:
    """Every use of those of these folded strings that are tags."""
    sql = (
        "SELECT item, folded, uses FROM tags CROSS JOIN item_tags ON tag = tags.id "  # noqa: S608  (constants)
        f"WHERE ns = ? AND folded {db.any_text}"
    )
    return sorted(map(TagUse._make, db.rows(sql, ns, db.texts(candidates)))) if candidates else []
