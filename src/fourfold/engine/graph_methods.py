"""The methods of Memory that read and change the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold import limits
from fourfold import validation as rules
from fourfold.arguments import checks_arguments
from fourfold.engine import keyed
from fourfold.engine.open_store import OpenStore
from fourfold.errors import InvalidQuery
from fourfold.model import Edge, Json, Neighbor, Node, NodeSummary, NodeView, Page
from fourfold.storage.protocols import Transaction
from fourfold.storage.values import Direction, NeighborQuery, NewNode
from fourfold.text.entities import normal_name


@checks_arguments
class GraphMethods(OpenStore):
    def add_node(
        self,
        name: str,
        label: str = "entity",
        aliases: Sequence[str] = (),
        properties: Mapping[str, Json] | None = None,
        item: int | str | None = None,
    ) -> Node:
        """Adds a node, or adds to one that exists.

        `name`: what it is called. `label`: such as person; a name is unique within a label. `aliases`: other names.
        `properties`: anything else, as JSON. `item`: the stored text that describes it.
        """
        number = None
        if item is not None:
            with self._reading() as snapshot:
                number = self._items(snapshot, [item])[0].id
        new = NewNode(
            self._secrets.text(rules.node_name(name)),
            self._secrets.text(rules.name(label, "label")),
            tuple(self._secrets.text(rules.node_name(alias)) for alias in aliases),
            None if properties is None else self._secrets.mapping(rules.checked_metadata(properties)),
            number,
        )
        with self._writing(names=True) as tx:
            (node,) = tx.graph.add_nodes([new])
            keyed.done(tx)
        return node

    def add_edge(self, source: str, relation: str, target: str, weight: float = 1.0) -> Edge:
        """Adds an edge and its missing nodes; an existing edge gets the weight."""
        (edge,) = self._add_edges([(source, relation, target, weight)])
        return edge

    def add_edges(self, edges: Sequence[tuple[str, str, str, float]]) -> None:
        """Adds edges (source, relation, target, weight) and their missing nodes: all of them, or none."""
        self._add_edges(edges)

    def _add_edges(self, edges: Sequence[tuple[str, str, str, float]]) -> list[Edge]:
        checked = [self._secrets.edge(rules.checked_edge(*edge)) for edge in edges]
        with self._writing(names=True) as tx:
            tx.graph.add_edges(checked)
            keyed.done(tx)
        return checked

    def neighbors(
        self,
        name: str,
        depth: int = 1,
        direction: Direction = "both",
        relation: str | None = None,
        label: str | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> Page[Neighbor]:
        """Nodes within `depth` steps, nearest first; all of them, or a page of `limit` from `offset` on.

        `name`: the node to start from. `depth`: steps. `direction`: which edges to follow. `relation`: only edges of
        this type. `label`: which node, if several have the name.
        """
        rules.check_range("depth", depth, limits.NEIGHBOR_DEPTH)
        if limit is not None:
            rules.check_page(limit, offset)
        if direction not in ("both", "out", "in"):
            raise InvalidQuery(f"direction is {direction!r}", "It is both, out or in")
        start, label = _node(name, label)
        relation = rules.optional_name(relation, "relation")
        with self._reading() as snapshot:
            first = 0 if limit is None else offset
            return snapshot.graph.neighbors(NeighborQuery(start, label, depth, direction, relation, limit, first))

    def nodes(
        self, like: str = "", *, item: int | str | None = None, limit: int = 50, offset: int = 0
    ) -> list[NodeSummary]:
        """Nodes, most connected first.

        `like`: only names and aliases that contain this, without regard to case. `item`: only nodes of this item: its
        own, and those it mentions.
        """
        rules.check_page(limit, offset)
        with self._reading() as snapshot:
            among = None if item is None else snapshot.graph.nodes_of(self._items(snapshot, [item])[0].id)
            return snapshot.graph.nodes(normal_name(like), limit, offset, among)

    def node(self, name: str, label: str | None = None, *, limit: int = 50) -> NodeView:
        """One node with at most `limit` of its items, of the items that mention it, and of its edges.

        `label`: which node, if several have the name.
        """
        rules.check_page(limit, 0)
        reference = _node(name, label)
        with self._reading() as snapshot:
            return snapshot.graph.view(*reference, limit)

    def path(self, start: str, goal: str, max_depth: int = limits.PATH_DEPTH) -> list[Edge]:
        """A shortest path between two nodes; empty if there is none.

        `start`: a node's name. `goal`: a node's name. `max_depth`: the longest path.
        """
        rules.check_range("max_depth", max_depth, limits.PATH_DEPTH)
        ends = rules.node_reference(start), rules.node_reference(goal)
        with self._reading() as snapshot:
            return snapshot.graph.path(*ends, max_depth)

    def remove_node(self, name: str, label: str | None = None) -> bool:
        """Removes a node with its edges; False if there is none. `label`: which node, if several have the name."""
        reference = _node(name, label)
        with self._writing() as tx:
            return _removed(tx, tx.graph.remove_node(*reference))

    def remove_edge(self, source: str, relation: str, target: str) -> bool:
        """Removes an edge; False if there is none."""
        edge = rules.checked_edge(source, relation, target, 1.0)
        with self._writing() as tx:
            return _removed(tx, tx.graph.remove_edge(edge.source, edge.relation, edge.target))


def _removed(tx: Transaction, existed: bool) -> bool:
    if existed:
        keyed.done(tx)
    return existed


def _node(name: str, label: str | None) -> tuple[str, str | None]:
    """Name and label as they are stored. With a label the name is used unchanged; otherwise it may be `Name#label`."""
    return (rules.node_reference(name), None) if label is None else (rules.node_name(name), rules.name(label, "label"))
