"""Walking the graph: by name for people, from nodes and items for retrieval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fourfold.limits import HUB, WALK_EDGES
from fourfold.model import Edge, Filters, Neighbor, NodeSummary, NodeView
from fourfold.search.walk import Link, longest
from fourfold.stores.base import Direction
from fourfold.stores.memory.filters import passes
from fourfold.stores.memory.graph import mentions
from fourfold.stores.memory.state import Namespace
from fourfold.text.entities import normal_name

MENTIONS = "mentions"
"""The relation of the edges that texts make by themselves (B11)."""


class Step(NamedTuple):
    source: int
    relation: str
    target: int
    weight: float
    forward: bool


def _steps(ns: Namespace) -> list[Step]:
    """All edges, said ones and those that mentions make, in both directions."""
    edges = {(source, relation, target, weight) for (source, relation, target), weight in ns.edges.items()}
    for item, named in mentions(ns).items():
        owners = [node for node, owned in ns.own if owned == item]
        edges |= {(owner, MENTIONS, node, 1.0) for owner in owners for node in named}
    forward = [Step(*edge, True) for edge in edges]
    return sorted([*forward, *(Step(step.target, step.relation, step.source, step.weight, False) for step in forward)])


def summaries(ns: Namespace, like: str) -> list[NodeSummary]:
    named = Counter(node for nodes in mentions(ns).values() for node in nodes)
    ends = Counter(end for source, _, target in ns.edges for end in {source, target})
    rows = [row for row in ns.nodes.values() if any(like in name for name in row.names)]
    held = {row.id: len(ns.items_of(row.id)) for row in rows}
    rows.sort(key=lambda row: (-(held[row.id] + named[row.id] + ends[row.id]), normal_name(row.name), row.label))
    return [NodeSummary(row.name, row.label, held[row.id], named[row.id], ends[row.id]) for row in rows]


def view(ns: Namespace, node: int, limit: int) -> NodeView:
    def order(edge: Edge) -> tuple[float, str, str, str]:
        return -edge.weight, normal_name(edge.source), edge.relation, normal_name(edge.target)

    edges = [
        Edge(ns.nodes[source].name, relation, ns.nodes[target].name, weight)
        for (source, relation, target), weight in ns.edges.items()
        if node in (source, target)
    ]
    naming = sorted(item for item, nodes in mentions(ns).items() if node in nodes)
    items = ns.items_of(node)
    return NodeView(ns.node(node), tuple(items[:limit]), tuple(naming[:limit]), tuple(sorted(edges, key=order)[:limit]))


def neighbors(ns: Namespace, start: int, depth: int, direction: Direction, relation: str | None) -> list[Neighbor]:
    """Nodes within `depth` steps, nearest first, then by the best product of weights on a shortest way."""
    steps = [step for step in _steps(ns) if relation in (None, step.relation) and _goes(step, direction)]
    found: dict[int, Neighbor] = {}
    border = {start: 1.0}
    for distance in range(1, depth + 1):
        reached: dict[int, Neighbor] = {}
        for step in steps:
            weight = border.get(step.source, 0.0) * step.weight
            known = reached[step.target].weight if step.target in reached else 0.0
            if weight > known and step.target != start and step.target not in found:
                reached[step.target] = Neighbor(ns.node(step.target), step.relation, distance, weight)
        found |= reached
        border = {node: near.weight for node, near in reached.items()}
    return sorted(found.values(), key=lambda near: (near.distance, -near.weight, near.node.id))


def _goes(step: Step, direction: Direction) -> bool:
    return direction == "both" or step.forward == (direction == "out")


def path(ns: Namespace, start: int, goal: int, max_depth: int) -> list[Edge]:
    """A shortest way along edges in either direction; empty if there is none."""
    steps = sorted(_steps(ns), key=lambda step: (-step.weight, step.target, not step.forward, step))
    ways: dict[int, list[Edge]] = {start: []}
    for _ in range(max_depth):
        reached: dict[int, list[Edge]] = {}
        for step in steps:
            if step.source in ways and step.target not in ways:
                reached.setdefault(step.target, [*ways[step.source], _edge(ns, step)])
        ways |= reached
    return ways.get(goal, [])


def _edge(ns: Namespace, step: Step) -> Edge:
    ends = (step.source, step.target) if step.forward else (step.target, step.source)
    source, target = (ns.nodes[node].name for node in ends)
    return Edge(source, step.relation, target, step.weight)


# ---------------------------------------------------------------- retrieval


def node_links(ns: Namespace, names: Sequence[str], filters: Filters) -> list[Link]:
    """From the nodes of these names to their items, to those that mention them, and over one edge to neighbours'."""
    known = {name for row in ns.nodes.values() for name in row.names}
    wanted = set(longest([name for name in dict.fromkeys(names) if name in known]))
    nodes = [row.id for row in ns.nodes.values() if wanted.intersection(row.names)]
    fans = _fans(mentions(ns))
    own = [Link(node, item, "own", 1.0, degree) for node in nodes for item, degree in _own(ns, node, filters)]
    naming = [
        Link(node, item, "names", 1.0, degree)
        for node in nodes
        for item, degree in _unless_hub(ns, fans.get(node, ()), filters)
    ]
    return [*own, *naming, *_over_edges(ns, [(node, node) for node in nodes], filters)]


