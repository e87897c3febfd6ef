"""Nodes and edges: adding, finding, removing, and walking by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import apsw

from fourfold import items as rules
from fourfold.model import Edge, Json, Neighbor, Node, NodeSummary, NodeView, Page
from fourfold.storage.naming import ambiguous, no_node
from fourfold.stores.near import near_count, near_page, near_steps
from fourfold.stores.sqlite import ids
from fourfold.stores.sqlite.database import dumps, rows, value
from fourfold.stores.sqlite.items import batches, marks
from fourfold.text.entities import normal_name, split_label, with_label

Direction = Literal["both", "out", "in"]
Step = tuple[int, str, int, float]
"""Source node, relation, target node, weight."""

LABEL = "entity"
"""Of nodes that were given no label."""
MENTIONS = "mentions"
"""The relation of the edges that texts make by themselves (B11)."""


# ---------------------------------------------------------------- nodes


def add_node(
    db: apsw.Connection,
    ns: int,
    name: str,
    label: str,
    aliases: Iterable[str],
    properties: Mapping[str, Json] | None,
) -> tuple[int, list[str]]:
    """The node of that name and label, made if it is not there, and the names that are new."""
    node, fresh = ensure_node(db, ns, name, label, made=True)
    if properties is not None:
        known = json.loads(value(db, "SELECT properties FROM nodes WHERE id = ?", node))
        db.execute(
            "UPDATE nodes SET properties = ? WHERE id = ?", (dumps(rules.merged_properties(known, properties)), node)
        )
    for alias in aliases:
        if _add_name(db, ns, node, normal_name(alias), alias):
            fresh.append(normal_name(alias))
    rules.check_aliases(value(db, "SELECT count(alias) FROM names WHERE node = ?", node))
    return node, fresh


def restore(db: apsw.Connection, ns: int, node: int, aliases: Iterable[str], properties: Mapping[str, Json]) -> None:
    """What an export says of a node that was just inserted."""
    db.execute("UPDATE nodes SET properties = ? WHERE id = ?", (dumps(dict(properties)), node))
    for alias in aliases:
        _add_name(db, ns, node, normal_name(alias), alias)


def ensure_node(db: apsw.Connection, ns: int, name: str, label: str, *, made: bool) -> tuple[int, list[str]]:
    folded = normal_name(name)
    node = value(db, "SELECT id FROM nodes WHERE ns = ? AND folded = ? AND label = ?", ns, folded, label)
    if node is None:
        return insert_node(db, ns, name, label, made=made), [folded]
    if made:
        db.execute("UPDATE nodes SET made = 1 WHERE id = ?", (node,))
    return node, []


def ensure_reference(db: apsw.Connection, ns: int, reference: str) -> tuple[int, list[str]]:
    """The node that the end of an edge means, made if it is not there."""
    name, label = split_label(reference)
    return ensure_node(db, ns, name, label or LABEL, made=True)


def insert_node(db: apsw.Connection, ns: int, name: str, label: str, *, made: bool, node_id: int | None = None) -> int:
    """A new row; under a given id where one is restored."""
    folded = normal_name(name)
    node = ids.new(db, ns, "nodes", 1)[0] if node_id is None else node_id
    db.execute(
        "INSERT INTO nodes (id, ns, name, folded, label, properties, made) VALUES (?, ?, ?, ?, ?, '{}', ?)",
        (node, ns, name, folded, label, made),
    )
    _add_name(db, ns, node, folded, None)
    return node


def own_nodes(
    db: apsw.Connection, ns: int, label: str, owners: Sequence[tuple[int, Sequence[str]]]
) -> tuple[dict[int, set[int]], list[str]]:
    """Gives new items the nodes of their names, made if they are not there; the nodes of each, and new names."""
    spelled: dict[str, str] = {}
    owned = {item: [normal_name(name) for name in names] for item, names in owners if names}
    for item, names in owners:
        for folded, name in zip(owned.get(item, ()), names, strict=True):
            spelled.setdefault(folded, name)
    nodes = _nodes_of_names(db, ns, label, list(spelled))
    fresh = [folded for folded in spelled if folded not in nodes]
    nodes |= zip(fresh, ids.new(db, ns, "nodes", len(fresh)), strict=True)
    db.executemany(
        "INSERT INTO nodes (id, ns, name, folded, label, properties, made) VALUES (?, ?, ?, ?, ?, '{}', 0)",
        ((nodes[folded], ns, spelled[folded], folded, label) for folded in fresh),
    )
    db.executemany("INSERT INTO names VALUES (?, ?, ?, NULL)", ((ns, folded, nodes[folded]) for folded in fresh))
    own = {item: {nodes[folded] for folded in names} for item, names in owned.items()}
    db.executemany("INSERT INTO node_items VALUES (?, ?, 0)", ((node, item) for item in own for node in own[item]))
    return own, fresh


def _nodes_of_names(db: apsw.Connection, ns: int, label: str, names: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in batches(names):
        sql = f"SELECT folded, id FROM nodes WHERE ns = ? AND folded IN ({marks(len(part))}) AND label = ?"  # noqa: S608  (placeholders)
        found.update(rows(db, sql, ns, *part, label))
    return found


def _add_name(db: apsw.Connection, ns: int, node: int, folded: str, alias: str | None) -> bool:
    db.execute("INSERT OR IGNORE INTO names VALUES (?, ?, ?, ?)", (ns, folded, node, alias))
    return bool(db.changes())


def attach(db: apsw.Connection, node: int, item: int, *, made: bool) -> None:
    """Makes an item the text of a node, which it then no longer just mentions."""
    db.execute(
        "INSERT INTO node_items VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET made = max(made, excluded.made)",
        (node, item, made),
    )
    db.execute("DELETE FROM mentions WHERE item = ? AND node = ?", (item, node))


def resolve(db: apsw.Connection, ns: int, reference: str, label: str | None = None) -> int | None:
    """The node that a name, an alias or `Name#label` means; its own name comes before others' aliases."""
    name, label = split_label(reference) if label is None else (reference, label)
    sql = (
        "SELECT nodes.id, nodes.label, names.alias IS NULL FROM names JOIN nodes ON nodes.id = names.node "
        "WHERE names.ns = ? AND names.folded = ? AND (? IS NULL OR nodes.label = ?) ORDER BY 3 DESC, 2"
    )
    found = rows(db, sql, ns, normal_name(name), label, label)
    best = [row for row in found if row[2] == found[0][2]]
    if len(best) > 1:
        raise ambiguous(name, (label for _, label, _ in best))
    return best[0][0] if best else None


