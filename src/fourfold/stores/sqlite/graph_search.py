"""The graph as retrieval sees it: items near some nodes, and items linked to some items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from fourfold.limits import HUB, WALK_EDGES
from fourfold.model import Filters
from fourfold.search.walk import Link
from fourfold.stores.sqlite.database import rows
from fourfold.stores.sqlite.filters import where
from fourfold.stores.sqlite.items import chunks, marks

_Row = tuple[int, int, int]


def known_names(db: apsw.Connection, ns: int, names: Sequence[str]) -> dict[str, list[int]]:
    """Those of the names that nodes have, with their nodes."""
    found: dict[str, list[int]] = {}
    for part in chunks(names):
        sql = f"SELECT folded, node FROM names WHERE ns = ? AND folded IN ({marks(len(part))})"
        for name, node in db.execute(sql, (ns, *part)):
            found.setdefault(name, []).append(node)
    return found


def node_links(db: apsw.Connection, ns: int, nodes: Sequence[int], filters: Filters) -> list[Link]:
    """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
    scope = _Scope(db, ns, filters)
    own = [Link(node, item, "own", 1.0, degree) for node, item, degree in scope.own(nodes)]
    mentioned = [Link(node, item, "mentioned-by", 1.0, degree) for node, item, degree in scope.mentioning(nodes)]
    return [*own, *mentioned, *_over_edges(scope, [(node, node) for node in nodes])]


def item_links(db: apsw.Connection, ns: int, items: Sequence[int], filters: Filters) -> list[Link]:
    """From items to what they mention, to what mentions them, and over one edge from their nodes."""
    scope = _Scope(db, ns, filters)
    owned, named = scope.nodes_of(items), scope.mentioned_by(items)
    targets = _by_node(scope.own({node for _, node, _ in named}))
    fans = _by_node(scope.mentioning({node for _, node in owned}))
    mentions = (
        Link(item, target, "mentions", 1.0, popularity)
        for item, node, popularity in named
        for target, _ in targets.get(node, ())
    )
    mentioned = (
        Link(item, fan, "mentioned-by", 1.0, degree) for item, node in owned for fan, degree in fans.get(node, ())
    )
    found = (*mentions, *mentioned, *_over_edges(scope, owned))
    return [link for link in found if link.source != link.item]


def _over_edges(scope: _Scope, starts: Sequence[tuple[int, int]]) -> list[Link]:
    """`starts`: (what the links start from, its node)."""
    edges = scope.edges({node for _, node in starts})
    degree = Counter(node for node, _, _ in edges)
    targets = _by_node(scope.own({target for _, target, _ in edges}))
    sources: dict[int, list[int]] = {}
    for source, node in starts:
        sources.setdefault(node, []).append(source)
    return [
        Link(source, item, "edge", weight, degree[node])
        for node, target, weight in edges
        for item, _ in targets.get(target, ())
        for source in sources[node]
    ]


class _Scope:
    """Batched look-ups in one namespace, under the filters. Hubs lead nowhere (limits.HUB)."""

    def __init__(self, db: apsw.Connection, ns: int, filters: Filters) -> None:
        self._db = db
        self._here = f"JOIN items ON items.id = item AND items.ns = {ns}"
        condition, self._bindings = where(filters, ns)
        self._passing = f"{self._here}{condition}" if condition else ""

    def own(self, nodes: Iterable[int]) -> list[_Row]:
        """(node, item, items of the node): the items whose title or heading a node is."""
        return self._of_nodes("node_items", "holders", nodes)

    def mentioning(self, nodes: Iterable[int]) -> list[_Row]:
        """(node, item, mentions of the node): the items whose text names a node."""
        return self._of_nodes("mentions", "mentioned", nodes)

    def _of_nodes(self, table: str, count: str, nodes: Iterable[int]) -> list[_Row]:
        sql = (
            f"SELECT nodes.id, item, {count} FROM nodes JOIN {table} ON node = nodes.id {self._passing} "
            f"WHERE nodes.id IN ({{0}}) AND {count} <= {HUB} ORDER BY 1, 2"
        )
        return _batched(self._db, sql, nodes, self._bindings)

    def nodes_of(self, items: Iterable[int]) -> list[tuple[int, int]]:
        """(item, node)"""
        return _batched(self._db, f"SELECT item, node FROM node_items {self._here} WHERE item IN ({{0}})", items)

    def mentioned_by(self, items: Iterable[int]) -> list[_Row]:
        """(item, node, mentions of the node): what items name."""
        sql = (
            f"SELECT item, node, mentioned FROM mentions JOIN nodes ON nodes.id = node {self._here} "
            f"WHERE item IN ({{0}}) AND mentioned <= {HUB}"
        )
        return _batched(self._db, sql, items)

    def edges(self, nodes: Iterable[int]) -> list[tuple[int, int, float]]:
        """(node, neighbour, weight) in both directions, each node's heaviest, and the heaviest of all."""
        found = (edge for node in nodes for edge in self._edges_at(node))
        return sorted(found, key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]

    def _edges_at(self, node: int) -> list[tuple[int, int, float]]:
        tail = f"weight FROM edges WHERE {{}} = ? ORDER BY weight DESC, {{}} LIMIT {HUB}"
        out = rows(self._db, f"SELECT source, target, {tail.format('source', 'target')}", node)
        back = rows(self._db, f"SELECT target, source, {tail.format('target', 'source')}", node)
        return sorted([*out, *back], key=lambda edge: (-edge[2], edge[1]))[:HUB]


def _batched(db: apsw.Connection, sql: str, keys: Iterable[int], bindings: tuple[object, ...] = ()) -> list[Any]:
    found: list[Any] = []
    for part in chunks(sorted(keys)):
        found += rows(db, sql.format(marks(len(part))), *bindings, *part)
    return found


def _by_node(pairs: Iterable[_Row]) -> dict[int, list[tuple[int, int]]]:
    """Node to its (item, degree)."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for node, item, degree in pairs:
        groups.setdefault(node, []).append((item, degree))
    return groups
