"""Nodes and edges: adding, finding by name, removing, neighbours and shortest paths."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fourfold import validation as rules
from fourfold.errors import NotFound
from fourfold.limits import HUB
from fourfold.model import Edge, Neighbor, Node, NodeView, Page
from fourfold.retrieval import Relation
from fourfold.storage.sql.dialect import Db, dumps, possible
from fourfold.storage.sql.rows import new_ids
from fourfold.storage.values import Direction, NeighborQuery, NewNode, ambiguous, no_node
from fourfold.text.entities import normal_name, split_label, with_label

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


LABEL = "entity"
"""The label of nodes that were given none."""


class Gone(NamedTuple):
    """Names and mentions that disappeared with some nodes."""

    names: list[str]
    """Names that no node has any more."""
    mentioning: list[int]
    """Items that mentioned the nodes. They may now mention other nodes: York, if New York is removed."""


NOTHING_GONE = Gone([], [])


# ---------------------------------------------------------------- adding nodes

Wanted = tuple[str, str]
"""Name and label of a node."""


def ensure_nodes(db: Db, ns: int, wanted: Sequence[Wanted], *, made: bool) -> tuple[dict[Wanted, int], list[str]]:
    """The nodes of these (name, label), created if missing, and the new names in normal form."""
    folded = {pair: normal_name(pair[0]) for pair in wanted}
    first: dict[Wanted, str] = {}
    for (name, label), normal in folded.items():
        first.setdefault((normal, label), name)
    names = {db.name_key(normal): normal for normal, _ in first}
    sql = f"SELECT {db.name_column}, label, id FROM nodes WHERE ns = ? AND {db.any_name}"  # noqa: S608  (constants)
    stored = db.rows(sql, ns, db.names(names.values())) if names else []
    nodes = {(names[key], label): id for key, label, id in stored if (names[key], label) in first}
    if made and nodes:
        db.run(f"UPDATE nodes SET made = ? WHERE id {db.any_id} AND NOT made", True, db.ids(nodes.values()))  # noqa: S608  (constants)
    lacking = [pair for pair in first if pair not in nodes]
    fresh = new_ids(db, ns, "nodes", len(lacking))
    insert_nodes(db, ns, [(id, first[pair], pair[1], made) for id, pair in zip(fresh, lacking, strict=True)])
    nodes |= zip(lacking, fresh, strict=True)
    return {pair: nodes[normal, pair[1]] for pair, normal in folded.items()}, [normal for normal, _ in lacking]


def insert_nodes(db: Db, ns: int, new: Sequence[tuple[int, str, str, bool]]) -> None:
    """Rows of (id, name, label, made)."""
    db.run_many(
        f"INSERT INTO nodes (id, ns, name, {db.name_column}, label, properties, made) "  # noqa: S608  (constants)
        "VALUES (?, ?, ?, ?, ?, '{}', ?)",
        [(id, ns, name, db.name_key(normal_name(name)), label, made) for id, name, label, made in new],
    )
    add_names(db, ns, [(id, normal_name(name), None) for id, name, _, _ in new])


def add_names(db: Db, ns: int, new: Sequence[tuple[int, str, str | None]]) -> None:
    """Rows of (node, name in normal form, alias); names that a node has stay as they are."""
    columns = ("ns", "node", "alias", *db.name_columns)
    db.run_many(
        f"INSERT INTO names ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) ON CONFLICT DO NOTHING",  # noqa: S608  (constants)
        [(ns, node, alias, *db.name_values(folded)) for node, folded, alias in new],
    )


def add_node(db: Db, ns: int, new: NewNode) -> tuple[int, list[str]]:
    """The node of that name and label, with new properties merged in, and its new names."""
    item = new.item
    if item is not None and not (
        possible([item]) and db.value("SELECT 1 FROM items WHERE ns = ? AND id = ?", ns, item)
    ):
        raise NotFound(f"no item {item}", "Store the item first, then refer to its id")
    nodes, fresh = ensure_nodes(db, ns, [(new.name, new.label)], made=True)
    node = nodes[new.name, new.label]
    if new.properties is not None:
        known = json.loads(db.value("SELECT properties FROM nodes WHERE id = ?", node))
        merged = rules.merged_properties(known, new.properties)
        db.run("UPDATE nodes SET properties = ? WHERE id = ?", dumps(merged), node)
    had = set(db.column("SELECT folded FROM names WHERE node = ?", node))
    aliases = {normal_name(alias): alias for alias in reversed(new.aliases)}
    added = [name for name in aliases if name not in had]
    rules.check_aliases(len(had) - 1 + len(added))  # one of those it had is its own name
    add_names(db, ns, [(node, name, aliases[name]) for name in added])
    if item is not None:
        attach(db, [(node, item, True)])
    return node, [*fresh, *added]


def attach(db: Db, pairs: Iterable[tuple[int, int, bool]]) -> None:
    """Makes items the texts of nodes: (node, item, whether a caller attached it). They no longer mention the nodes."""
    said = {(node, item): made for node, item, made in sorted(pairs)}
    db.insert(
        "node_items",
        ("bigint", "bigint", "boolean"),
        [(*pair, made) for pair, made in said.items()],
        "ON CONFLICT (node, item) DO UPDATE SET made = node_items.made OR excluded.made",
    )
    db.delete("mentions", ("node", "item"), list(said))


# ---------------------------------------------------------------- finding nodes


def named(db: Db, ns: int, names: Collection[str]) -> dict[str, list[int]]:
    """Those of the names, in normal form, that nodes have, with these nodes."""
    nodes: dict[str, list[int]] = {}
    sql = f"SELECT folded, node FROM names WHERE ns = ? AND {db.any_name}"  # noqa: S608  (constants)
    for name, node in db.rows(sql, ns, db.names(names)) if names else ():
        nodes.setdefault(name, []).append(node)
    return nodes


class NamedNode(NamedTuple):
    """A node that has some name."""

    id: int
    label: str
    is_own: bool
    """Whether it is the node's own name, and not an alias."""


