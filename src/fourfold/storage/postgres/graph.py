"""Nodes and edges: adding, finding, removing, and walking by name."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from fourfold import validation as rules
from fourfold.errors import NotFound
from fourfold.model import Edge, NodeSummary
from fourfold.storage.codec import dumps
from fourfold.storage.linking import LABEL, NOTHING_GONE, Gone
from fourfold.storage.postgres import rows as item_rows
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db, column, digest, rows, run, run_many
from fourfold.storage.refusals import ambiguous, no_node
from fourfold.storage.sql.dialect import possible, sendable
from fourfold.storage.sql.graph import set_edges
from fourfold.storage.sql.ids import new as new_ids
from fourfold.storage.values import NewNode
from fourfold.text.entities import normal_name, split_label, with_label

Wanted = tuple[str, str]
"""Name and label of a node."""


# ---------------------------------------------------------------- nodes


def ensure_nodes(db: Db, ns: int, wanted: Sequence[Wanted], *, made: bool) -> tuple[dict[Wanted, int], list[str]]:
    """The nodes of these (name, label), created if missing, and the new names."""
    folded = {pair: normal_name(pair[0]) for pair in wanted}
    first: dict[tuple[bytes, str], tuple[str, str]] = {}
    for (name, label), normal in folded.items():
        first.setdefault((digest(normal), label), (name, normal))
    sql = "SELECT digest, label, id FROM nodes WHERE ns = %s AND digest = ANY(%s::bytea[])"
    found = rows(db, sql, ns, [key for key, _ in first]) if first else []
    known = {(key, label): id for key, label, id in found if (key, label) in first}
    if made and known:
        run(db, "UPDATE nodes SET made = true WHERE id = ANY(%s::bigint[]) AND NOT made", list(known.values()))
    lacking = [key for key in first if key not in known]
    fresh = new_ids(db, ns, "nodes", len(lacking))
    insert_nodes(db, ns, [(id, first[key][0], key[1], made) for id, key in zip(fresh, lacking, strict=True)])
    known |= dict(zip(lacking, fresh, strict=True))
    return {pair: known[digest(name), pair[1]] for pair, name in folded.items()}, [first[key][1] for key in lacking]


def insert_nodes(db: Db, ns: int, new: Sequence[tuple[int, str, str, bool]]) -> None:
    """Rows of (id, name, label, made)."""
    run_many(
        db,
        "INSERT INTO nodes (id, ns, name, digest, label, properties, made) VALUES (%s, %s, %s, %s, %s, '{}', %s)",
        [(id, ns, name, digest(normal_name(name)), label, made) for id, name, label, made in new],
    )
    add_names(db, ns, [(id, normal_name(name), None) for id, name, _, _ in new])


def add_names(db: Db, ns: int, new: Sequence[tuple[int, str, str | None]]) -> None:
    """Rows of (node, folded name, alias); names that a node has stay as they are."""
    run_many(
        db,
        "INSERT INTO names VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        [(ns, digest(folded), node, digest(opening(folded)), folded, alias) for node, folded, alias in new],
    )


def opening(folded: str) -> str:
    """The words by which texts are selected for this name: its only word, or its first two."""
    return " ".join(folded.split(" ", 2)[:2])


def add_node(db: Db, ns: Namespace, new: NewNode) -> tuple[int, list[str]]:
    """The node of that name and label, with new properties merged in, and its new names."""
    if new.item is not None and not item_rows.existing(db, ns.id, [new.item]):
        raise NotFound(f"no item {new.item}", "Store the item first, then refer to its id")
    nodes, fresh = ensure_nodes(db, ns.id, [(new.name, new.label)], made=True)
    node = nodes[new.name, new.label]
    if new.properties is not None:
        known = json.loads(rows(db, "SELECT properties FROM nodes WHERE id = %s", node)[0][0])
        merged = rules.merged_properties(known, new.properties)
        run(db, "UPDATE nodes SET properties = %s WHERE id = %s", dumps(merged), node)
    had = {name for (name,) in rows(db, "SELECT folded FROM names WHERE node = %s", node)}
    aliases = {normal_name(alias): alias for alias in reversed(new.aliases)}
    added = [name for name in aliases if name not in had]
    rules.check_aliases(len(had) - 1 + len(added))  # one of those it had is its own name
    add_names(db, ns.id, [(node, name, aliases[name]) for name in added])
    if new.item is not None:
        attach(db, [(node, new.item, True)])
    return node, [*fresh, *added]


def attach(db: Db, pairs: Sequence[tuple[int, int, bool]]) -> None:
    """Makes items the texts of nodes: (node, item, whether a caller attached it). They no longer mention the nodes."""
    if not pairs:
        return
    said = {(node, item): made for node, item, made in sorted(pairs)}
    nodes, items = map(list, zip(*said, strict=True))
    run(
        db,
        "INSERT INTO node_items SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::boolean[]) "
        "ON CONFLICT (node, item) DO UPDATE SET made = node_items.made OR excluded.made",
        nodes, items, list(said.values()),
    )  # fmt: skip
    sql = "DELETE FROM mentions USING unnest(%s::bigint[], %s::bigint[]) AS own (node, item) "
    run(db, sql + "WHERE mentions.node = own.node AND mentions.item = own.item", nodes, items)


def detach(db: Db, pairs: Sequence[tuple[int, int]]) -> None:
    """Detaches items from these nodes: (node, item)."""
    if pairs:
        sql = "DELETE FROM node_items USING unnest(%s::bigint[], %s::bigint[]) AS own (node, item) "
        sql += "WHERE node_items.node = own.node AND node_items.item = own.item"
        run(db, sql, *map(list, zip(*pairs, strict=True)))


def resolve(db: Db, ns: int, reference: str, label: str | None = None) -> int | None:
    """The node that a name, an alias or `Name#label` means; its own name comes before others' aliases."""
    name, label = split_label(reference) if label is None else (reference, label)
    sql = (
        "SELECT nodes.id, nodes.label, names.alias IS NULL FROM names JOIN nodes ON nodes.id = names.node "
        "WHERE names.ns = %s AND names.digest = %s AND (%s::text IS NULL OR nodes.label = %s) ORDER BY 3 DESC, 2"
    )
    known = label is None or sendable([label])
    found = rows(db, sql, ns, digest(normal_name(name)), label, label) if known else []
    best = [row for row in found if row[2] == found[0][2]]
    if len(best) > 1:
        raise ambiguous(name, (label for _, label, _ in best))
    return best[0][0] if best else None


