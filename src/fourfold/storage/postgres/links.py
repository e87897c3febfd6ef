"""Links and tags as retrieval sees them: items near some nodes, items linked to some items, and uses of tags.

Hubs are not followed (limits.HUB): every query reads at most one row more of a node than the limit, so a walk costs the
same in any store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fourfold import limits
from fourfold.limits import HUB, WALK_EDGES
from fourfold.model import Filters
from fourfold.ranking.connections import rank_by_shared_tags, rarity, selective_tags
from fourfold.retrieval import Hits, Link
from fourfold.storage.postgres.connection import Connection, together
from fourfold.storage.sql.dialect import possible, sendable
from fourfold.storage.sql.graph import GraphReader
from fourfold.storage.sql.reading import where
from fourfold.storage.values import TagUse

if TYPE_CHECKING:
    from fourfold.storage.postgres.store import PostgresSnapshot

Items = list[int]
"""The items of a node; for a hub, one more than the limit."""
_Row = tuple[int, int, float, int, int, Items]
"""An edge: node, neighbour, weight, the number of edges of each, and the items of the neighbour. Another link: its
start, a node, nothing, the number of items that have or mention the node, nothing, and the items it leads to."""


def _items(table: str, node: str) -> str:
    return f"ARRAY(SELECT item FROM {table} WHERE node = {node} ORDER BY item LIMIT {HUB + 1})"  # noqa: S608  (constants and our own clauses)


def _edges(asked: str) -> str:
    """Over the heaviest edges of nodes, in both directions, and of these over the heaviest."""
    each = (
        f"(SELECT {{1}} AS target, weight FROM edges WHERE {{0}} = asked.node ORDER BY weight DESC, {{1}} LIMIT {HUB})"  # noqa: S608  (constants)
    )
    both = f"{each.format('source', 'target')} UNION ALL {each.format('target', 'source')}"
    return (
        "SELECT e.node, e.target, e.weight, a.degree::bigint, b.degree::bigint, "  # noqa: S608  (constants, our own clauses and placeholders)
        f"{_items('node_items', 'e.target')} FROM ("
        f"SELECT asked.node, found.target, found.weight FROM {asked} AS asked (node), LATERAL "
        f"(SELECT target, weight FROM ({both}) AS ends ORDER BY weight DESC, target LIMIT {HUB}) AS found "
        f"ORDER BY found.weight DESC, asked.node, found.target LIMIT {WALK_EDGES}"
        ") AS e JOIN nodes AS a ON a.id = e.node JOIN nodes AS b ON b.id = e.target "
        "ORDER BY e.weight DESC, e.node, e.target"
    )


# ---------------------------------------------------------------- from nodes

_NODES = "unnest(?::bigint[])"
_AROUND_NODES = [
    f"SELECT asked.node, asked.node, 0::float8, 0::bigint, 0::bigint, {_items(table, 'asked.node')} "  # noqa: S608  (constants and our own clauses)
    f"FROM {_NODES} AS asked (node)"
    for table in ("node_items", "mentions")
]
_EDGES_OF_NODES = _edges(_NODES)


def node_links(db: Connection, nodes: Sequence[int]) -> list[Link]:
    """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
    owning, mentioned, edges = together(db, [(sql, list(nodes)) for sql in (*_AROUND_NODES, _EDGES_OF_NODES)])
    own = [Link(node, item, "own", 1.0, len(items)) for node, *_, items in owning for item in _few(items)]
    naming = [Link(node, item, "names", 1.0, len(items)) for node, *_, items in mentioned for item in _few(items)]
    return [*own, *naming, *_over(edges, {row[0]: [row[0]] for row in owning})]


# ---------------------------------------------------------------- from items

_OF_ITEMS = "JOIN items ON items.id = item WHERE items.ns = ? AND item = ANY(?::bigint[])"
_OWNED = (
    f"SELECT item, node, 0::float8, holders::bigint, 0::bigint, {_items('mentions', 'nodes.id')} "  # noqa: S608  (constants and our own clauses)
    f"FROM node_items JOIN nodes ON nodes.id = node {_OF_ITEMS} ORDER BY item, node"
)
_NAMED = (
    f"SELECT asked.item, asked.node, 0::float8, popularity, 0::bigint, {_items('node_items', 'asked.node')} "  # noqa: S608  (constants and our own clauses)
    f"FROM (SELECT item, node FROM mentions {_OF_ITEMS}) AS asked, LATERAL (SELECT count(*) AS popularity FROM "
    f"(SELECT 1 FROM mentions AS o WHERE o.node = asked.node LIMIT {HUB + 1}) AS some_) AS counted "
    f"WHERE popularity <= {HUB} ORDER BY asked.item, asked.node"
)
_EDGES_OF_ITEMS = _edges(f"(SELECT DISTINCT node FROM node_items {_OF_ITEMS})")  # noqa: S608  (constants)


