"""The graph as retrieval sees it: items near some nodes, and items linked to some items.

Hubs lead nowhere (limits.HUB): every look-up reads one row more of a node than a hub may have, so a walk
costs the same in any store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fourfold.limits import HUB, WALK_EDGES
from fourfold.search.walk import Link, longest
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, Statement, digest, possible, together

_Row = tuple[int, int, int]
_Edge = tuple[int, int, float]


def naming(ns: Namespace, names: Sequence[str]) -> Statement:
    sql = "SELECT folded, node FROM names WHERE ns = %s AND digest = ANY(%s::bytea[])"
    return sql, ns.id, [digest(name) for name in names]


def named(found: Iterable[tuple[str, int]]) -> list[int]:
    """The nodes of those names; the longest win."""
    nodes: dict[str, list[int]] = {}
    for name, node in found:
        nodes.setdefault(name, []).append(node)
    return sorted({node for name in longest(list(nodes)) for node in nodes[name]})


async def node_links(db: Db, nodes: Sequence[int]) -> list[Link]:
    """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
    if not nodes:
        return []
    found = await together(db, [_of("node_items", nodes), _of("mentions", nodes), _edges_of(nodes)])
    own = [Link(node, item, "own", 1.0, degree) for node, item, degree in _counted(found[0])]
    naming = [Link(node, item, "names", 1.0, degree) for node, item, degree in _counted(found[1])]
    return [*own, *naming, *await _over_edges(db, [(node, node) for node in nodes], found[2])]


def around(ns: Namespace, items: Sequence[int]) -> list[Statement]:
    """What items are the texts of with the number of its items, and what they name with that of its mentions."""
    of_items = "JOIN items ON items.id = item WHERE items.ns = %s AND item = ANY(%s::bigint[])"
    counted = (
        f"SELECT count(*) FROM (SELECT 1 FROM mentions AS o WHERE o.node = mentions.node LIMIT {HUB + 1}) AS some_"
    )
    return [
        (
            f"SELECT item, node, holders FROM node_items JOIN nodes ON nodes.id = node {of_items} ORDER BY item, node",
            ns.id,
            possible(items),
        ),
        (f"SELECT item, node, ({counted}) FROM mentions {of_items}", ns.id, possible(items)),
    ]


async def item_links(db: Db, owned: Sequence[_Row], naming: Sequence[_Row]) -> list[Link]:
    """From items to what they mention, to what mentions them, and over one edge from their nodes."""
    named = [row for row in naming if row[2] <= HUB]
    if not owned and not named:
        return []
    nodes, targets = {node for _, node, _ in owned}, {node for _, node, _ in named}
    found = await together(db, [_of("node_items", targets), _of("mentions", nodes), _edges_of(nodes)])
    own, fans = _by_node(_counted(found[0])), _by_node(_counted(found[1]))
    mentions = (
        Link(item, target, "mentions", 1.0, popularity * holders)
        for item, node, popularity in named
        for target, holders in own.get(node, ())
    )
    mentioned = (
        Link(item, fan, "mentioned-by", 1.0, holders * popularity)
        for item, node, holders in owned
        for fan, popularity in fans.get(node, ())
    )
    starts = [(item, node) for item, node, _ in owned]
    links = (*mentions, *mentioned, *await _over_edges(db, starts, found[2]))
    return [link for link in links if link.source != link.item]


async def _over_edges(db: Db, starts: Sequence[tuple[int, int]], found: Sequence[_Edge]) -> list[Link]:
    """`starts`: (what the links start from, its node)."""
    edges = _heaviest(found)
    if not edges:
        return []
    reached = {target for _, target, _ in edges}
    held, degrees = await together(db, [_of("node_items", reached), _degrees({node for node, _, _ in edges} | reached)])
    targets, degree = _by_node(_counted(held)), dict[int, int](degrees)
    sources: dict[int, list[int]] = {}
    for source, node in starts:
        sources.setdefault(node, []).append(source)
    return [
        Link(source, item, "edge", weight, degree[node] * degree[target] * holders)
        for node, target, weight in edges
        for item, holders in targets.get(target, ())
        for source in sources[node]
    ]


def _of(table: str, nodes: Iterable[int]) -> Statement:
    """The (node, item) of nodes, up to one more of each than a hub may have."""
    sql = (
        "SELECT asked.node, found.item FROM unnest(%s::bigint[]) AS asked (node), "
        f"LATERAL (SELECT item FROM {table} WHERE node = asked.node LIMIT {HUB + 1}) AS found ORDER BY 1, 2"
    )
    return sql, sorted(nodes)


def _counted(found: Sequence[tuple[int, int]]) -> list[_Row]:
    """(node, item, items of the node), without hubs."""
    counts = Counter(node for node, _ in found)
    return [(node, item, counts[node]) for node, item in found if counts[node] <= HUB]


def _edges_of(nodes: Iterable[int]) -> Statement:
    """(node, neighbour, weight) in both directions, each node's heaviest."""
    each = (
        "SELECT asked.node, found.{1}, found.weight FROM unnest(%s::bigint[]) AS asked (node), LATERAL "
        f"(SELECT {{1}}, weight FROM edges WHERE {{0}} = asked.node ORDER BY weight DESC, {{1}} LIMIT {HUB}) AS found"
    )
    wanted = sorted(nodes)
    return f"{each.format('source', 'target')} UNION ALL {each.format('target', 'source')}", wanted, wanted


def _degrees(nodes: Iterable[int]) -> Statement:
    return "SELECT id, degree FROM nodes WHERE id = ANY(%s::bigint[])", sorted(nodes)


def _heaviest(found: Sequence[_Edge]) -> list[_Edge]:
    by_node: dict[int, list[_Edge]] = {}
    for edge in found:
        by_node.setdefault(edge[0], []).append(edge)
    kept = [edge for edges in by_node.values() for edge in sorted(edges, key=lambda edge: (-edge[2], edge[1]))[:HUB]]
    return sorted(kept, key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]


def _by_node(pairs: Iterable[_Row]) -> dict[int, list[tuple[int, int]]]:
    """Node to its (item, degree)."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for node, item, degree in pairs:
        groups.setdefault(node, []).append((item, degree))
    return groups