def required(db: Db, ns: int, reference: str, label: str | None = None) -> int:
    node = resolve(db, ns, reference, label)
    if node is None:
        raise no_node(reference if label is None else with_label(reference, label))
    return node


def summaries(
    db: Db, ns: Namespace, like: str, limit: int, offset: int, among: Sequence[int] | None
) -> list[NodeSummary]:
    sql = (
        "SELECT name, label, held, named, degree FROM nodes "  # noqa: S608  (our own clauses)
        "JOIN names own ON own.node = nodes.id AND own.alias IS NULL, "
        "LATERAL (SELECT count(*) AS held FROM node_items WHERE node = nodes.id) AS holding, "
        "LATERAL (SELECT count(*) AS named FROM mentions WHERE node = nodes.id) AS naming "
        f"WHERE nodes.ns = %s {'' if among is None else 'AND nodes.id = ANY(%s::bigint[]) '}AND (%s = '' OR EXISTS "
        "(SELECT 1 FROM names WHERE node = nodes.id AND strpos(names.folded, %s) > 0)) "
        "ORDER BY held + named + degree DESC, own.folded, label LIMIT %s OFFSET %s"
    )
    chosen = () if among is None else ([*among],)
    found = rows(db, sql, ns.id, *chosen, like, like, limit, offset) if sendable([like]) else []
    return [NodeSummary(*row) for row in found]


def remove_nodes(db: Db, ns: int, nodes: Collection[int]) -> Gone:
    """Removes nodes with their edges and mentions."""
    if not nodes:
        return NOTHING_GONE
    ids = list(nodes)
    naming = (
        "SELECT item FROM mentions WHERE node = ANY(%s::bigint[]) "
        "UNION SELECT item FROM node_items WHERE node = ANY(%s::bigint[]) ORDER BY item"
    )
    mentioning = column(db, naming, ids, ids)
    names = [name for (name,) in rows(db, "SELECT folded FROM names WHERE node = ANY(%s::bigint[])", ids)]
    run(db, "DELETE FROM nodes WHERE id = ANY(%s::bigint[])", ids)
    sql = "SELECT folded FROM names WHERE ns = %s AND digest = ANY(%s::bytea[])"
    left = {name for (name,) in rows(db, sql, ns, [digest(name) for name in names])}
    return Gone([name for name in names if name not in left], mentioning)


def nodes_of(db: Db, ids: Sequence[int]) -> set[int]:
    """The nodes that items are the texts of."""
    sql = "SELECT DISTINCT node FROM node_items WHERE item = ANY(%s::bigint[])"
    return {node for (node,) in rows(db, sql, possible(ids))}


def prune(db: Db, ns: int, nodes: Collection[int]) -> Gone:
    """Removes nodes that existed only because of a removed title."""
    sql = (
        "SELECT id FROM nodes WHERE id = ANY(%s::bigint[]) AND NOT made "
        "AND NOT EXISTS (SELECT 1 FROM node_items WHERE node = nodes.id) "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE source = nodes.id) "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE target = nodes.id)"
    )
    return remove_nodes(db, ns, [node for (node,) in rows(db, sql, list(nodes))] if nodes else [])


# ---------------------------------------------------------------- edges


def add_edges(db: Db, ns: int, edges: Sequence[Edge]) -> list[str]:
    """Stores edges, creating missing nodes; returns the new names."""
    known: dict[str, int] = {}
    fresh: list[str] = []
    for name in dict.fromkeys(end for edge in edges for end in (edge.source, edge.target)):
        node = resolve(db, ns, name)
        if node is None:
            named, label = split_label(name)
            made, added = ensure_nodes(db, ns, [(named, label or LABEL)], made=True)
            node = made[named, label or LABEL]
            fresh += added
        known[name] = node
    set_edges(db, [(known[edge.source], edge.relation, known[edge.target], edge.weight) for edge in edges])
    return fresh


def remove_edge(db: Db, ns: int, source: str, relation: str, target: str) -> bool:
    ends = [resolve(db, ns, name) for name in (source, target)]
    sql = "DELETE FROM edges WHERE source = %s AND relation = %s AND target = %s"
    return None not in ends and bool(run(db, sql, ends[0], relation, ends[1]))