def required(db: apsw.Connection, ns: int, reference: str, label: str | None = None) -> int:
    node = resolve(db, ns, reference, label)
    if node is None:
        raise no_node(reference if label is None else with_label(reference, label))
    return node


def read_nodes(db: apsw.Connection, nodes: Sequence[int]) -> dict[int, Node]:
    found: dict[int, Node] = {}
    for part in batches(nodes):
        inside = marks(len(part))
        aliases: dict[int, list[str]] = {}
        sql = f"SELECT node, alias FROM names WHERE node IN ({inside}) AND alias IS NOT NULL ORDER BY alias"  # noqa: S608  (placeholders)
        for node, alias in db.execute(sql, tuple(part)):
            aliases.setdefault(node, []).append(alias)
        sql = f"SELECT node, min(item) FROM node_items WHERE node IN ({inside}) GROUP BY node"  # noqa: S608  (placeholders)
        items = dict(db.execute(sql, tuple(part)))
        sql = f"SELECT id, name, label, properties FROM nodes WHERE id IN ({inside})"  # noqa: S608  (placeholders)
        for node, name, label, properties in db.execute(sql, tuple(part)):
            found[node] = Node(node, name, label, tuple(aliases.get(node, ())), json.loads(properties), items.get(node))
    return found


def summaries(db: apsw.Connection, ns: int, like: str, limit: int, offset: int) -> list[NodeSummary]:
    sql = (
        "SELECT name, label, holders, mentioned, degree FROM nodes WHERE ns = ? AND (? = '' OR EXISTS "
        "(SELECT 1 FROM names WHERE node = nodes.id AND instr(names.folded, ?) > 0)) "
        "ORDER BY holders + mentioned + degree DESC, folded, label LIMIT ? OFFSET ?"
    )
    return [NodeSummary(*row) for row in rows(db, sql, ns, like, like, limit, offset)]


