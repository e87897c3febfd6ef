"""The graph as retrieval sees it: items near some nodes, and items linked to some items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from fourfold.limits import HUB, WALK_EDGES
from fourfold.search.walk import Link
from fourfold.stores.sqlite.database import rows
from fourfold.stores.sqlite.items import batches, marks

_Row = tuple[int, int, int]


def known_names(db: apsw.Connection, ns: int, names: Sequence[str]) -> dict[str, list[int]]:
    """Those of the names that nodes have, with their nodes."""
    found: dict[str, list[int]] = {}
    for part in batches(names):
        sql = f"SELECT folded, node FROM names WHERE ns = ? AND folded IN ({marks(len(part))})"
        for name, node in db.execute(sql, (ns, *part)):
            found.setdefault(name, []).append(node)
    return found


def node_links(db: apsw.Connection, nodes: Sequence[int]) -> list[Link]:
    """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
    scope = _Scope(db)
    own = [Link(node, item, "own", 1.0, degree) for node, item, degree in scope.own(nodes)]
    naming = [Link(node, item, "names", 1.0, degree) for node, item, degree in scope.mentioning(nodes)]
    return [*own, *naming, *_over_edges(scope, [(node, node) for node in nodes])]


def item_links(db: apsw.Connection, items: Sequence[int]) -> list[Link]:
    """From items to what they mention, to what mentions them, and over one edge from their nodes."""
    scope = _Scope(db)
    owned, named = scope.nodes_of(items), scope.mentioned_by(items)
    targets = _by_node(scope.own({node for _, node, _ in named}))
    fans = _by_node(scope.mentioning({node for _, node, _ in owned}))
    mentions = (
        Link(item, target, "mentions", 1.0, popularity * holders)
        for item, node, popularity in named
        for target, holders in targets.get(node, ())
    )
    mentioned = (
        Link(item, fan, "mentioned-by", 1.0, holders * popularity)
        for item, node, holders in owned
        for fan, popularity in fans.get(node, ())
    )
    found = (*mentions, *mentioned, *_over_edges(scope, [(item, node) for item, node, _ in owned]))
    return [link for link in found if link.source != link.item]


def _over_edges(scope: _Scope, starts: Sequence[tuple[int, int]]) -> list[Link]:
    """`starts`: (what the links start from, its node)."""
    edges = scope.edges({node for _, node in starts})
    degree = scope.degrees({end for node, target, _ in edges for end in (node, target)})
    targets = _by_node(scope.own({target for _, target, _ in edges}))
    sources: dict[int, list[int]] = {}
    for source, node in starts:
        sources.setdefault(node, []).append(source)
    return [
        Link(source, item, "edge", weight, degree[node] * degree[target] * holders)
        for node, target, weight in edges
        for item, holders in targets.get(target, ())
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
            f"SELECT nodes.id, item, {count} FROM nodes CROSS JOIN {table} ON node = nodes.id "
            f"WHERE nodes.id IN ({{0}}) AND {count} <= {HUB} ORDER BY 1, 2"
        )
        return _batched(self._db, sql, nodes)

    def nodes_of(self, items: Iterable[int]) -> list[_Row]:
        """(item, node, items of the node): what items have as title or heading."""
        sql = "SELECT item, node, holders FROM node_items CROSS JOIN nodes ON nodes.id = node WHERE item IN ({0})"
        return _batched(self._db, sql, items)

    def mentioned_by(self, items: Iterable[int]) -> list[_Row]:
        """(item, node, mentions of the node): what items name."""
        sql = (
            f"SELECT item, node, mentioned FROM mentions CROSS JOIN nodes ON nodes.id = node "
            f"WHERE item IN ({{0}}) AND mentioned <= {HUB}"
        )
        return _batched(self._db, sql, items)

    def degrees(self, nodes: Iterable[int]) -> dict[int, int]:
        return dict(_batched(self._db, "SELECT id, degree FROM nodes WHERE id IN ({0})", nodes))

    def edges(self, nodes: Iterable[int]) -> list[tuple[int, int, float]]:
        """(node, neighbour, weight) in both directions, each node's heaviest, and the heaviest of all."""
        degrees = self.degrees(nodes)
        few = [node for node, degree in degrees.items() if 0 < degree <= HUB]
        sql = (
            "SELECT source, target, weight FROM edges WHERE source IN ({0})",
            "SELECT target, source, weight FROM edges WHERE target IN ({0})",
        )
        found = [edge for text in sql for edge in _batched(self._db, text, few)]
        found += [edge for node, degree in degrees.items() if degree > HUB for edge in self._heaviest(node)]
        return sorted(found, key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]

    def _heaviest(self, node: int) -> list[tuple[int, int, float]]:
        tail = f"weight FROM edges WHERE {{}} = ? ORDER BY weight DESC, {{}} LIMIT {HUB}"
        out = rows(self._db, f"SELECT source, target, {tail.format('source', 'target')}", node)
        back = rows(self._db, f"SELECT target, source, {tail.format('target', 'source')}", node)
        return sorted([*out, *back], key=lambda edge: (-edge[2], edge[1]))[:HUB]


def _batched(db: apsw.Connection, sql: str, keys: Iterable[int]) -> list[Any]:
    found: list[Any] = []
    for part in batches(sorted(keys)):
        found += rows(db, sql.format(marks(len(part))), *part)
    return found


def _by_node(pairs: Iterable[_Row]) -> dict[int, list[tuple[int, int]]]:
    """Node to its (item, degree)."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for node, item, degree in pairs:
        groups.setdefault(node, []).append((item, degree))
    return groups
