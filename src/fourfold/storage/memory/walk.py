"""Reading the graph: nodes by name, neighbours and paths, and links for retrieval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fourfold import limits
from fourfold.limits import WALK_EDGES
from fourfold.model import Edge, Filters, Neighbor, NodeSummary, NodeView, Page
from fourfold.ranking.connections import rank_by_links
from fourfold.retrieval import Hits, Link
from fourfold.storage.memory.filters import passes
from fourfold.storage.memory.graph import mentions, required
from fourfold.storage.memory.state import Namespace
from fourfold.storage.values import NeighborQuery
from fourfold.text.entities import normal_name

MENTIONS = "mentions"
"""The relation of the edges that follow from texts."""


class MemoryGraph:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def nodes(self, like: str, limit: int, offset: int, among: Sequence[int] | None = None) -> list[NodeSummary]:
        ns = self._ns
        mentioned = Counter(node for nodes in mentions(ns).values() for node in nodes)
        ends = Counter(end for source, _, target in ns.edges for end in {source, target})
        rows = [row for row in ns.nodes.values() if any(like in name for name in row.names)]
        rows = [row for row in rows if among is None or row.id in among]
        owned = {row.id: len(ns.items_of(row.id)) for row in rows}
        rows.sort(
            key=lambda row: (-(owned[row.id] + mentioned[row.id] + ends[row.id]), normal_name(row.name), row.label)
        )
        found = [NodeSummary(row.name, row.label, owned[row.id], mentioned[row.id], ends[row.id]) for row in rows]
        return found[offset:][:limit]

    def nodes_of(self, item: int) -> Sequence[int]:
        own = {node for node, owner in self._ns.own if owner == item}
        return sorted(own | mentions(self._ns).get(item, set()))

    def view(self, name: str, label: str | None, limit: int) -> NodeView:
        def order(edge: Edge) -> tuple[float, str, str, str]:
            return -edge.weight, normal_name(edge.source), edge.relation, normal_name(edge.target)

        ns = self._ns
        node = required(ns, name, label)
        edges = [
            Edge(ns.nodes[source].name, relation, ns.nodes[target].name, weight)
            for (source, relation, target), weight in ns.edges.items()
            if node in (source, target)
        ]
        mentioning = sorted(item for item, nodes in mentions(ns).items() if node in nodes)
        return NodeView(
            ns.node(node),
            tuple(ns.items_of(node)[:limit]),
            tuple(mentioning[:limit]),
            tuple(sorted(edges, key=order)[:limit]),
        )

    def neighbors(self, wanted: NeighborQuery) -> Page[Neighbor]:
        """Nodes at one distance are ordered by the best product of weights on a shortest path."""
        start, relation, direction = required(self._ns, wanted.name, wanted.label), wanted.relation, wanted.direction
        steps = [
            step
            for step in _steps(self._ns)
            if relation in (None, step.relation) and (direction == "both" or step.forward == (direction == "out"))
        ]
        found: dict[int, Neighbor] = {}
        border = {start: 1.0}
        for distance in range(1, wanted.depth + 1):
            reached: dict[int, Neighbor] = {}
            for step in steps:
                weight = border.get(step.source, 0.0) * step.weight
                known = reached[step.target].weight if step.target in reached else 0.0
                if weight > known and step.target != start and step.target not in found:
                    reached[step.target] = Neighbor(self._ns.node(step.target), step.relation, distance, weight)
            found |= reached
            border = {node: near.weight for node, near in reached.items()}
        ordered = sorted(found.values(), key=lambda near: (near.distance, -near.weight, near.node.id))
        return Page(ordered[wanted.offset :][: wanted.limit], len(ordered), wanted.offset)

    def path(self, start: str, goal: str, max_depth: int) -> list[Edge]:
        """A shortest path along edges in either direction; empty if there is none."""
        source, target = required(self._ns, start), required(self._ns, goal)
        steps = sorted(_steps(self._ns), key=lambda step: (-step.weight, step.target, not step.forward, step))
        paths: dict[int, list[Edge]] = {source: []}
        for _ in range(max_depth):
            reached: dict[int, list[Edge]] = {}
            for step in steps:
                if step.source in paths and step.target not in paths:
                    reached.setdefault(step.target, [*paths[step.source], _edge(self._ns, step)])
            paths |= reached
        return paths.get(target, [])

    def named(self, names: Sequence[str]) -> dict[str, list[int]]:
        having = {name: [row.id for row in self._ns.nodes.values() if name in row.names] for name in names}
        return {name: nodes for name, nodes in having.items() if nodes}

    def node_links(self, nodes: Sequence[int], filters: Filters) -> list[Link]:
        ns = self._ns
        mentioning = _mentioning(mentions(ns))
        own = [Link(node, item, "own", 1.0, degree) for node in nodes for item, degree in _own(ns, node, filters)]
        naming = [
            Link(node, item, "names", 1.0, degree)
            for node in nodes
            for item, degree in _unless_hub(ns, mentioning.get(node, ()), filters)
        ]
        return [*own, *naming, *_over_edges(ns, [(node, node) for node in nodes], filters)]

    def item_links(self, ids: Sequence[int], filters: Filters) -> list[Link]:
        """From items to what they mention, to what mentions them, and over one edge from their nodes."""
        ns = self._ns
        wanted = sorted(set(ids) & ns.items.keys())
        mentioned = mentions(ns)
        mentioning = _mentioning(mentioned)
        out = [
            Link(id, item, "mentions", 1.0, len(mentioning[node]) * owners)
            for id in wanted
            for node in mentioned.get(id, ())
            if len(mentioning[node]) <= limits.HUB
            for item, owners in _own(ns, node, filters)
        ]
        owned = [(id, node) for node, id in ns.own if id in wanted]
        back = [
            Link(id, item, "mentioned-by", 1.0, len(ns.items_of(node)) * degree)
            for id, node in owned
            for item, degree in _unless_hub(ns, mentioning.get(node, ()), filters)
        ]
        found = [*out, *back, *_over_edges(ns, owned, filters)]
        return [link for link in found if link.source != link.item]

    def walk(self, strengths: Mapping[int, float], filters: Filters, limit: int, mentions: float = 1.0) -> Hits:
        return rank_by_links(strengths, self.item_links(list(strengths), filters), limit, mentions)


# ---------------------------------------------------------------- steps by name


class Step(NamedTuple):
    source: int
    relation: str
    target: int
    weight: float
    forward: bool


def _steps(ns: Namespace) -> list[Step]:
    """All edges, stored ones and those of mentions, in both directions."""
    edges = {(source, relation, target, weight) for (source, relation, target), weight in ns.edges.items()}
    for item, nodes in mentions(ns).items():
        owners = [node for node, owned in ns.own if owned == item]
        edges |= {(owner, MENTIONS, node, 1.0) for owner in owners for node in nodes}
    forward = [Step(*edge, True) for edge in edges]
    return sorted([*forward, *(Step(step.target, step.relation, step.source, step.weight, False) for step in forward)])


def _edge(ns: Namespace, step: Step) -> Edge:
    ends = (step.source, step.target) if step.forward else (step.target, step.source)
    source, target = (ns.nodes[node].name for node in ends)
    return Edge(source, step.relation, target, step.weight)


# ---------------------------------------------------------------- links for retrieval


def _over_edges(ns: Namespace, starts: Iterable[tuple[int, int]], filters: Filters) -> list[Link]:
    """Links over one edge. `starts`: pairs of the source of the links and its node."""
    sources: dict[int, list[int]] = {}
    for source, node in starts:
        sources.setdefault(node, []).append(source)
    found = [edge for node in sources for edge in _heaviest_edges(ns, node)]
    followed = sorted(found, key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]
    degree = Counter(end for source, _, target in ns.edges for end in {source, target})
    return [
        Link(source, item, "edge", weight, degree[node] * degree[target] * owners)
        for node, target, weight in followed
        for item, owners in _own(ns, target, filters)
        for source in sources[node]
    ]


def _heaviest_edges(ns: Namespace, node: int) -> list[tuple[int, int, float]]:
    """The heaviest edges of a node, as (node, other end, weight)."""
    out = [(node, target, weight) for (source, _, target), weight in ns.edges.items() if source == node]
    back = [(node, source, weight) for (source, _, target), weight in ns.edges.items() if target == node]
    return sorted([*out, *back], key=lambda edge: (-edge[2], edge[1]))[: limits.HUB]


def _own(ns: Namespace, node: int, filters: Filters) -> list[tuple[int, int]]:
    return _unless_hub(ns, ns.items_of(node), filters)


def _mentioning(mentioned: Mapping[int, Iterable[int]]) -> dict[int, list[int]]:
    """By node: the items that mention it."""
    found: dict[int, list[int]] = {}
    for item, nodes in mentioned.items():
        for node in nodes:
            found.setdefault(node, []).append(item)
    return found


def _unless_hub(ns: Namespace, items: Sequence[int], filters: Filters) -> list[tuple[int, int]]:
    """Those of a node's items that pass, each with the number of all of them; nothing for a hub."""
    if len(items) > limits.HUB:
        return []
    return [(item, len(items)) for item in items if passes(ns.items[item].item, filters)]