def view(db: apsw.Connection, node: int, limit: int) -> NodeView:
    items = rows(db, "SELECT item FROM node_items WHERE node = ? ORDER BY item LIMIT ?", node, limit)
    mentions = rows(db, "SELECT item FROM mentions WHERE node = ? ORDER BY item LIMIT ?", node, limit)
    sql = (
        "SELECT a.name, relation, b.name, weight FROM edges "
        "JOIN nodes a ON a.id = source JOIN nodes b ON b.id = target "
        "WHERE source = ? OR target = ? ORDER BY weight DESC, a.folded, relation, b.folded LIMIT ?"
    )
    edges = rows(db, sql, node, node, limit)
    return NodeView(
        read_nodes(db, [node])[node],
        tuple(item for (item,) in items),
        tuple(item for (item,) in mentions),
        tuple(Edge(*edge) for edge in edges),
    )


class Gone(NamedTuple):
    """What went with some nodes."""

    names: list[str]
    """Names that no node has any more."""
    fans: list[int]
    """Items that named the nodes; they may mean others now: York, where New York is gone."""


def remove_node(db: apsw.Connection, ns: int, node: int) -> Gone:
    """Removes a node with its edges and mentions."""
    names = [folded for (folded,) in rows(db, "SELECT folded FROM names WHERE node = ?", node)]
    naming = "SELECT item FROM mentions WHERE node = ?1 UNION SELECT item FROM node_items WHERE node = ?1"
    fans = [item for (item,) in rows(db, naming, node)]
    db.execute("DELETE FROM nodes WHERE id = ?", (node,))
    left = "SELECT 1 FROM names WHERE ns = ? AND folded = ?"
    return Gone([name for name in names if value(db, left, ns, name) is None], fans)


def prune(db: apsw.Connection, ns: int, nodes: Iterable[int]) -> Gone:
    """Removes those nodes that only existed because of a title that is gone."""
    removed = [remove_node(db, ns, node) for node in nodes if not _is_needed(db, node)]
    return Gone([name for gone in removed for name in gone.names], [fan for gone in removed for fan in gone.fans])


def _is_needed(db: apsw.Connection, node: int) -> bool:
    sql = (
        "SELECT made OR EXISTS (SELECT 1 FROM node_items WHERE node = nodes.id) "
        "OR EXISTS (SELECT 1 FROM edges WHERE source = nodes.id OR target = nodes.id) FROM nodes WHERE id = ?"
    )
    return bool(value(db, sql, node))


# ---------------------------------------------------------------- edges


def set_edge(db: apsw.Connection, source: int, relation: str, target: int, weight: float) -> None:
    db.execute(
        "INSERT INTO edges VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET weight = excluded.weight",
        (source, relation, target, weight),
    )


def remove_edge(db: apsw.Connection, source: int, relation: str, target: int) -> bool:
    db.execute("DELETE FROM edges WHERE source = ? AND relation = ? AND target = ?", (source, relation, target))
    return bool(db.changes())


