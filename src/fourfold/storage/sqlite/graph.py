"""Nodes and edges: adding, finding, removing, and walking by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fourfold import validation as rules
from fourfold.model import Json, NodeSummary
from fourfold.storage.codec import dumps
from fourfold.storage.linking import LABEL, Gone
from fourfold.storage.refusals import ambiguous, no_node
from fourfold.storage.sql import ids
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import batches, marks, rows, value
from fourfold.text.entities import normal_name, split_label, with_label

# ---------------------------------------------------------------- nodes


def add_node(
    db: Connection,
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


def restore(db: Connection, ns: int, node: int, aliases: Iterable[str], properties: Mapping[str, Json]) -> None:
    """What an export says of a node that was just inserted."""
    db.execute("UPDATE nodes SET properties = ? WHERE id = ?", (dumps(dict(properties)), node))
    for alias in aliases:
        _add_name(db, ns, node, normal_name(alias), alias)


def ensure_node(db: Connection, ns: int, name: str, label: str, *, made: bool) -> tuple[int, list[str]]:
    folded = normal_name(name)
    node = value(db, "SELECT id FROM nodes WHERE ns = ? AND folded = ? AND label = ?", ns, folded, label)
    if node is None:
        return insert_node(db, ns, name, label, made=made), [folded]
    if made:
        db.execute("UPDATE nodes SET made = 1 WHERE id = ?", (node,))
    return node, []


def ensure_reference(db: Connection, ns: int, reference: str) -> tuple[int, list[str]]:
    """The node that the end of an edge means, made if it is not there."""
    name, label = split_label(reference)
    return ensure_node(db, ns, name, label or LABEL, made=True)


def insert_node(db: Connection, ns: int, name: str, label: str, *, made: bool, node_id: int | None = None) -> int:
    """A new row; under a given id where one is restored."""
    folded = normal_name(name)
    node = ids.new(db, ns, "nodes", 1)[0] if node_id is None else node_id
    db.execute(
        "INSERT INTO nodes (id, ns, name, folded, label, properties, made) VALUES (?, ?, ?, ?, ?, '{}', ?)",
        (node, ns, name, folded, label, made),
    )
    _add_name(db, ns, node, folded, None)
    return node


def ensure_nodes(db: Connection, ns: int, names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """The nodes of these names with LABEL, created where missing; and the new names, in normal form."""
    folded = {name: normal_name(name) for name in names}
    spelled: dict[str, str] = {}
    for name in names:
        spelled.setdefault(folded[name], name)
    nodes = _nodes_of_names(db, ns, LABEL, list(spelled))
    fresh = [name for name in spelled if name not in nodes]
    nodes |= zip(fresh, ids.new(db, ns, "nodes", len(fresh)), strict=True)
    db.executemany(
        "INSERT INTO nodes (id, ns, name, folded, label, properties, made) VALUES (?, ?, ?, ?, ?, '{}', 0)",
        ((nodes[name], ns, spelled[name], name, LABEL) for name in fresh),
    )
    db.executemany("INSERT INTO names VALUES (?, ?, ?, NULL)", ((ns, name, nodes[name]) for name in fresh))
    return {name: nodes[normal] for name, normal in folded.items()}, fresh


def _nodes_of_names(db: Connection, ns: int, label: str, names: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in batches(names):
        sql = f"SELECT folded, id FROM nodes WHERE ns = ? AND folded IN ({marks(len(part))}) AND label = ?"  # noqa: S608  (placeholders)
        found.update(rows(db, sql, ns, *part, label))
    return found


def _add_name(db: Connection, ns: int, node: int, folded: str, alias: str | None) -> bool:
    db.execute("INSERT OR IGNORE INTO names VALUES (?, ?, ?, ?)", (ns, folded, node, alias))
    return bool(db.changes())


def attach(db: Connection, node: int, item: int, *, made: bool) -> None:
    """Makes an item the text of a node, which it then no longer just mentions."""
    db.execute(
        "INSERT INTO node_items VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET made = max(made, excluded.made)",
        (node, item, made),
    )
    db.execute("DELETE FROM mentions WHERE item = ? AND node = ?", (item, node))


class Named(NamedTuple):
    """A node that has some name."""

    id: int
    label: str
    is_own: bool
    """Whether it is the node's own name, and not an alias."""


