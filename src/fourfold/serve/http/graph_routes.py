"""Nodes, edges, neighbours, paths, and the graph around a node."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from fourfold.errors import NotFound
from fourfold.model import Edge, Node
from fourfold.serve.http import answers, models
from fourfold.serve.http.endpoint import Call, Endpoint, reply
from fourfold.serve.http.item_routes import item_id
from fourfold.serve.http.paging import next_offset, offset_of
from fourfold.serve.http.search_routes import NS
from fourfold.wire import encode

_EDGES: Final = 50
"""Edges of each node that a local graph shows, heaviest first."""


def nodes(call: Call) -> Response:
    query: models.NodesQuery = call.query
    offset = offset_of(query.cursor)
    item = None if query.item is None else item_id(query.item)
    found = call.memory.nodes(query.like, item=item, limit=query.limit, offset=offset)
    following = next_offset(offset, len(found), more=len(found) == query.limit)
    return reply({"nodes": [encode(node) for node in found], "next_cursor": following})


def add_node(call: Call) -> Response:
    body: models.NodeRequest = call.body
    node = call.memory.add_node(body.name, body.label, body.aliases, body.properties, body.item)
    return reply(encode(node), 201)


def show_node(call: Call) -> Response:
    query: models.LabelQuery = call.query
    return reply(encode(call.memory.node(call.path("name"), query.label, limit=query.limit)))


def remove_node(call: Call) -> Response:
    if not call.memory.remove_node(call.path("name"), call.query.label):
        raise NotFound("no such node", "GET .../graph/nodes lists them")
    return Response(status_code=204)


def add_edges(call: Call) -> Response:
    body: models.EdgesRequest = call.body
    edges = [(edge.source, edge.relation, edge.target, edge.weight) for edge in body.edges]
    call.memory.add_edges(edges)
    return reply({"edges": [encode(Edge(*edge)) for edge in edges]}, 201)


def remove_edge(call: Call) -> Response:
    query: models.EdgeQuery = call.query
    if not call.memory.remove_edge(query.source, query.relation, query.target):
        raise NotFound("no such edge", "GET .../graph/nodes/NAME shows the edges of a node")
    return Response(status_code=204)


def neighbors(call: Call) -> Response:
    query: models.NeighborsQuery = call.query
    offset = offset_of(query.cursor)
    page = call.memory.neighbors(
        query.name, query.depth, query.direction, query.relation, query.label, limit=query.limit, offset=offset
    )
    following = next_offset(offset, len(page), more=page.has_more)
    return reply({"neighbors": [*map(encode, page)], "total": page.total, "next_cursor": following})


def around(call: Call) -> Response:
    """The nodes nearest to one, and the edges between them."""
    query: models.AroundQuery = call.query
    start = call.memory.node(query.name, query.label, limit=_EDGES)
    found: dict[int, tuple[Node, int]] = {start.node.id: (start.node, 0)}
    total = 1
    if query.limit > 1:
        near = call.memory.neighbors(query.name, query.depth, label=query.label, limit=query.limit - 1, offset=0)
        total += near.total
        found |= {each.node.id: (each.node, each.distance) for each in near if each.node.id not in found}
    edges: dict[tuple[str, str, str], Edge] = {}
    for node, _ in found.values():
        view = call.memory.node(node.name, node.label, limit=_EDGES)
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


def path(call: Call) -> Response:
    query: models.PathQuery = call.query
    edges = call.memory.path(query.start, query.goal, query.max_depth)
    return reply({"edges": [*map(encode, edges)]})


ENDPOINTS: Final = (
    Endpoint("GET", f"{NS}/graph/nodes", nodes, "List nodes", answers.NodesAnswer, query=models.NodesQuery),
    Endpoint(
        "POST",
        f"{NS}/graph/nodes",
        add_node,
        "Store a node, or add to it",
        answers.NodeAnswer,
        "write",
        models.NodeRequest,
        status=201,
        leads_to={
            "show_node": {"path.name": "/name", "query.label": "/label"},
            "remove_node": {"path.name": "/name", "query.label": "/label"},
            "neighbors": {"query.name": "/name", "query.label": "/label"},
            "around": {"query.name": "/name", "query.label": "/label"},
        },
    ),
    Endpoint(
        "GET",
        f"{NS}/graph/nodes/{{name:path}}",
        show_node,
        "Show a node",
        answers.NodeViewAnswer,
        query=models.LabelQuery,
    ),
    Endpoint(
        "DELETE",
        f"{NS}/graph/nodes/{{name:path}}",
        remove_node,
        "Delete a node with its edges",
        scope="write",
        query=models.LabelQuery,
        status=204,
    ),
    Endpoint(
        "POST",
        f"{NS}/graph/edges",
        add_edges,
        "Store edges; an edge that exists gets the weight",
        answers.EdgesAnswer,
        "write",
        models.EdgesRequest,
        status=201,
        leads_to={
            "path": {"query.start": "/edges/0/from", "query.goal": "/edges/0/to"},
            "remove_edge": {f"query.{name}": f"/edges/0/{name}" for name in ("from", "relation", "to")},
        },
    ),
    Endpoint(
        "DELETE", f"{NS}/graph/edges", remove_edge, "Delete an edge", scope="write", query=models.EdgeQuery, status=204
    ),
    Endpoint(
        "GET",
        f"{NS}/graph/neighbors",
        neighbors,
        "List the nodes near one",
        answers.NeighborsAnswer,
        query=models.NeighborsQuery,
    ),
    Endpoint(
        "GET",
        f"{NS}/graph/around",
        around,
        "The graph around a node",
        answers.LocalGraphAnswer,
        query=models.AroundQuery,
    ),
    Endpoint("GET", f"{NS}/graph/path", path, "A shortest path", answers.EdgesAnswer, query=models.PathQuery),
)