def steps(db: apsw.Connection, nodes: Sequence[int], direction: Direction, relation: str | None) -> list[Step]:
    """The edges at these nodes, as steps away from them: said ones and those that mentions make."""
    found: list[Step] = []
    for part in batches(nodes):
        if direction != "in":
            found.extend(_away(db, part, relation, _OUT))
        if direction != "out":
            found.extend(_away(db, part, relation, _IN))
    return sorted(found)


_OUT = (
    "SELECT source, relation, target, weight FROM edges WHERE source IN ({0}) AND (? IS NULL OR relation = ?)",
    "SELECT own.node, ?, mentions.node, 1.0 FROM node_items own JOIN mentions USING (item) "
    "WHERE own.node IN ({0}) AND mentions.node <> own.node",
)
_IN = (
    "SELECT target, relation, source, weight FROM edges WHERE target IN ({0}) AND (? IS NULL OR relation = ?)",
    "SELECT mentions.node, ?, own.node, 1.0 FROM mentions JOIN node_items own USING (item) "
    "WHERE mentions.node IN ({0}) AND mentions.node <> own.node",
)


def _away(db: apsw.Connection, nodes: Sequence[int], relation: str | None, sql: tuple[str, str]) -> list[Step]:
    said, mentioned = (text.format(marks(len(nodes))) for text in sql)
    found = rows(db, said, *nodes, relation, relation)
    if relation in (None, MENTIONS):
        found += rows(db, mentioned, MENTIONS, *nodes)
    return found


def neighbors(
    db: apsw.Connection,
    start: int,
    depth: int,
    direction: Direction,
    relation: str | None,
    limit: int | None = None,
    offset: int = 0,
) -> Page[Neighbor]:
    """Nodes within `depth` steps, nearest first, then by the best product of weights on a shortest way."""
    if depth == 1 and limit is not None:
        return _near(db, start, direction, relation, limit, offset)
    seen: dict[int, tuple[str, int, float]] = {start: ("", 0, 1.0)}
    border = [start]
    for distance in range(1, depth + 1):
        reached: dict[int, tuple[str, int, float]] = {}
        for source, name, target, weight in steps(db, border, direction, relation):
            total = seen[source][2] * weight
            if target not in seen and (target not in reached or total > reached[target][2]):
                reached[target] = (name, distance, total)
        seen |= reached
        border = sorted(reached)
        if not border:
            break
    del seen[start]
    page = sorted(seen, key=lambda node: (seen[node][1], -seen[node][2], node))[offset:][:limit]
    nodes = read_nodes(db, page)
    return Page((Neighbor(nodes[node], *seen[node]) for node in page), len(seen), offset)


def _near(
    db: apsw.Connection, start: int, direction: Direction, relation: str | None, limit: int, offset: int
) -> Page[Neighbor]:
    """A page of the nodes that are one step away."""
    steps, bindings = near_steps(start, direction, relation, "?")
    page = rows(db, near_page(steps, "?"), *bindings, limit, offset)
    nodes = read_nodes(db, [node for node, _, _ in page])
    found = (Neighbor(nodes[node], name, 1, weight) for node, name, weight in page)
    return Page(found, value(db, near_count(steps), *bindings), offset)


def find_path(db: apsw.Connection, start: int, goal: int, max_depth: int) -> list[Edge]:
    """A shortest way along edges in either direction; empty if there is none."""
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
    return _traced(came, start, goal)


def _both_ways(db: apsw.Connection, nodes: Sequence[int]) -> list[tuple[int, str, int, float, bool]]:
    forward = [(*step, True) for step in steps(db, nodes, "out", None)]
    backward = [(*step, False) for step in steps(db, nodes, "in", None)]
    return sorted([*forward, *backward], key=lambda step: (-step[3], step[2], not step[4], step))


def _traced(came: dict[int, tuple[int, Edge]], start: int, goal: int) -> list[Edge]:
    edges: list[Edge] = []
    while goal != start and goal in came:
        goal, edge = came[goal]
        edges.append(edge)
    return edges[::-1]
