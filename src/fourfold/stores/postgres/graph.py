"""Nodes and edges: adding, finding, removing, and walking by name."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

from fourfold import items as rules
from fourfold.errors import NotFound
from fourfold.model import Edge, Neighbor, Node, NodeSummary, NodeView, Page
from fourfold.storage.naming import ambiguous, no_node
from fourfold.stores.base import Direction, NewNode
from fourfold.stores.near import near_count, near_page, near_steps
from fourfold.stores.postgres import items
from fourfold.stores.postgres.ids import new as new_ids
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, digest, possible, rows, run, run_many, sendable, value
from fourfold.stores.sqlite.database import dumps
from fourfold.text.entities import normal_name, split_label, with_label

Step = tuple[int, str, int, float]
"""Source node, relation, target node, weight."""
Wanted = tuple[str, str]
"""Name and label of a node."""

LABEL = "entity"
MENTIONS = "mentions"
"""The relation of the edges that texts make by themselves (B11)."""


# ---------------------------------------------------------------- nodes


async def ensure_nodes(db: Db, ns: int, wanted: Sequence[Wanted], *, made: bool) -> tuple[dict[Wanted, int], list[str]]:
    """The nodes of these (name, label), made where there are none, and the names that are new."""
    folded = {pair: normal_name(pair[0]) for pair in wanted}
    first: dict[tuple[bytes, str], tuple[str, str]] = {}
    for (name, label), normal in folded.items():
        first.setdefault((digest(normal), label), (name, normal))
    sql = "SELECT digest, label, id FROM nodes WHERE ns = %s AND digest = ANY(%s::bytea[])"
    found = await rows(db, sql, ns, [key for key, _ in first]) if first else []
    known = {(key, label): id for key, label, id in found if (key, label) in first}
    if made and known:
        await run(db, "UPDATE nodes SET made = true WHERE id = ANY(%s::bigint[]) AND NOT made", list(known.values()))
    lacking = [key for key in first if key not in known]
    fresh = await new_ids(db, ns, "nodes", len(lacking))
    await insert_nodes(db, ns, [(id, first[key][0], key[1], made) for id, key in zip(fresh, lacking, strict=True)])
    known |= dict(zip(lacking, fresh, strict=True))
    return {pair: known[digest(name), pair[1]] for pair, name in folded.items()}, [first[key][1] for key in lacking]


async def insert_nodes(db: Db, ns: int, new: Sequence[tuple[int, str, str, bool]]) -> None:
    """Rows of (id, name, label, made)."""
    await run_many(
        db,
        "INSERT INTO nodes (id, ns, name, digest, label, properties, made) VALUES (%s, %s, %s, %s, %s, '{}', %s)",
        [(id, ns, name, digest(normal_name(name)), label, made) for id, name, label, made in new],
    )
    await add_names(db, ns, [(id, normal_name(name), None) for id, name, _, _ in new])


async def add_names(db: Db, ns: int, new: Sequence[tuple[int, str, str | None]]) -> None:
    """Rows of (node, folded name, alias); names that a node has stay as they are."""
    await run_many(
        db,
        "INSERT INTO names VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        [(ns, digest(folded), node, digest(opening(folded)), folded, alias) for node, folded, alias in new],
    )


def opening(folded: str) -> str:
    """What a text has to hold for this name to be looked for: its only word, or its first two."""
    return " ".join(folded.split(" ", 2)[:2])


async def add_node(db: Db, ns: Namespace, new: NewNode) -> tuple[int, list[str]]:
    """The node of that name and label with all that is new about it, and the names that are new."""
    if new.item is not None and not await items.existing(db, ns.id, [new.item]):
        raise NotFound(f"no item {new.item}", "Store the item first, then refer to its id")
    nodes, fresh = await ensure_nodes(db, ns.id, [(new.name, new.label)], made=True)
    node = nodes[new.name, new.label]
    if new.properties is not None:
        known = json.loads((await rows(db, "SELECT properties FROM nodes WHERE id = %s", node))[0][0])
        merged = rules.merged_properties(known, new.properties)
        await run(db, "UPDATE nodes SET properties = %s WHERE id = %s", dumps(merged), node)
    had = {name for (name,) in await rows(db, "SELECT folded FROM names WHERE node = %s", node)}
    aliases = {normal_name(alias): alias for alias in reversed(new.aliases)}
    added = [name for name in aliases if name not in had]
    rules.check_aliases(len(had) - 1 + len(added))  # one of those it had is its own name
    await add_names(db, ns.id, [(node, name, aliases[name]) for name in added])
    if new.item is not None:
        await attach(db, [(node, new.item, True)])
    return node, [*fresh, *added]


async def attach(db: Db, pairs: Sequence[tuple[int, int, bool]]) -> None:
    """Makes items the texts of nodes, (node, item, whether somebody said so); they no longer just mention them."""
    if not pairs:
        return
    said = {(node, item): made for node, item, made in sorted(pairs)}
    nodes, items = map(list, zip(*said, strict=True))
    await run(
        db,
        "INSERT INTO node_items SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::boolean[]) "
        "ON CONFLICT (node, item) DO UPDATE SET made = node_items.made OR excluded.made",
        nodes, items, list(said.values()),
    )  # fmt: skip
    sql = "DELETE FROM mentions USING unnest(%s::bigint[], %s::bigint[]) AS own (node, item) "
    await run(db, sql + "WHERE mentions.node = own.node AND mentions.item = own.item", nodes, items)


async def detach(db: Db, pairs: Sequence[tuple[int, int]]) -> None:
    """Items are no longer the texts of these nodes: (node, item)."""
    if pairs:
        sql = "DELETE FROM node_items USING unnest(%s::bigint[], %s::bigint[]) AS own (node, item) "
        sql += "WHERE node_items.node = own.node AND node_items.item = own.item"
        await run(db, sql, *map(list, zip(*pairs, strict=True)))


async def resolve(db: Db, ns: int, reference: str, label: str | None = None) -> int | None:
    """The node that a name, an alias or `Name#label` means; its own name comes before others' aliases."""
    name, label = split_label(reference) if label is None else (reference, label)
    sql = (
        "SELECT nodes.id, nodes.label, names.alias IS NULL FROM names JOIN nodes ON nodes.id = names.node "
        "WHERE names.ns = %s AND names.digest = %s AND (%s::text IS NULL OR nodes.label = %s) ORDER BY 3 DESC, 2"
    )
    known = label is None or sendable([label])
    found = await rows(db, sql, ns, digest(normal_name(name)), label, label) if known else []
    best = [row for row in found if row[2] == found[0][2]]
    if len(best) > 1:
        raise ambiguous(name, (label for _, label, _ in best))
    return best[0][0] if best else None


