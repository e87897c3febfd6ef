"""The graph as retrieval sees it: items near some nodes, and items linked to some items.

Hubs lead nowhere (limits.HUB): every look-up reads one row more of a node than a hub may have, so a walk
costs the same in any store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fourfold.limits import HUB, WALK_EDGES
from fourfold.search.walk import Link, longest
from fourfold.stores.postgres.sql import Db, digest, rows

_Row = tuple[int, int, int]


async def known_names(db: Db, ns: int, names: Sequence[str]) -> list[int]:
    """The nodes of those of the names that nodes have; the longest win."""
    sql = "SELECT folded, node FROM names WHERE ns = %s AND digest = ANY(%s::bytea[])"
    found: dict[str, list[int]] = {}
    for name, node in await rows(db, sql, ns, [digest(name) for name in names]) if names else ():
        found.setdefault(name, []).append(node)
    return sorted({node for name in longest(list(found)) for node in found[name]})


async def node_links(db: Db, nodes: Sequence[int]) -> list[Link]:
    """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
    if not nodes:
        return []
    own = [Link(node, item, "own", 1.0, degree) for node, item, degree in await _own(db, nodes)]
    mentioning = await _of_nodes(db, "mentions", nodes)
    mentioned = [Link(node, item, "mentioned-by", 1.0, degree) for node, item, degree in mentioning]
    return [*own, *mentioned, *await _over_edges(db, [(node, node) for node in nodes])]


async def item_links(db: Db, items: Sequence[int]) -> list[Link]:
    """From items to what they mention, to what mentions them, and over one edge from their nodes."""
    sql = "SELECT item, node FROM node_items WHERE item = ANY(%s::bigint[]) ORDER BY item, node"
    owned, named = await rows(db, sql, list(items)), await _mentioned_by(db, items)
    targets = _by_node(await _own(db, {node for _, node, _ in named}))
    fans = _by_node(await _of_nodes(db, "mentions", {node for _, node in owned}))
    mentions = (
        Link(item, target, "mentions", 1.0, popularity)
        for item, node, popularity in named
        for target, _ in targets.get(node, ())
    )
    mentioned = (
        Link(item, fan, "mentioned-by", 1.0, degree) for item, node in owned for fan, degree in fans.get(node, ())
    )
    found = (*mentions, *mentioned, *await _over_edges(db, owned))
    return [link for link in found if link.source != link.item]


async def _over_edges(db: Db, starts: Sequence[tuple[int, int]]) -> list[Link]:
    """`starts`: (what the links start from, its node)."""
    edges = await _edges(db, {node for _, node in starts})
    degree = Counter(node for node, _, _ in edges)
    targets = _by_node(await _own(db, {target for _, target, _ in edges}))
    sources: dict[int, list[int]] = {}
    for source, node in starts:
        sources.setdefault(node, []).append(source)
    return [
        Link(source, item, "edge", weight, degree[node])
        for node, target, weight in edges
        for item, _ in targets.get(target, ())
        for source in sources[node]
    ]


async def _own(db: Db, nodes: Iterable[int]) -> list[_Row]:
    """(node, item, items of the node): the items whose title or heading a node is."""
    return await _of_nodes(db, "node_items", nodes)


async def _of_nodes(db: Db, table: str, nodes: Iterable[int]) -> list[_Row]:
    sql = (
        "SELECT asked.node, found.item FROM unnest(%s::bigint[]) AS asked (node), "
        f"LATERAL (SELECT item FROM {table} WHERE node = asked.node LIMIT {HUB + 1}) AS found ORDER BY 1, 2"
    )
    wanted = sorted(set(nodes))
    found = await rows(db, sql, wanted) if wanted else []
    counts = Counter(node for node, _ in found)
    return [(node, item, counts[node]) for node, item in found if counts[node] <= HUB]


async def _mentioned_by(db: Db, items: Sequence[int]) -> list[_Row]:
    """(item, node, mentions of the node): what items name."""
    sql = (
        "SELECT item, node, (SELECT count(*) FROM "
        f"(SELECT 1 FROM mentions AS other WHERE other.node = mentions.node LIMIT {HUB + 1}) AS counted) "
        "FROM mentions WHERE item = ANY(%s::bigint[])"
    )
    return [row for row in await rows(db, sql, list(items)) if row[2] <= HUB]


async def _edges(db: Db, nodes: Iterable[int]) -> list[tuple[int, int, float]]:
    """(node, neighbour, weight) in both directions, each node's heaviest, and the heaviest of all."""
    wanted = sorted(set(nodes))
    if not wanted:
        return []
    each = (
        "SELECT asked.node, found.{1}, found.weight FROM unnest(%s::bigint[]) AS asked (node), LATERAL "
        f"(SELECT {{1}}, weight FROM edges WHERE {{0}} = asked.node ORDER BY weight DESC, {{1}} LIMIT {HUB}) AS found"
    )
    sql = f"{each.format('source', 'target')} UNION ALL {each.format('target', 'source')}"
    by_node: dict[int, list[tuple[int, int, float]]] = {}
    for edge in await rows(db, sql, wanted, wanted):
        by_node.setdefault(edge[0], []).append(edge)
    kept = [edge for edges in by_node.values() for edge in sorted(edges, key=lambda edge: (-edge[2], edge[1]))[:HUB]]
    return sorted(kept, key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]


def _by_node(pairs: Iterable[_Row]) -> dict[int, list[tuple[int, int]]]:
    """Node to its (item, degree)."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for node, item, degree in pairs:
        groups.setdefault(node, []).append((item, degree))
    return groups
