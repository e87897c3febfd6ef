"""Neighbours and shortest paths in the graph of a namespace, over the few queries that a store answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fourfold.model import Edge, Neighbor, Node, NodeView, Page
from fourfold.storage.values import Direction, NeighborQuery

MENTIONS = "mentions"
"""The relation of the edges that follow from texts."""

Step = tuple[int, str, int, float]
"""Node, relation, the node it leads to, weight."""


class NodeRows(Protocol):
    """The graph in a database."""

    mark: str
    """The placeholder in SQL."""
    edges_sql: str
    """(source, relation, target, weight), with the names of the ends, of the heaviest edges of a node.

    The node is bound twice, then the limit.
    """

    def rows(self, sql: str, *bindings: Any) -> list[Any]: ...

    def steps(self, nodes: Sequence[int], direction: Direction, relation: str | None) -> Sequence[Step]:
        """All steps away from these nodes, in any order."""
        ...

    def read_nodes(self, nodes: Sequence[int]) -> Mapping[int, Node]: ...


def view(rows: NodeRows, node: int, limit: int) -> NodeView:
    """A node with its first items, the first that mention it, and its heaviest edges."""
    sql = f"SELECT item FROM {{}} WHERE node = {rows.mark} ORDER BY item LIMIT {rows.mark}"  # noqa: S608  (constants)
    items, mentions = (rows.rows(sql.format(table), node, limit) for table in ("node_items", "mentions"))
    edges = rows.rows(rows.edges_sql, node, node, limit)
    return NodeView(
        rows.read_nodes([node])[node],
        tuple(item for (item,) in items),
        tuple(item for (item,) in mentions),
        tuple(Edge(*edge) for edge in edges),
    )


def neighbors(rows: NodeRows, start: int, wanted: NeighborQuery) -> Page[Neighbor]:
    """Nodes within `depth` steps, nearest first, then by the best product of weights on a shortest path."""
    _, _, depth, direction, relation, limit, offset = wanted
    if depth == 1 and limit is not None:  # the database selects the page: a hub has very many neighbours
        steps, bindings = steps_query(direction, relation, f"= {rows.mark}", [start], rows.mark)
        page, count = _near_queries(steps, rows.mark)
        near, ((total,),) = rows.rows(page, *bindings, limit, offset), rows.rows(count, *bindings)
        nodes = rows.read_nodes([node for node, _, _ in near])
        return Page((Neighbor(nodes[node], name, 1, weight) for node, name, weight in near), total, offset)
    seen: dict[int, tuple[str, int, float]] = {start: ("", 0, 1.0)}
    border = [start]
    for distance in range(1, depth + 1):
        reached: dict[int, tuple[str, int, float]] = {}
        for source, name, target, weight in sorted(rows.steps(border, direction, relation)):
            total_weight = seen[source][2] * weight
            if target not in seen and (target not in reached or total_weight > reached[target][2]):
                reached[target] = (name, distance, total_weight)
        seen |= reached
        border = sorted(reached)
        if not border:
            break
    del seen[start]
    page = sorted(seen, key=lambda node: (seen[node][1], -seen[node][2], node))[offset:][:limit]
    nodes = rows.read_nodes(page)
    return Page((Neighbor(nodes[node], *seen[node]) for node in page), len(seen), offset)


def find_path(rows: NodeRows, start: int, goal: int, max_depth: int) -> list[Edge]:
    """A shortest path along edges in either direction; empty if there is none."""
    came: dict[int, tuple[int, Edge]] = {}
    border, seen = [start], {start}
    for _ in range(max_depth):
        if goal in seen or not border:
            break
        found = _both_ways(rows, border)
        reached = sorted({step[2] for step in found} - seen)
        names = {node.id: node.name for node in rows.read_nodes([*border, *reached]).values()}
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


def _both_ways(rows: NodeRows, nodes: Sequence[int]) -> list[tuple[int, str, int, float, bool]]:
    forward = [(*step, True) for step in rows.steps(nodes, "out", None)]
    backward = [(*step, False) for step in rows.steps(nodes, "in", None)]
    return sorted([*forward, *backward], key=lambda step: (-step[3], step[2], not step[4], step))


# ---------------------------------------------------------------- SQL that databases have in common

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


def steps_query(
    direction: Direction, relation: str | None, nodes: str, bound: Sequence[Any], mark: str
) -> tuple[str, list[Any]]:
    """The steps away from some nodes. `nodes`: a condition like "IN (?, ?)"; `mark`: the store's placeholder."""
    ways = [direction] if direction != "both" else ["out", "in"]
    parts: list[str] = []
    bindings: list[Any] = []
    for edges, mentions in (_STEPS[way] for way in ways):
        parts.append(edges.format(nodes) + ("" if relation is None else f" AND relation = {mark}"))
        bindings += [*bound, *([] if relation is None else [relation])]
        if relation in (None, MENTIONS):
            parts.append(mentions.format(nodes))
            bindings += bound
    return " UNION ALL ".join(parts), bindings


def _near_queries(steps: str, mark: str) -> tuple[str, str]:
    """A page of the nodes that steps lead to, whose limit and offset are bound last; and the number of these nodes."""
    source = f"FROM ({steps}) AS steps WHERE node <> start"
    place = "row_number() OVER (PARTITION BY node ORDER BY weight DESC, relation) AS place"
    best = f"SELECT node, relation, weight, {place} {source}"
    order = f"ORDER BY weight DESC, node LIMIT {mark} OFFSET {mark}"
    page = f"SELECT node, relation, weight FROM ({best}) AS best WHERE place = 1 {order}"  # noqa: S608  (our own clauses)
    return page, f"SELECT count(DISTINCT node) {source}"