async def required(db: Db, ns: int, reference: str, label: str | None = None) -> int:
    node = await resolve(db, ns, reference, label)
    if node is None:
        raise no_node(reference if label is None else with_label(reference, label))
    return node


async def read_nodes(db: Db, nodes: Sequence[int]) -> dict[int, Node]:
    aliases: dict[int, list[str]] = {}
    sql = "SELECT node, alias FROM names WHERE node = ANY(%s::bigint[]) AND alias IS NOT NULL ORDER BY alias"
    for node, alias in await rows(db, sql, list(nodes)):
        aliases.setdefault(node, []).append(alias)
    sql = "SELECT node, min(item) FROM node_items WHERE node = ANY(%s::bigint[]) GROUP BY node"
    owned = dict(await rows(db, sql, list(nodes)))
    sql = "SELECT id, name, label, properties FROM nodes WHERE id = ANY(%s::bigint[]) ORDER BY id"
    return {
        node: Node(node, name, label, tuple(aliases.get(node, ())), json.loads(properties), owned.get(node))
        for node, name, label, properties in await rows(db, sql, list(nodes))
    }


class Gone(NamedTuple):
    """What went with some nodes."""

    names: list[str]
    """Names that no node has any more."""
    fans: list[int]
    """Items that named the nodes; they may mean others now: York, where New York is gone."""


async def summaries(db: Db, ns: Namespace, like: str, limit: int, offset: int) -> list[NodeSummary]:
    sql = (
        "SELECT name, label, held, named, degree FROM nodes "
        "JOIN names own ON own.node = nodes.id AND own.alias IS NULL, "
        "LATERAL (SELECT count(*) AS held FROM node_items WHERE node = nodes.id) AS holding, "
        "LATERAL (SELECT count(*) AS named FROM mentions WHERE node = nodes.id) AS naming "
        "WHERE nodes.ns = %s AND (%s = '' OR EXISTS "
        "(SELECT 1 FROM names WHERE node = nodes.id AND strpos(names.folded, %s) > 0)) "
        "ORDER BY held + named + degree DESC, own.folded, label LIMIT %s OFFSET %s"
    )
    found = await rows(db, sql, ns.id, like, like, limit, offset) if sendable([like]) else []
    return [NodeSummary(*row) for row in found]