def nodes_by_name(db: Db, ns: int, folded: Collection[str]) -> dict[str, list[NamedNode]]:
    """The nodes of each of these names, which are in normal form."""
    nodes: dict[str, list[NamedNode]] = {name: [] for name in folded}
    sql = (
        "SELECT named.folded, id, label, alias IS NULL FROM "  # noqa: S608  (constants)
        f"(SELECT folded, node, alias FROM names WHERE ns = ? AND {db.any_name}) AS named JOIN nodes ON id = node"
    )
    for name, *node in db.rows(sql, ns, db.names(folded)):
        nodes[name].append(NamedNode(*node))
    return nodes


def resolve(
    db: Db, ns: int, reference: str, label: str | None = None, known: Mapping[str, Sequence[NamedNode]] | None = None
) -> int | None:
    """The node that a name, an alias or `Name#label` means; its own name comes before others' aliases.

    `known`: nodes by name, where some were read before.
    """
    name, label = split_label(reference) if label is None else (reference, label)
    folded = normal_name(name)
    nodes = nodes_by_name(db, ns, [folded])[folded] if known is None or folded not in known else known[folded]
    fitting = [node for node in nodes if label is None or node.label == label]
    best = [node for node in fitting if node.is_own] or fitting
    if len(best) > 1:
        raise ambiguous(name, (node.label for node in best))
    return best[0].id if best else None


def required(db: Db, ns: int, reference: str, label: str | None = None) -> int:
    node = resolve(db, ns, reference, label)
    if node is None:
        raise no_node(reference if label is None else with_label(reference, label))
    return node


def owned_nodes(db: Db, items: Sequence[int]) -> set[int]:
    """The nodes that items are the texts of."""
    return set(db.column(f"SELECT node FROM node_items WHERE item {db.any_id}", db.ids(items)))  # noqa: S608  (constants)


# ---------------------------------------------------------------- removing nodes


def remove_nodes(db: Db, ns: int, nodes: Collection[int]) -> Gone:
    """Removes nodes with their edges and mentions."""
    if not nodes:
        return NOTHING_GONE
    ids = db.ids(nodes)
    sql = f"SELECT item FROM mentions WHERE node {db.any_id} UNION SELECT item FROM node_items WHERE node {db.any_id}"  # noqa: S608  (constants)
    mentioning = sorted(db.column(sql, ids, ids))
    names = db.column(f"SELECT folded FROM names WHERE node {db.any_id}", ids)  # noqa: S608  (constants)
    db.run(f"DELETE FROM nodes WHERE id {db.any_id}", ids)  # noqa: S608  (constants)
    left = set(db.column(f"SELECT folded FROM names WHERE ns = ? AND {db.any_name}", ns, db.names(names)))  # noqa: S608  (constants)
    return Gone([name for name in names if name not in left], mentioning)


def prune(db: Db, ns: int, nodes: Collection[int]) -> Gone:
    """Removes nodes that existed only because of a removed title."""
    sql = (
        f"SELECT id FROM nodes WHERE id {db.any_id} AND NOT made "  # noqa: S608  (constants)
        "AND NOT EXISTS (SELECT 1 FROM node_items WHERE node = nodes.id) "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE source = nodes.id) "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE target = nodes.id)"
    )
    return remove_nodes(db, ns, db.column(sql, db.ids(nodes)) if nodes else [])


# ---------------------------------------------------------------- edges


def add_edges(db: Db, ns: int, edges: Sequence[Edge]) -> tuple[set[int], list[str]]:
    """Stores edges, creating missing nodes; returns the nodes at their ends, and the new names."""
    ends = dict.fromkeys(end for edge in edges for end in (edge.source, edge.target))
    known = nodes_by_name(db, ns, {normal_name(split_label(end)[0]) for end in ends})
    nodes: dict[str, int] = {}
    fresh: list[str] = []
    for end in ends:
        node = resolve(db, ns, end, known=known)
        if node is None:
            name, label = split_label(end)
            made, added = ensure_nodes(db, ns, [(name, label or LABEL)], made=True)
            node = made[name, label or LABEL]
            fresh += added
            known.pop(normal_name(name), None)  # another spelling or label may mean the new node
        nodes[end] = node
    set_edges(db, ((nodes[edge.source], edge.relation, nodes[edge.target], edge.weight) for edge in edges))
    return set(nodes.values()), fresh


def set_edges(db: Db, edges: Iterable[Step]) -> None:
    """Of several weights for an edge the last counts."""
    last = {edge[:3]: edge for edge in edges}
    db.insert(
        "edges",
        ("bigint", "text", "bigint", "float8"),
        list(last.values()),
        "ON CONFLICT (source, relation, target) DO UPDATE SET weight = excluded.weight",
    )


def remove_edge(db: Db, source: int, relation: str, target: int) -> bool:
    sql = "DELETE FROM edges WHERE source = ? AND relation = ? AND target = ?"
    return bool(db.run(sql, source, relation, target))
