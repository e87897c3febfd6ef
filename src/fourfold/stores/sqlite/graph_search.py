"""The graph as retrieval sees it: items near some nodes, and items linked to some items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw

from fourfold.limits import HUB, WALK_EDGES
from fourfold.search.walk import Link
from fourfold.stores.sqlite.database import rows
from fourfold.stores.sqlite.items import batches, marks, possible

_Row = tuple[int, int, int]
_Edge = tuple[int, int, float, int, int]


def known_names(db: apsw.Connection, ns: int, names: Sequence[str]) -> dict[str, list[int]]:
    """Those of the names that nodes have, with their nodes."""
    found: dict[str, list[int]] = {}
    for part in batches(names):
        sql = f"SELECT folded, node FROM names WHERE ns = ? AND folded IN ({marks(len(part))})"  # noqa: S608  (placeholders)
        for name, node in db.execute(sql, (ns, *part)):
            found.setdefault(name, []).append(node)
    return found


def node_links(db: apsw.Connection, nodes: Sequence[int]) -> list[Link]:
    """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
    scope = _Scope(db)
    own = [Link(node, item, "own", 1.0, degree) for node, item, degree in scope.own(nodes)]
    naming = [Link(node, item, "names", 1.0, degree) for node, item, degree in scope.mentioning(nodes)]
    return [*own, *naming, *_over_edges(scope, [(node, node, degree) for node, degree in scope.degrees(nodes)])]


def item_links(db: apsw.Connection, ns: int, items: Sequence[int]) -> list[Link]:
    """From items of the namespace to what they mention, to what mentions them, and over one edge from their nodes."""
    scope = _Scope(db)
    items = possible(items)
    mentions = (Link(item, target, "mentions", 1.0, degree) for item, target, degree in scope.mentioned_by(ns, items))
    fans = (Link(item, fan, "mentioned-by", 1.0, degree) for item, fan, degree in scope.mentioners_of(ns, items))
    found = (*mentions, *fans, *_over_edges(scope, scope.nodes_of(ns, items)))
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


class _Scope:
    """Batched look-ups, joined from the left to the right (CROSS). Hubs lead nowhere (limits.HUB)."""

    def __init__(self, db: apsw.Connection) -> None:
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
            f"WHERE nodes.id IN ({{0}}) AND {count} <= {HUB} ORDER BY 1, 2"
        )
        return _batched(self._db, sql, nodes)

    def nodes_of(self, ns: int, items: Iterable[int]) -> list[_Row]:
        """(item, node, degree of the node): what items have as title or heading."""
        sql = (
            "SELECT item, node, degree FROM node_items CROSS JOIN nodes ON nodes.id = node "
            "WHERE +nodes.ns = ? AND item IN ({0})"
        )
        return _batched(self._db, sql, items, ns)

    def mentioned_by(self, ns: int, items: Iterable[int]) -> list[_Row]:
        """(item, item, ways over the node between them): from what names something to the items that it names."""
        return self._over_mentions("mentions", "node_items", f"AND holders <= {HUB}", ns, items)

    def mentioners_of(self, ns: int, items: Iterable[int]) -> list[_Row]:
        """The other way round."""
        return self._over_mentions("node_items", "mentions", "", ns, items)

    def _over_mentions(self, start: str, end: str, condition: str, ns: int, items: Iterable[int]) -> list[_Row]:
        sql = (
            f"SELECT a.item, b.item, mentioned * holders FROM {start} AS a CROSS JOIN nodes ON nodes.id = a.node "  # noqa: S608  (constants and our own clauses)
            f"CROSS JOIN {end} AS b ON b.node = a.node "
            f"WHERE +nodes.ns = ? AND a.item IN ({{0}}) AND mentioned <= {HUB} {condition}"
        )
        return _batched(self._db, sql, items, ns)

    def degrees(self, nodes: Iterable[int]) -> list[tuple[int, int]]:
        return _batched(self._db, "SELECT id, degree FROM nodes WHERE id IN ({0})", nodes)

    def edges(self, degrees: Mapping[int, int]) -> list[_Edge]:
        """(node, neighbour, weight, the neighbour's degree and items): each node's heaviest, and the heaviest of all.

        In both directions.
        """
        few = [node for node, degree in degrees.items() if degree <= HUB]
        found = [edge for sql in _EDGES for edge in _batched(self._db, sql.format("IN ({0})", ""), few)]
        found += [edge for node, degree in degrees.items() if degree > HUB for edge in self._heaviest(node)]
        return sorted(found, key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]

    def _heaviest(self, node: int) -> list[_Edge]:
        tail = f"ORDER BY weight DESC, nodes.id LIMIT {HUB}"
        found = [edge for sql in _EDGES for edge in rows(self._db, sql.format("= ?", tail), node)]
        return sorted(found, key=lambda edge: (-edge[2], edge[1]))[:HUB]


_EDGES = tuple(
    f"SELECT {near}, {far}, weight, degree, holders FROM edges CROSS JOIN nodes ON nodes.id = {far} "  # noqa: S608  (our own clauses)
    f"WHERE {near} {{0}} {{1}}"
    for near, far in (("source", "target"), ("target", "source"))
)


def _batched(db: apsw.Connection, sql: str, keys: Iterable[int], *before: int) -> list[Any]:
    """`before`: what is bound before the keys."""
    found: list[Any] = []
    for part in batches(sorted(keys)):
        found += rows(db, sql.format(marks(len(part))), *before, *part)
    return found
