"""Nodes, edges, neighbours, paths, and the graph around a node."""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

from typing import Annotated, Final

from fastapi import Path, Query
from starlette.responses import Response

from fourfold.errors import NotFound
from fourfold.model import Edge, Node
from fourfold.serve.http import answers, models
from fourfold.serve.http.item_routes import item_id
from fourfold.serve.http.operation import InNamespace, OnlyOnce, Routes, page_of, reply
from fourfold.serve.http.paging import next_offset, offset_of
from fourfold.wire import encode

_EDGES: Final = 50
"""Edges of each node that a local graph shows, heaviest first."""


Name = Annotated[str, Path(description="The name of a node, or NAME#LABEL.")]

routes: Final = Routes()


@routes.add("nodes", answers.NodesAnswer)
def nodes(memory: InNamespace, query: Annotated[models.NodesQuery, Query()]) -> Response:
    offset = offset_of(query.cursor)
    item = None if query.item is None else item_id(query.item)
    shown = page_of(
        lambda start, count: memory.nodes(query.like, item=item, limit=count, offset=offset + start), query.limit
    )
    following = next_offset(offset, len(shown.rows), more=shown.is_cut or len(shown.rows) == query.limit)
    return reply({"nodes": shown.forms, "next_cursor": following})


@routes.add(
    "add_node",
    answers.NodeAnswer,
    status=201,
    leads_to={
        **{name: {"path.name": "/name", "query.label": "/label"} for name in ("show_node", "remove_node")},
        **{name: {"query.name": "/name", "query.label": "/label"} for name in ("neighbors", "around")},
    },
)
def add_node(memory: InNamespace, body: models.NodeRequest, once: OnlyOnce) -> Response:
    node = once(
        memory,
        lambda: memory.add_node(body.name, body.label, body.aliases, body.properties, body.item),
        lambda _: memory.node(body.name, body.label, limit=1).node,
    )
    return reply(encode(node), 201)


@routes.add("node", answers.NodeViewAnswer)
def show_node(memory: InNamespace, name: Name, query: Annotated[models.LabelQuery, Query()]) -> Response:
    return reply(encode(memory.node(name, query.label, limit=query.limit)))


@routes.add("remove_node", status=204)
def remove_node(
    memory: InNamespace, name: Name, query: Annotated[models.LabelQuery, Query()], once: OnlyOnce
) -> Response:
    if not once(memory, lambda: memory.remove_node(name, query.label), lambda _: True):
        raise NotFound("no such node", "GET .../graph/nodes lists them")
    return Response(status_code=204)


@routes.add(
    "add_edges",
    answers.EdgesAnswer,
    status=201,
    leads_to={
        "path": {"query.start": "/edges/0/from", "query.goal": "/edges/0/to"},
        "remove_edge": {f"query.{name}": f"/edges/0/{name}" for name in ("from", "relation", "to")},
    },
)
def add_edges(memory: InNamespace, body: models.EdgesRequest, once: OnlyOnce) -> Response:
    edges = [(edge.source, edge.relation, edge.target, edge.weight) for edge in body.edges]
    once(memory, lambda: memory.add_edges(edges), lambda _: None)
    return reply({"edges": [encode(Edge(*edge)) for edge in edges]}, 201)


@routes.add("remove_edge", status=204)
def remove_edge(memory: InNamespace, query: Annotated[models.EdgeQuery, Query()], once: OnlyOnce) -> Response:
    if not once(memory, lambda: memory.remove_edge(query.source, query.relation, query.target), lambda _: True):
        raise NotFound("no such edge", "GET .../graph/nodes/NAME shows the edges of a node")
    return Response(status_code=204)


@routes.add("neighbors", answers.NeighborsAnswer)
def neighbors(memory: InNamespace, query: Annotated[models.NeighborsQuery, Query()]) -> Response:
    offset = offset_of(query.cursor)
    page = memory.neighbors(
        query.name, query.depth, query.direction, query.relation, query.label, limit=query.limit, offset=offset
    )
    following = next_offset(offset, len(page), more=page.has_more)
    return reply({"neighbors": [*map(encode, page)], "total": page.total, "next_cursor": following})


@routes.add("local_graph", answers.LocalGraphAnswer)
def around(memory: InNamespace, query: Annotated[models.AroundQuery, Query()]) -> Response:
    """The nodes nearest to one, and the edges between them."""
    start = memory.node(query.name, query.label, limit=_EDGES)
    found: dict[int, tuple[Node, int]] = {start.node.id: (start.node, 0)}
    total = 1
    if query.limit > 1:
        near = memory.neighbors(query.name, query.depth, label=query.label, limit=query.limit - 1, offset=0)
        total += near.total
        found |= {each.node.id: (each.node, each.distance) for each in near if each.node.id not in found}
    edges: dict[tuple[str, str, str], Edge] = {}
    for node, _ in found.values():
        view = memory.node(node.name, node.label, limit=_EDGES)
        edges |= {(edge.source, edge.relation, edge.target): edge for edge in view.edges}
    names = {name for node, _ in found.values() for name in (node.name, f"{node.name}#{node.label}")}
    shown = [encode(edge) for edge in edges.values() if {edge.source, edge.target} <= names]
    return reply(
        {
            "nodes": [{**encode(node), "distance": distance} for node, distance in found.values()],
            "edges": shown,
            "total": total,
        }
    )


@routes.add("path", answers.EdgesAnswer)
def path(memory: InNamespace, query: Annotated[models.PathQuery, Query()]) -> Response:
    edges = memory.path(query.start, query.goal, query.max_depth)
    return reply({"edges": [*map(encode, edges)]})