def item_links(db: Connection, ns: int, items: Sequence[int]) -> list[Link]:
    """From items to what they mention, to what mentions them, and over one edge from their nodes."""
    wanted = possible(items)
    owned, named, edges = together(db, [(sql, ns, wanted) for sql in (_OWNED, _NAMED, _EDGES_OF_ITEMS)])
    mentions = (
        Link(item, target, "mentions", 1.0, popularity * len(own))
        for item, _, _, popularity, _, own in named
        for target in _few(own)
    )
    mentioned = (
        Link(item, other, "mentioned-by", 1.0, holders * len(mentioning))
        for item, _, _, holders, _, mentioning in owned
        for other in _few(mentioning)
    )
    starts: dict[int, list[int]] = {}
    for item, node, *_ in owned:
        starts.setdefault(node, []).append(item)
    return [link for link in (*mentions, *mentioned, *_over(edges, starts)) if link.source != link.item]


def _over(edges: Iterable[_Row], starts: dict[int, list[int]]) -> list[Link]:
    """`starts`: what the links of each node start from."""
    return [
        Link(source, item, "edge", weight, degree * reached * len(items))
        for node, _, weight, degree, reached, items in edges
        for item in _few(items)
        for source in starts[node]
    ]


def _few(items: Items) -> Items:
    """The items of a node; none for a hub."""
    return items if len(items) <= HUB else []


# ---------------------------------------------------------------- the facet of a snapshot


class PostgresGraph(GraphReader["PostgresSnapshot"]):
    def node_links(self, nodes: Sequence[int], filters: Filters) -> list[Link]:
        return self._passing(node_links(self._at.db, nodes), filters)

    def item_links(self, ids: Sequence[int], filters: Filters) -> list[Link]:
        return self._passing(item_links(self._at.db, self._at.ns.id, ids), filters)

    def _passing(self, links: list[Link], filters: Filters) -> list[Link]:
        """The links whose item passes the filters."""
        if filters.condition is None or not links:
            return links
        kept = set(self._at.rows.ids(filters, sorted({link.item for link in links})))
        return [link for link in links if link.item in kept]


# ---------------------------------------------------------------- tags


@dataclass(slots=True, eq=False)
class TagUses:
    _at: PostgresSnapshot

    def counts(self) -> Mapping[str, int]:
        ns = self._at.ns
        return self._at.caches.tag_counts.get(ns.id, ns.changes, "", self._counted, limits.TAG_CACHE_SECONDS)

    def _counted(self) -> Mapping[str, int]:
        tables = "item_tags WHERE ns = ?"
        if self._at.hidden.superseded:
            tables = "item_tags JOIN items ON items.id = item WHERE item_tags.ns = ? AND superseded_at IS NULL"
        sql = f"SELECT folded, count(*) FROM {tables} GROUP BY folded ORDER BY folded"  # noqa: S608  (our own clauses)
        return dict(self._at.db.rows(sql, self._at.ns.id))

    def uses(self, candidates: Sequence[str], filters: Filters, limit: int) -> list[TagUse]:
        sql = "SELECT folded, count(*) FROM item_tags WHERE ns = ? AND folded = ANY(?) GROUP BY folded"
        wanted = sendable(candidates)
        return self._best(dict(self._at.db.rows(sql, self._at.ns.id, wanted)) if wanted else {}, filters, limit)

    def shared(self, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        """Uses are counted only as far as `selective_tags` distinguishes them."""
        sql = (
            "SELECT folded, (SELECT count(*) FROM (SELECT 1 FROM item_tags AS others "  # noqa: S608  (constants)
            f"WHERE others.ns = mine.ns AND others.folded = mine.folded LIMIT {limits.HUB + 1}) AS few) "
            "FROM (SELECT DISTINCT ns, folded FROM item_tags WHERE ns = ? AND item = ANY(?::bigint[])) AS mine"
        )
        carried = dict(self._at.db.rows(sql, self._at.ns.id, possible(ids)))
        return self._best({tag: carried[tag] for tag in selective_tags(carried)}, filters, limits.CANDIDATES)

    def rank_shared(self, strengths: Mapping[int, float], filters: Filters, limit: int) -> Hits:
        return rank_by_shared_tags(strengths, self.shared(list(strengths), filters), limit)

    def _best(self, uses: Mapping[str, int], filters: Filters, limit: int) -> list[TagUse]:
        """The uses of these tags by the items that carry the most and rarest of them, sorted."""
        if not uses:
            return []
        condition, bindings = where(self._at.db, filters, self._at.ns.id)
        source = "item_tags JOIN items ON items.id = item" if condition else "item_tags"
        sql = (
            f"SELECT item, array_agg(folded) FROM {source} "  # noqa: S608  (our own clauses)
            "JOIN unnest(?::text[], ?::float8[]) AS asked (tag, rarity) ON folded = tag "
            f"WHERE item_tags.ns = ?{condition} GROUP BY item ORDER BY sum(rarity ORDER BY folded) DESC, item LIMIT ?"
        )
        weights = [rarity(count) for count in uses.values()]
        best = self._at.db.rows(sql, list(uses), weights, self._at.ns.id, *bindings, limit)
        return sorted(TagUse(item, tag, uses[tag]) for item, tags in best for tag in tags)
