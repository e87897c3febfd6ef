"""Nodes and edges: reading them, neighbours, shortest paths, adding and removing."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from fourfold import validation as rules
from fourfold.errors import NotFound
from fourfold.limits import HUB
from fourfold.model import Edge, Filters, Neighbor, Node, NodeSummary, NodeView, Page
from fourfold.ranking.connections import rank_by_links
from fourfold.retrieval import Hits, Link, Relation
from fourfold.storage.sql.dialect import Db, dumps, possible, sendable
from fourfold.storage.sql.rows import new_ids
from fourfold.storage.values import Direction, NeighborQuery, NewNode, ambiguous, no_node
from fourfold.text.entities import normal_name, split_label, with_label

if TYPE_CHECKING:
    from fourfold.storage.sql.reading import SqlSnapshot
    from fourfold.storage.sql.transaction import SqlTransaction

    Tx = SqlTransaction[Any, Any]

MENTIONS = "mentions"
"""The relation of the edges that follow from texts."""
LABEL = "entity"
"""The label of nodes that were given none."""
Step = tuple[int, str, int, float]
"""Node, relation, the node it leads to, weight."""


class Gone(NamedTuple):
    """Names and mentions that disappeared with some nodes."""

    names: list[str]
    """Names that no node has any more."""
    mentioning: list[int]
    """Items that mentioned the nodes. They may now mention other nodes: York, if New York is removed."""


NOTHING_GONE = Gone([], [])

# ---------------------------------------------------------------- reading

S = TypeVar("S", bound="SqlSnapshot[Any]")


@dataclass(eq=False)
class GraphReader(ABC, Generic[S]):
    """The graph of a namespace. How links are found, and which items pass filters, differs between the databases."""

    _at: S

    @abstractmethod
    def node_links(self, nodes: Sequence[int], filters: Filters) -> list[Link]:
        """To the items of these nodes, to items that mention them, and over one edge to the neighbours' items."""

    @abstractmethod
    def item_links(self, ids: Sequence[int], filters: Filters) -> list[Link]: ...

    def walk(self, strengths: Mapping[int, float], filters: Filters, limit: int, mentions: float = 1.0) -> Hits:
        """`mentions`: the factor of `ranking.connections.mention_factor`."""
        return rank_by_links(strengths, self.item_links(list(strengths), filters), limit, mentions)

    def named(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Those of these names (in normal form) that nodes have, with their nodes."""
        return named_nodes(self._at.db, self._at.ns.id, names)

    def relations(self, nodes: Sequence[int]) -> list[Relation]:
        """The edges of at most HUB nodes (those with the lowest ids): of each the HUB heaviest in each direction.

        An index finds the heaviest edges without reading the others of a hub.
        """
        some = sorted(nodes)[:HUB]
        if not some:
            return []
        each = " UNION ALL ".join([_HEAVIEST_OF_NODE] * len(some))
        rows = self._at.db.rows(each, *(node for node in some for _ in range(2)))
        return sorted(Relation(near, name, far, weight, forward == 1) for near, name, far, weight, forward in rows)

    def nodes(self, like: str, limit: int, offset: int, among: Sequence[int] | None = None) -> list[NodeSummary]:
        """Nodes with a name or alias that contains `like` (in normal form, "" for all), most connected first.

        `among`: only of these.
        """
        db = self._at.db
        if not sendable([like]):
            return []
        chosen, bound = ("", ()) if among is None else (f"AND nodes.id {db.any_id} ", (db.ids(among),))
        sql = (
            "SELECT name, label, holders, mentioned, degree FROM (SELECT name, label, holders, "  # noqa: S608  (constants)
            f"{db.mention_count} AS mentioned, degree, own.folded FROM nodes JOIN names own ON own.node = nodes.id "
            f"AND own.alias IS NULL WHERE nodes.ns = ? {chosen}AND (? = '' OR EXISTS (SELECT 1 FROM names "
            "WHERE node = nodes.id AND replace(names.folded, ?, '') <> names.folded))) AS counted "
            "ORDER BY holders + mentioned + degree DESC, folded, label LIMIT ? OFFSET ?"
        )
        return [NodeSummary(*row) for row in db.rows(sql, self._at.ns.id, *bound, like, like, limit, offset)]

    def nodes_of(self, item: int) -> list[int]:
        """The nodes that the item is the text of, and those that its text mentions."""
        sql = "SELECT node FROM node_items WHERE item = ? UNION SELECT node FROM mentions WHERE item = ?"
        return self._at.db.column(sql, item, item)

    def view(self, name: str, label: str | None, limit: int) -> NodeView:
        """One node with at most `limit` of its items, of its mentions and of its edges. NotFound if there is none."""
        db, node = self._at.db, self._required(name, label)
        sql = "SELECT item FROM {} WHERE node = ? ORDER BY item LIMIT ?"
        items, mentions = (db.column(sql.format(table), node, limit) for table in ("node_items", "mentions"))
        edges = (Edge(*row) for row in db.rows(_HEAVIEST_EDGES, node, node, limit))
        return NodeView(read_nodes(db, [node])[node], tuple(items), tuple(mentions), tuple(edges))

    def _required(self, reference: str, label: str | None = None) -> int:
        node = resolve(self._at.db, self._at.ns.id, reference, label)
        if node is None:
            raise no_node(reference if label is None else with_label(reference, label))
        return node

    def neighbors(self, wanted: NeighborQuery) -> Page[Neighbor]:
        """Nodes within `depth` steps, nearest first, then by the best product of weights on a shortest path.

        Only those of the page are read.
        """
        name, label, depth, direction, relation, limit, offset = wanted
        db, start = self._at.db, self._required(name, label)
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

    def path(self, start: str, goal: str, max_depth: int) -> list[Edge]:
        """A shortest path along edges in either direction; empty if there is none."""
        first, last = self._required(start), self._required(goal)
        came: dict[int, tuple[int, Edge]] = {}
        border, seen = [first], {first}
        for _ in range(max_depth):
            if last in seen or not border:
                break
            steps = _both_ways(self._at.db, border)
            reached = sorted({step[2] for step in steps} - seen)
            names = {node.id: node.name for node in read_nodes(self._at.db, [*border, *reached]).values()}
            for source, relation, target, weight, forward in steps:
                if target not in seen and target not in came:
                    ends = (names[source], names[target]) if forward else (names[target], names[source])
                    came[target] = (source, Edge(ends[0], relation, ends[1], weight))
            seen.update(reached)
            border = reached
        edges: list[Edge] = []
        while last != first and last in came:
            last, edge = came[last]
            edges.append(edge)
        return edges[::-1]


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


def _both_ways(db: Db, nodes: Sequence[int]) -> list[tuple[int, str, int, float, bool]]:
    forward = [(*step, True) for step in _steps(db, nodes, "out", None)]
    backward = [(*step, False) for step in _steps(db, nodes, "in", None)]
    return sorted([*forward, *backward], key=lambda step: (-step[3], step[2], not step[4], step))


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


# ---------------------------------------------------------------- finding nodes


def named_nodes(db: Db, ns: int, names: Collection[str]) -> dict[str, list[int]]:
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
    db: Db, ns: int, reference: str, label: str | None = None, by_name: Mapping[str, Sequence[NamedNode]] | None = None
) -> int | None:
    """The node that a name, an alias or `Name#label` means; its own name comes before others' aliases.

    `by_name`: nodes by name, where some were read before.
    """
    name, label = split_label(reference) if label is None else (reference, label)
    folded = normal_name(name)
    nodes = nodes_by_name(db, ns, [folded])[folded] if by_name is None or folded not in by_name else by_name[folded]
    fitting = [node for node in nodes if label is None or node.label == label]
    best = [node for node in fitting if node.is_own] or fitting
    if len(best) > 1:
        raise ambiguous(name, (node.label for node in best))
    return best[0].id if best else None


# ---------------------------------------------------------------- adding

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
    insert_nodes(db, ns, [(id, first[pair], *pair, made) for id, pair in zip(fresh, lacking, strict=True)])
    nodes |= zip(lacking, fresh, strict=True)
    return {pair: nodes[normal, pair[1]] for pair, normal in folded.items()}, [normal for normal, _ in lacking]


def insert_nodes(db: Db, ns: int, new: Sequence[tuple[int, str, str, str, bool]]) -> None:
    """Rows of (id, name, name in normal form, label, made)."""
    db.run_many(
        f"INSERT INTO nodes (id, ns, name, {db.name_column}, label, properties, made) "  # noqa: S608  (constants)
        "VALUES (?, ?, ?, ?, ?, '{}', ?)",
        [(id, ns, name, db.name_key(folded), label, made) for id, name, folded, label, made in new],
    )
    add_names(db, ns, [(id, folded, None) for id, _, folded, _, _ in new])


def add_names(db: Db, ns: int, new: Sequence[tuple[int, str, str | None]]) -> None:
    """Rows of (node, name in normal form, alias); names that a node has stay as they are."""
    columns = ("ns", "node", "alias", *db.name_columns)
    db.run_many(
        f"INSERT INTO names ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) ON CONFLICT DO NOTHING",  # noqa: S608  (constants)
        [(ns, node, alias, *db.name_values(folded)) for node, folded, alias in new],
    )


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


def set_edges(db: Db, edges: Iterable[Step]) -> None:
    """Of several weights for an edge the last counts."""
    last = {edge[:3]: edge for edge in edges}
    db.insert(
        "edges",
        ("bigint", "text", "bigint", "float8"),
        list(last.values()),
        "ON CONFLICT (source, relation, target) DO UPDATE SET weight = excluded.weight",
    )


# ---------------------------------------------------------------- removing


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


# ---------------------------------------------------------------- what callers write


class GraphWriter:
    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._db: Db = tx.db

    def add_nodes(self, nodes: Sequence[NewNode]) -> list[Node]:
        if not nodes:
            return []
        self._tx.stored()
        added = [self._add_node(new) for new in nodes]
        self._tx.ns.renamed_nodes.update(added)
        stored = read_nodes(self._db, added)
        return [stored[node] for node in added]

    def _add_node(self, new: NewNode) -> int:
        """The node of that name and label, with new properties merged in."""
        db, ns, item = self._db, self._tx.ns, new.item
        if item is not None and not (
            possible([item]) and db.value("SELECT 1 FROM items WHERE ns = ? AND id = ?", ns.id, item)
        ):
            raise NotFound(f"no item {item}", "Store the item first, then refer to its id")
        nodes, fresh = ensure_nodes(db, ns.id, [(new.name, new.label)], made=True)
        node = nodes[new.name, new.label]
        if new.properties is not None:
            stored = json.loads(db.value("SELECT properties FROM nodes WHERE id = ?", node))
            merged = rules.merged_properties(stored, new.properties)
            db.run("UPDATE nodes SET properties = ? WHERE id = ?", dumps(merged), node)
        had = set(db.column("SELECT folded FROM names WHERE node = ?", node))
        aliases = {normal_name(alias): alias for alias in reversed(new.aliases)}
        added = [name for name in aliases if name not in had]
        rules.check_aliases(len(had) - 1 + len(added))  # one of those it had is its own name
        add_names(db, ns.id, [(node, name, aliases[name]) for name in added])
        if item is not None:
            attach(db, [(node, item, True)])
            ns.relinked.add(item)
        self._announce([*fresh, *added])
        return node

    def _announce(self, fresh: Sequence[str]) -> None:
        """Points older items to nodes that have just got these names."""
        rows = self._tx.link_rows
        self._tx.linker.renamed(rows, fresh)
        self._tx.linker.announce(rows, fresh)

    def add_edges(self, edges: Sequence[Edge]) -> None:
        """Creates missing nodes; an existing edge gets the new weight."""
        if not edges:
            return
        db, ns = self._db, self._tx.stored()
        ends = dict.fromkeys(end for edge in edges for end in (edge.source, edge.target))
        by_name = nodes_by_name(db, ns.id, {normal_name(split_label(end)[0]) for end in ends})
        nodes: dict[str, int] = {}
        fresh: list[str] = []
        for end in ends:
            node = resolve(db, ns.id, end, by_name=by_name)
            if node is None:
                name, label = split_label(end)
                made, added = ensure_nodes(db, ns.id, [(name, label or LABEL)], made=True)
                node = made[name, label or LABEL]
                fresh += added
                by_name.pop(normal_name(name), None)  # another spelling or label may mean the new node
            nodes[end] = node
        set_edges(db, ((nodes[edge.source], edge.relation, nodes[edge.target], edge.weight) for edge in edges))
        self._announce(fresh)
        ns.renamed_nodes.update(nodes.values())

    def remove_node(self, name: str, label: str | None) -> bool:
        db, ns = self._db, self._tx.ns
        node = resolve(db, ns.id, name, label)
        if node is None:
            return False
        self.remove_nodes([node])
        return True

    def remove_nodes(self, nodes: Sequence[int]) -> None:
        db, ns = self._db, self._tx.ns
        sql = "SELECT target FROM edges WHERE source = ? UNION SELECT source FROM edges WHERE target = ?"
        for node in nodes:
            ns.renamed_nodes.update([node, *db.column(sql, node, node)])
        self._tx.linker.renamed(self._tx.link_rows, gone=remove_nodes(db, ns.id, nodes))
        self._tx.changed = True

    def remove_edge(self, source: str, relation: str, target: str) -> bool:
        ns = self._tx.ns
        start, end = (resolve(self._db, ns.id, name) for name in (source, target))
        sql = "DELETE FROM edges WHERE source = ? AND relation = ? AND target = ?"
        if start is None or end is None or not self._db.run(sql, start, relation, end):
            return False
        ns.renamed_nodes.update([start, end])
        self._tx.changed = True
        return True