async def view(db: Db, node: int, limit: int) -> NodeView:
    items = await rows(db, "SELECT item FROM node_items WHERE node = %s ORDER BY item LIMIT %s", node, limit)
    mentions = await rows(db, "SELECT item FROM mentions WHERE node = %s ORDER BY item LIMIT %s", node, limit)
    sql = (
        "SELECT a.name, relation, b.name, weight FROM edges "
        "JOIN nodes a ON a.id = source JOIN nodes b ON b.id = target "
        "JOIN names c ON c.node = a.id AND c.alias IS NULL JOIN names d ON d.node = b.id AND d.alias IS NULL "
        "WHERE source = %s OR target = %s ORDER BY weight DESC, c.folded, relation, d.folded LIMIT %s"
    )
    edges = await rows(db, sql, node, node, limit)
    return NodeView(
        (await read_nodes(db, [node]))[node],
        tuple(item for (item,) in items),
        tuple(item for (item,) in mentions),
        tuple(Edge(*edge) for edge in edges),
    )


async def remove_nodes(db: Db, ns: int, nodes: Collection[int]) -> Gone:
    """Removes nodes with their edges and mentions."""
    if not nodes:
        return Gone([], [])
    ids = list(nodes)
    naming = (
        "SELECT item FROM mentions WHERE node = ANY(%s::bigint[]) "
        "UNION SELECT item FROM node_items WHERE node = ANY(%s::bigint[]) ORDER BY item"
    )
    fans = [item for (item,) in await rows(db, naming, ids, ids)]
    names = [name for (name,) in await rows(db, "SELECT folded FROM names WHERE node = ANY(%s::bigint[])", ids)]
    await run(db, "DELETE FROM nodes WHERE id = ANY(%s::bigint[])", ids)
    sql = "SELECT folded FROM names WHERE ns = %s AND digest = ANY(%s::bytea[])"
    left = {name for (name,) in await rows(db, sql, ns, [digest(name) for name in names])}
    return Gone([name for name in names if name not in left], fans)


async def nodes_of(db: Db, ids: Sequence[int]) -> set[int]:
    """The nodes that items are the texts of."""
    sql = "SELECT DISTINCT node FROM node_items WHERE item = ANY(%s::bigint[])"
    return {node for (node,) in await rows(db, sql, possible(ids))}


async def prune(db: Db, ns: int, nodes: Collection[int]) -> Gone:
    """Removes those nodes that only existed because of a title that is gone."""
    sql = (
        "SELECT id FROM nodes WHERE id = ANY(%s::bigint[]) AND NOT made "
        "AND NOT EXISTS (SELECT 1 FROM node_items WHERE node = nodes.id) "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE source = nodes.id) "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE target = nodes.id)"
    )
    return await remove_nodes(db, ns, [node for (node,) in await rows(db, sql, list(nodes))] if nodes else [])


# ---------------------------------------------------------------- edges


async def add_edges(db: Db, ns: int, edges: Sequence[Edge]) -> list[str]:
    """Nodes that do not exist are made; the names that are new."""
    known: dict[str, int] = {}
    fresh: list[str] = []
    for name in dict.fromkeys(end for edge in edges for end in (edge.source, edge.target)):
        node = await resolve(db, ns, name)
        if node is None:
            named, label = split_label(name)
            made, added = await ensure_nodes(db, ns, [(named, label or LABEL)], made=True)
            node = made[named, label or LABEL]
            fresh += added
        known[name] = node
    await set_edges(db, [(known[edge.source], edge.relation, known[edge.target], edge.weight) for edge in edges])
    return fresh


async def set_edges(db: Db, edges: Sequence[Step]) -> None:
    """In one statement: the counters of their ends move once. Of two for the same edge the last counts."""
    last = {edge[:3]: edge for edge in edges}
    if last:
        await run(
            db,
            "INSERT INTO edges SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::float8[]) "
            "ON CONFLICT (source, relation, target) DO UPDATE SET weight = excluded.weight",
            *map(list, zip(*last.values(), strict=True)),
        )


async def remove_edge(db: Db, ns: int, source: str, relation: str, target: str) -> bool:
    ends = [await resolve(db, ns, name) for name in (source, target)]
    sql = "DELETE FROM edges WHERE source = %s AND relation = %s AND target = %s"
    return None not in ends and bool(await run(db, sql, ends[0], relation, ends[1]))


