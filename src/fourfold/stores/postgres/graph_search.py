"""The graph as retrieval sees it: items near some nodes, and items linked to some items.

Hubs lead nowhere (limits.HUB): every look-up reads one row more of a node than a hub may have, so a walk
costs the same in any store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fourfold.limits import HUB, WALK_EDGES
from fourfold.search.walk import Link, longest
from fourfold.stores.postgres.spaces import BY_NAME
from fourfold.stores.postgres.sql import Statement, digest, possible

Items = list[int]
"""Of a node; one more than a hub may have stands for all of a hub's."""
_Row = tuple[int, int, float, int, int, Items]
"""An edge: node, neighbour, weight, the number of edges of each, and the items of the neighbour. What is not an edge:
where it starts, a node, nothing, how many items that has or how many mention it, nothing, and the items it leads to."""


def _items(table: str, node: str) -> str:
    return f"ARRAY(SELECT item FROM {table} WHERE node = {node} ORDER BY item LIMIT {HUB + 1})"  # noqa: S608  (constants and our own clauses)


def _edges(asked: str) -> str:
    """Over the heaviest edges of nodes, in both directions, and of these over the heaviest."""
    each = (
        f"(SELECT {{1}} AS target, weight FROM edges WHERE {{0}} = asked.node ORDER BY weight DESC, {{1}} LIMIT {HUB})"  # noqa: S608  (constants)
    )
    both = f"{each.format('source', 'target')} UNION ALL {each.format('target', 'source')}"
    return (
        "SELECT e.node, e.target, e.weight, a.degree::bigint, b.degree::bigint, "  # noqa: S608  (constants, our own clauses and placeholders)
        f"{_items('node_items', 'e.target')} FROM ("
        f"SELECT asked.node, found.target, found.weight FROM {asked} AS asked (node), LATERAL "
        f"(SELECT target, weight FROM ({both}) AS ends ORDER BY weight DESC, target LIMIT {HUB}) AS found "
        f"ORDER BY found.weight DESC, asked.node, found.target LIMIT {WALK_EDGES}"
        ") AS e JOIN nodes AS a ON a.id = e.node JOIN nodes AS b ON b.id = e.target "
        "ORDER BY e.weight DESC, e.node, e.target"
    )


# ---------------------------------------------------------------- from names


def naming(namespace: str, names: Sequence[str]) -> Statement:
    sql = f"SELECT folded, node FROM names WHERE ns = {BY_NAME} AND digest = ANY(%s::bytea[])"  # noqa: S608  (constants)
    return sql, namespace, [digest(name) for name in names]


def named(found: Iterable[tuple[str, int]]) -> list[int]:
    """The nodes of those names; the longest win."""
    nodes: dict[str, list[int]] = {}
    for name, node in found:
        nodes.setdefault(name, []).append(node)
    return sorted({node for name in longest(list(nodes)) for node in nodes[name]})


_NODES = "unnest(%s::bigint[])"
_AROUND_NODES = [
    f"SELECT asked.node, asked.node, 0::float8, 0::bigint, 0::bigint, {_items(table, 'asked.node')} "  # noqa: S608  (constants and our own clauses)
    f"FROM {_NODES} AS asked (node)"
    for table in ("node_items", "mentions")
]
_EDGES_OF_NODES = _edges(_NODES)


def around_nodes(nodes: Sequence[int]) -> list[Statement]:
    """What `node_links` takes."""
    return [(sql, list(nodes)) for sql in (*_AROUND_NODES, _EDGES_OF_NODES)]


def node_links(owning: Sequence[_Row], mentioned: Sequence[_Row], edges: Sequence[_Row]) -> list[Link]:
    """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
    own = [Link(node, item, "own", 1.0, len(items)) for node, *_, items in owning for item in _few(items)]
    naming = [Link(node, item, "names", 1.0, len(items)) for node, *_, items in mentioned for item in _few(items)]
    return [*own, *naming, *_over(edges, {row[0]: [row[0]] for row in owning})]


# ---------------------------------------------------------------- from items


_OF_ITEMS = f"JOIN items ON items.id = item WHERE items.ns = {BY_NAME} AND item = ANY(%s::bigint[])"
_OWNED = (
    f"SELECT item, node, 0::float8, holders::bigint, 0::bigint, {_items('mentions', 'nodes.id')} "  # noqa: S608  (constants and our own clauses)
    f"FROM node_items JOIN nodes ON nodes.id = node {_OF_ITEMS} ORDER BY item, node"
)
_NAMED = (
    f"SELECT asked.item, asked.node, 0::float8, popularity, 0::bigint, {_items('node_items', 'asked.node')} "  # noqa: S608  (constants and our own clauses)
    f"FROM (SELECT item, node FROM mentions {_OF_ITEMS}) AS asked, LATERAL (SELECT count(*) AS popularity FROM "
    f"(SELECT 1 FROM mentions AS o WHERE o.node = asked.node LIMIT {HUB + 1}) AS some_) AS counted "
    f"WHERE popularity <= {HUB} ORDER BY asked.item, asked.node"
)
_EDGES_OF_ITEMS = _edges(f"(SELECT DISTINCT node FROM node_items {_OF_ITEMS})")  # noqa: S608  (constants)


def around_items(namespace: str, items: Sequence[int]) -> list[Statement]:
    """What `item_links` takes."""
    wanted = possible(items)
    return [(sql, namespace, wanted) for sql in (_OWNED, _NAMED, _EDGES_OF_ITEMS)]


def item_links(owned: Sequence[_Row], named: Sequence[_Row], edges: Sequence[_Row]) -> list[Link]:
    """From items to what they mention, to what mentions them, and over one edge from their nodes."""
    mentions = (
        Link(item, target, "mentions", 1.0, popularity * len(own))
        for item, _, _, popularity, _, own in named
        for target in _few(own)
    )
    mentioned = (
        Link(item, fan, "mentioned-by", 1.0, holders * len(fans))
        for item, _, _, holders, _, fans in owned
        for fan in _few(fans)
    )
    starts: dict[int, list[int]] = {}
    for item, node, *_ in owned:
        starts.setdefault(node, []).append(item)
    return [link for link in (*mentions, *mentioned, *_over(edges, starts)) if link.source != link.item]


def _over(edges: Iterable[_Row], starts: dict[int, list[int]]) -> list[Link]:
    """`starts`: what the links of each node start from."""
    return [
        Link(source, item, "edge", weight, degree * reached * len(items))
        for node, _, weight, degree, reached, items in edges
        for item in _few(items)
        for source in starts[node]
    ]


def _few(items: Items) -> Items:
    """None of a hub's."""
    return items if len(items) <= HUB else []
