"""The graph as retrieval sees it: items near some nodes, and items linked to some items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import apsw

from fourfold.limits import WALK_EDGES
from fourfold.model import Filters
from fourfold.search.walk import Link, LinkKind
from fourfold.stores.sqlite.database import rows
from fourfold.stores.sqlite.filters import where
from fourfold.stores.sqlite.items import chunks, marks

_Pairs = list[tuple[int, int]]


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
    own = _links(scope.own(nodes), "own")
    mentioned = _links(scope.mentioning(nodes), "mentioned-by")
    return [*own, *mentioned, *_over_edges(scope, [(node, node) for node in nodes])]


def item_links(db: apsw.Connection, ns: int, items: Sequence[int], filters: Filters) -> list[Link]:
    """From items to what they mention, to what mentions them, and over one edge from their nodes."""
    scope = _Scope(db, ns, filters)
    here = f"JOIN items ON items.id = item AND items.ns = {ns} WHERE item IN ({{0}}) ORDER BY 1, 2"
    owned = _pairs(db, f"SELECT item, node FROM node_items {here}", items)
    named = _pairs(db, f"SELECT item, node FROM mentions {here}", items)
    popularity = scope.popularity({node for _, node in named})
    targets = _by_first(scope.own({node for _, node in named}))
    mentions = [
        Link(item, target, "mentions", 1.0, popularity[node])
        for item, node in named
        for target in targets.get(node, ())
    ]
    fans = _by_first(scope.mentioning({node for _, node in owned}))
    mentioned = [
        Link(item, fan, "mentioned-by", 1.0, len(fans[node])) for item, node in owned for fan in fans.get(node, ())
    ]
    found = [*mentions, *mentioned, *_over_edges(scope, owned)]
    return [link for link in found if link.source != link.item]


def _over_edges(scope: _Scope, starts: _Pairs) -> list[Link]:
    """`starts`: (what the links start from, its node)."""
    edges = scope.edges({node for _, node in starts})
    degree = Counter(node for node, _, _ in edges)
    targets = _by_first(scope.own({target for _, target, _ in edges}))
    sources = _by_first([(node, source) for source, node in starts])
    return [
        Link(source, item, "edge", weight, degree[node])
        for node, target, weight in edges
        for item in targets.get(target, ())
        for source in sources[node]
    ]


class _Scope:
    """Batched look-ups in one namespace, under the filters."""

    def __init__(self, db: apsw.Connection, ns: int, filters: Filters) -> None:
        self._db = db
        condition, bindings = where(filters, ns)
        self._bindings = bindings
        self._items = f"JOIN items ON items.id = item AND items.ns = {ns}{condition}" if condition else ""

    def own(self, nodes: Iterable[int]) -> _Pairs:
        """(node, item): the items whose title or heading a node is."""
        sql = f"SELECT node, item FROM node_items {self._items} WHERE node IN ({{0}}) ORDER BY 1, 2"
        return _pairs(self._db, sql, nodes, self._bindings)

    def mentioning(self, nodes: Iterable[int]) -> _Pairs:
        """(node, item): the items whose text names a node."""
        sql = f"SELECT node, item FROM mentions {self._items} WHERE node IN ({{0}}) ORDER BY 1, 2"
        return _pairs(self._db, sql, nodes, self._bindings)

    def popularity(self, nodes: Iterable[int]) -> dict[int, int]:
        """How many items mention each node."""
        return dict(_pairs(self._db, "SELECT node, count(*) FROM mentions WHERE node IN ({0}) GROUP BY node", nodes))

    def edges(self, nodes: Iterable[int]) -> list[tuple[int, int, float]]:
        """(node, neighbour, weight) in both directions, the heaviest if there are too many."""
        found: list[tuple[int, int, float]] = []
        for part in chunks(sorted(nodes)):
            inside = marks(len(part))
            sql = (
                f"SELECT source, target, weight FROM edges WHERE source IN ({inside}) UNION ALL "
                f"SELECT target, source, weight FROM edges WHERE target IN ({inside})"
            )
            found += rows(self._db, sql, *part, *part)
        return sorted(found, key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]


def _pairs(db: apsw.Connection, sql: str, keys: Iterable[int], bindings: tuple[object, ...] = ()) -> _Pairs:
    found: _Pairs = []
    for part in chunks(sorted(keys)):
        found += rows(db, sql.format(marks(len(part))), *bindings, *part)
    return found


def _links(pairs: _Pairs, kind: LinkKind) -> list[Link]:
    degree = Counter(source for source, _ in pairs)
    return [Link(source, item, kind, 1.0, degree[source]) for source, item in pairs]


def _by_first(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for first, second in pairs:
        groups.setdefault(first, []).append(second)
    return groups