_OUT = (
    "SELECT source, relation, target, weight FROM edges WHERE source = ANY(%(nodes)s::bigint[])",
    "SELECT own.node, 'mentions', mentions.node, 1.0::float8 FROM node_items own JOIN mentions USING (item) "
    "WHERE own.node = ANY(%(nodes)s::bigint[]) AND mentions.node <> own.node",
)
_IN = (
    "SELECT target, relation, source, weight FROM edges WHERE target = ANY(%(nodes)s::bigint[])",
    "SELECT mentions.node, 'mentions', own.node, 1.0::float8 FROM mentions JOIN node_items own USING (item) "
    "WHERE mentions.node = ANY(%(nodes)s::bigint[]) AND mentions.node <> own.node",
)


async def steps(db: Db, nodes: Sequence[int], direction: Direction, relation: str | None) -> list[Step]:
    """The edges at these nodes, as steps away from them: said ones and those that mentions make."""
    asked = [*(_OUT if direction != "in" else ()), *(_IN if direction != "out" else ())]
    sql = " UNION ALL ".join(asked).replace("%(nodes)s", "%s")
    found = await rows(db, sql, *[list(nodes)] * len(asked))
    return sorted(step for step in map(tuple, found) if relation in (None, step[1]))


async def neighbors(
    db: Db,
    start: int,
    depth: int,
    direction: Direction,
    relation: str | None,
    limit: int | None = None,
    offset: int = 0,
) -> Page[Neighbor]:
    """Nodes within `depth` steps, nearest first, then by the best product of weights on a shortest way."""
    if depth == 1 and limit is not None:
        return await _near(db, start, direction, relation, limit, offset)
    seen: dict[int, tuple[str, int, float]] = {start: ("", 0, 1.0)}
    border = [start]
    for distance in range(1, depth + 1):
        reached: dict[int, tuple[str, int, float]] = {}
        for source, name, target, weight in await steps(db, border, direction, relation):
            total = seen[source][2] * weight
            if target not in seen and (target not in reached or total > reached[target][2]):
                reached[target] = (name, distance, total)
        seen |= reached
        border = sorted(reached)
        if not border:
            break
    del seen[start]
    page = sorted(seen, key=lambda node: (seen[node][1], -seen[node][2], node))[offset:][:limit]
    nodes = await read_nodes(db, page)
    return Page((Neighbor(nodes[node], *seen[node]) for node in page), len(seen), offset)


async def _near(
    db: Db, start: int, direction: Direction, relation: str | None, limit: int, offset: int
) -> Page[Neighbor]:
    """A page of the nodes that are one step away."""
    steps, bindings = near_steps(start, direction, relation, "%s")
    page = await rows(db, near_page(steps, "%s"), *bindings, limit, offset)
    nodes = await read_nodes(db, [node for node, _, _ in page])
    found = (Neighbor(nodes[node], name, 1, weight) for node, name, weight in page)
    return Page(found, await value(db, near_count(steps), *bindings), offset)


async def find_path(db: Db, start: int, goal: int, max_depth: int) -> list[Edge]:
    """A shortest way along edges in either direction; empty if there is none."""
    came: dict[int, tuple[int, Edge]] = {}
    border, seen = [start], {start}
    for _ in range(max_depth):
        if goal in seen or not border:
            break
        found = await _both_ways(db, border)
        reached = sorted({step[2] for step in found} - seen)
        names = {node.id: node.name for node in (await read_nodes(db, [*border, *reached])).values()}
        for source, relation, target, weight, forward in found:
            if target not in seen and target not in came:
                ends = (names[source], names[target]) if forward else (names[target], names[source])
                came[target] = (source, Edge(ends[0], relation, ends[1], weight))
        seen.update(reached)
        border = reached
    return _traced(came, start, goal)


async def _both_ways(db: Db, nodes: Sequence[int]) -> list[tuple[int, str, int, float, bool]]:
    forward = [(*step, True) for step in await steps(db, nodes, "out", None)]
    backward = [(*step, False) for step in await steps(db, nodes, "in", None)]
    return sorted([*forward, *backward], key=lambda step: (-step[3], step[2], not step[4], step))


def _traced(came: dict[int, tuple[int, Edge]], start: int, goal: int) -> list[Edge]:
    edges: list[Edge] = []
    while goal != start and goal in came:
        goal, edge = came[goal]
        edges.append(edge)
    return edges[::-1]