def item_links(ns: Namespace, ids: Sequence[int], filters: Filters) -> list[Link]:
    """From items to what they mention, to what mentions them, and over one edge from their nodes."""
    wanted = sorted(set(ids) & ns.items.keys())
    named = mentions(ns)
    fans = _fans(named)
    mentioned = [
        Link(id, item, "mentions", 1.0, len(fans[node]) * holders)
        for id in wanted
        for node in named.get(id, ())
        if len(fans[node]) <= HUB
        for item, holders in _own(ns, node, filters)
    ]
    owned = [(id, node) for node, id in ns.own if id in wanted]
    mentioning = [
        Link(id, fan, "mentioned-by", 1.0, len(ns.items_of(node)) * popularity)
        for id, node in owned
        for fan, popularity in _unless_hub(ns, fans.get(node, ()), filters)
    ]
    found = [*mentioned, *mentioning, *_over_edges(ns, owned, filters)]
    return [link for link in found if link.source != link.item]


def _over_edges(ns: Namespace, starts: Iterable[tuple[int, int]], filters: Filters) -> list[Link]:
    """`starts`: (what the links start from, its node)."""
    sources: dict[int, list[int]] = {}
    for source, node in starts:
        sources.setdefault(node, []).append(source)
    found = [edge for node in sources for edge in _edges_at(ns, node)]
    followed = sorted(found, key=lambda edge: (-edge[2], edge[0], edge[1]))[:WALK_EDGES]
    degree = Counter(end for source, _, target in ns.edges for end in {source, target})
    return [
        Link(source, item, "edge", weight, degree[node] * degree[target] * holders)
        for node, target, weight in followed
        for item, holders in _own(ns, target, filters)
        for source in sources[node]
    ]


def _edges_at(ns: Namespace, node: int) -> list[tuple[int, int, float]]:
    """A node's heaviest edges, as steps away from it."""
    out = [(node, target, weight) for (source, _, target), weight in ns.edges.items() if source == node]
    back = [(node, source, weight) for (source, _, target), weight in ns.edges.items() if target == node]
    return sorted([*out, *back], key=lambda edge: (-edge[2], edge[1]))[:HUB]


def _own(ns: Namespace, node: int, filters: Filters) -> list[tuple[int, int]]:
    """The items of a node that pass, with the number of all its items; none of a hub."""
    return _unless_hub(ns, ns.items_of(node), filters)


def _fans(named: Mapping[int, Iterable[int]]) -> dict[int, list[int]]:
    """For every node the items that mention it."""
    fans: dict[int, list[int]] = {}
    for item, nodes in named.items():
        for node in nodes:
            fans.setdefault(node, []).append(item)
    return fans


def _unless_hub(ns: Namespace, items: Sequence[int], filters: Filters) -> list[tuple[int, int]]:
    if len(items) > HUB:
        return []
    return [(item, len(items)) for item in items if passes(ns.items[item].item, filters)]