def named(db: Connection, ns: int, folded: Sequence[str]) -> dict[str, list[Named]]:
    """The nodes of each of these names, which are in normal form."""
    found: dict[str, list[Named]] = {name: [] for name in folded}
    for part in batches(folded):
        sql = (
            "SELECT names.folded, nodes.id, nodes.label, names.alias IS NULL FROM names "  # noqa: S608  (placeholders)
            f"JOIN nodes ON nodes.id = names.node WHERE names.ns = ? AND names.folded IN ({marks(len(part))})"
        )
        for name, *node in rows(db, sql, ns, *part):
            found[name].append(Named(*node))
    return found


def resolve(
    db: Connection,
    ns: int,
    reference: str,
    label: str | None = None,
    known: Mapping[str, Sequence[Named]] | None = None,
) -> int | None:
    """The node that a name, an alias or `Name#label` means; its own name comes before others' aliases.

    `known`: nodes by name, where some were read before.
    """
    name, label = split_label(reference) if label is None else (reference, label)
    folded = normal_name(name)
    nodes = named(db, ns, [folded])[folded] if known is None or folded not in known else known[folded]
    fitting = [node for node in nodes if label is None or node.label == label]
    best = [node for node in fitting if node.is_own] or fitting
    if len(best) > 1:
        raise ambiguous(name, sorted(node.label for node in best))
    return best[0].id if best else None


def required(db: Connection, ns: int, reference: str, label: str | None = None) -> int:
    node = resolve(db, ns, reference, label)
    if node is None:
        raise no_node(reference if label is None else with_label(reference, label))
    return node


def summaries(
    db: Connection, ns: int, like: str, limit: int, offset: int, among: Sequence[int] | None
) -> list[NodeSummary]:
    sql = (
        "SELECT name, label, holders, mentioned, degree FROM nodes WHERE ns = ? "  # noqa: S608  (our own clauses)
        f"{'' if among is None else 'AND id IN (SELECT value FROM json_each(?)) '}AND (? = '' OR EXISTS "
        "(SELECT 1 FROM names WHERE node = nodes.id AND instr(names.folded, ?) > 0)) "
        "ORDER BY holders + mentioned + degree DESC, folded, label LIMIT ? OFFSET ?"
    )
    chosen = () if among is None else (json.dumps([*among]),)
    return [NodeSummary(*row) for row in rows(db, sql, ns, *chosen, like, like, limit, offset)]


def remove_node(db: Connection, ns: int, node: int) -> Gone:
    """Removes a node with its edges and mentions."""
    names = [folded for (folded,) in rows(db, "SELECT folded FROM names WHERE node = ?", node)]
    naming = "SELECT item FROM mentions WHERE node = ?1 UNION SELECT item FROM node_items WHERE node = ?1"
    mentioning = [item for (item,) in rows(db, naming, node)]
    db.execute("DELETE FROM nodes WHERE id = ?", (node,))
    left = "SELECT 1 FROM names WHERE ns = ? AND folded = ?"
    return Gone([name for name in names if value(db, left, ns, name) is None], mentioning)


def prune(db: Connection, ns: int, nodes: Iterable[int]) -> Gone:
    """Removes those nodes that only existed because of a title that is gone."""
    removed = [remove_node(db, ns, node) for node in nodes if not _is_needed(db, node)]
    return Gone(
        [name for gone in removed for name in gone.names], [item for gone in removed for item in gone.mentioning]
    )


def _is_needed(db: Connection, node: int) -> bool:
    sql = (
        "SELECT made OR EXISTS (SELECT 1 FROM node_items WHERE node = nodes.id) "
        "OR EXISTS (SELECT 1 FROM edges WHERE source = nodes.id OR target = nodes.id) FROM nodes WHERE id = ?"
    )
    return bool(value(db, sql, node))


# ---------------------------------------------------------------- edges


def remove_edge(db: Connection, source: int, relation: str, target: int) -> bool:
    db.execute("DELETE FROM edges WHERE source = ? AND relation = ? AND target = ?", (source, relation, target))
    return bool(db.changes())


def adjacent(db: Connection, node: int) -> list[int]:
    """The nodes at the other ends of its edges."""
    sql = "SELECT target FROM edges WHERE source = ?1 UNION SELECT source FROM edges WHERE target = ?1"
    return [other for (other,) in rows(db, sql, node)]
