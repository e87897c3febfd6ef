"""Nodes with their neighbours, and shortest paths, in the graph of a namespace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fourfold.limits import HUB
from fourfold.model import Edge, Neighbor, Node, NodeView, Page
from fourfold.retrieval import Relation
from fourfold.storage.sql.dialect import Db
from fourfold.storage.values import Direction, NeighborQuery

MENTIONS = "mentions"
"""The relation of the edges that follow from texts."""

Step = tuple[int, str, int, float]
"""Node, relation, the node it leads to, weight."""


_HEAVIEST_EDGES = (
    "SELECT a.name, relation, b.name, weight FROM edges "
    "JOIN nodes a ON a.id = source JOIN nodes b ON b.id = target "
    "JOIN names c ON c.node = a.id AND c.alias IS NULL JOIN names d ON d.node = b.id AND d.alias IS NULL "
    "WHERE source = ? OR target = ? ORDER BY weight DESC, c.folded, relation, d.folded LIMIT ?"
)


_HEAVIEST_OF_NODE = " UNION ALL ".join(
    f"SELECT * FROM (SELECT {near}, relation, {far}, weight, {forward} FROM edges WHERE {near} = ? "  # noqa: S608  (constants)
    f"ORDER BY weight DESC, {far}, relation LIMIT {HUB}) AS {near}s"
    for near, far, forward in (("source", "target", 1), ("target", "source", 0))
)


def read_nodes(db: Db, nodes: Sequence[int]) -> dict[int, Node]:
    """In the order of their ids."""
    wanted = db.ids(nodes)
    aliases: dict[int, list[str]] = {}
    sql = f"SELECT node, alias FROM names WHERE node {db.any_id} AND alias IS NOT NULL ORDER BY alias"  # noqa: S608  (constants)
    for node, alias in db.rows(sql, wanted):
        aliases.setdefault(node, []).append(alias)
    sql = f"SELECT node, min(item) FROM node_items WHERE node {db.any_id} GROUP BY node"  # noqa: S608  (constants)
    owned = dict(db.rows(sql, wanted))
    sql = f"SELECT id, name, label, properties FROM nodes WHERE id {db.any_id} ORDER BY id"  # noqa: S608  (constants)
    return {
        node: Node(node, name, label, tuple(aliases.get(node, ())), json.loads(properties), owned.get(node))
        for node, name, label, properties in db.rows(sql, wanted)
    }


def linked_nodes(db: Db, item: int) -> list[int]:
    """The nodes that an item is the text of, and those that its text mentions."""
    sql = "SELECT node FROM node_items WHERE item = ? UNION SELECT node FROM mentions WHERE item = ?"
    return db.column(sql, item, item)


def view(db: Db, node: int, limit: int) -> NodeView:
    """A node with its first items, the first that mention it, and its heaviest edges."""
    sql = "SELECT item FROM {} WHERE node = ? ORDER BY item LIMIT ?"
    items, mentions = (db.column(sql.format(table), node, limit) for table in ("node_items", "mentions"))
    edges = db.rows(_HEAVIEST_EDGES, node, node, limit)
    return NodeView(read_nodes(db, [node])[node], tuple(items), tuple(mentions), tuple(Edge(*edge) for edge in edges))


def neighbors(db: Db, start: int, wanted: NeighborQuery) -> Page[Neighbor]:
    """Nodes within `depth` steps, nearest first, then by the best product of weights on a shortest path."""
    _, _, depth, direction, relation, limit, offset = wanted
    if depth == 1 and limit is not None:  # the database selects the page: a hub has very many neighbours
        steps, bindings = _steps_query(direction, relation, "= ?", start)
        page, count = _near_queries(steps)
        near, total = db.rows(page, *bindings, limit, offset), db.value(count, *bindings)
        nodes = read_nodes(db, [node for node, _, _ in near])
        return Page((Neighbor(nodes[node], name, 1, weight) for node, name, weight in near), total, offset)
    seen: dict[int, tuple[str, int, float]] = {start: ("", 0, 1.0)}
    border = [start]
    for distance in range(1, depth + 1):
        reached: dict[int, tuple[str, int, float]] = {}
        for source, name, target, weight in sorted(_steps(db, border, direction, relation)):
            total_weight = seen[source][2] * weight
            if target not in seen and (target not in reached or total_weight > reached[target][2]):
                reached[target] = (name, distance, total_weight)
        seen |= reached
        border = sorted(reached)
        if not border:
            break
    del seen[start]
    page = sorted(seen, key=lambda node: (seen[node][1], -seen[node][2], node))[offset:][:limit]
    nodes = read_nodes(db, page)
    return Page((Neighbor(nodes[node], *seen[node]) for node in page), len(seen), offset)


def relations(db: Db, nodes: Sequence[int]) -> list[Relation]:
    """The heaviest edges of each node in each direction, which an index finds without reading the others of a hub."""
    wanted = sorted(nodes)[:HUB]
    if not wanted:
        return []
    each = " UNION ALL ".join([_HEAVIEST_OF_NODE] * len(wanted))
    found = db.rows(each, *(node for node in wanted for _ in range(2)))
    return sorted(Relation(near, name, far, weight, forward == 1) for near, name, far, weight, forward in found)


def find_path(db: Db, start: int, goal: int, max_depth: int) -> list[Edge]:
    """A shortest path along edges in either direction; empty if there is none."""
    came: dict[int, tuple[int, Edge]] = {}
    border, seen = [start], {start}
    for _ in range(max_depth):
        if goal in seen or not border:
            break
        found = _both_ways(db, border)
        reached = sorted({step[2] for step in found} - seen)
        names = {node.id: node.name for node in read_nodes(db, [*border, *reached]).values()}
        for source, relation, target, weight, forward in found:
            if target not in seen and target not in came:
                ends = (names[source], names[target]) if forward else (names[target], names[source])
                came[target] = (source, Edge(ends[0], relation, ends[1], weight))
        seen.update(reached)
        border = reached
    edges: list[Edge] = []
    while goal != start and goal in came:
        goal, edge = came[goal]
        edges.append(edge)
    return edges[::-1]


def _both_ways(db: Db, nodes: Sequence[int]) -> list[tuple[int, str, int, float, bool]]:
    forward = [(*step, True) for step in _steps(db, nodes, "out", None)]
    backward = [(*step, False) for step in _steps(db, nodes, "in", None)]
    return sorted([*forward, *backward], key=lambda step: (-step[3], step[2], not step[4], step))


# ---------------------------------------------------------------- steps in SQL

_STEPS = {
    "out": (
        "SELECT source AS start, relation, target AS node, weight FROM edges WHERE source {}",
        "SELECT own.node, 'mentions', mentions.node, 1.0 FROM node_items own JOIN mentions USING (item) "
        "WHERE own.node {} AND mentions.node <> own.node",
    ),
    "in": (
        "SELECT target AS start, relation, source AS node, weight FROM edges WHERE target {}",
        "SELECT mentions.node, 'mentions', own.node, 1.0 FROM mentions JOIN node_items own USING (item) "
        "WHERE mentions.node {} AND mentions.node <> own.node",
    ),
}


def _steps(db: Db, nodes: Sequence[int], direction: Direction, relation: str | None) -> list[Step]:
    """All steps away from these nodes, in any order."""
    sql, bindings = _steps_query(direction, relation, db.any_id, db.ids(nodes))
    return db.rows(sql, *bindings)


def _steps_query(direction: Direction, relation: str | None, nodes: str, bound: Any) -> tuple[str, list[Any]]:
    """The steps away from some nodes. `nodes`: a condition with one placeholder, to which `bound` is bound."""
    ways = [direction] if direction != "both" else ["out", "in"]
    parts: list[str] = []
    bindings: list[Any] = []
    for edges, mentions in (_STEPS[way] for way in ways):
        parts.append(edges.format(nodes) + ("" if relation is None else " AND relation = ?"))
        bindings += [bound] if relation is None else [bound, relation]
        if relation in (None, MENTIONS):
            parts.append(mentions.format(nodes))
            bindings.append(bound)
    return " UNION ALL ".join(parts), bindings


def _near_queries(steps: str) -> tuple[str, str]:
    """A page of the nodes that steps lead to, whose limit and offset are bound last; and the number of these nodes."""
    source = f"FROM ({steps}) AS steps WHERE node <> start"
    place = "row_number() OVER (PARTITION BY node ORDER BY weight DESC, relation) AS place"
    best = f"SELECT node, relation, weight, {place} {source}"
    order = "ORDER BY weight DESC, node LIMIT ? OFFSET ?"
    page = f"SELECT node, relation, weight FROM ({best}) AS best WHERE place = 1 {order}"  # noqa: S608  (our own clauses)
    return page, f"SELECT count(DISTINCT node) {source}"
