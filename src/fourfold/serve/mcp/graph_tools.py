"""The tools of the graph."""

# No `from __future__ import annotations`: the SDK reads the annotations of every tool when the server starts.

from typing import Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import Field

from fourfold import limits, wire
from fourfold.serve.arguments import Id, Integer, Number
from fourfold.serve.mcp.answers import SEARCH_TOKENS, answer, neighbor_forms, node_form, page_answer
from fourfold.serve.mcp.arguments import Limit, Namespace, Offset, check_rows
from fourfold.serve.sessions import Sessions

Weight = Annotated[Number, Field(json_schema_extra={"exclusiveMinimum": 0, "maximum": 1})]


class GraphTools:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def link(
        self,
        source: Annotated[str, Field(description="A person, a project, the title of a memory.")],
        relation: Annotated[str, Field(description="Such as works on.")],
        target: Annotated[str, Field(description="Another name.")],
        weight: Weight = 1.0,
        namespace: Namespace = None,
    ) -> CallToolResult:
        edge = await (await self._sessions.memory(namespace)).add_edge(source, relation, target, weight)
        form = {"source": edge.source, "relation": edge.relation, "target": edge.target, "weight": edge.weight}
        return answer({"status": "success", **form})

    async def graph_add_node(
        self,
        name: Annotated[str, Field(description="What it is called.")],
        label: Annotated[str, Field(description="Such as person. A name is unique within a label.")] = "entity",
        aliases: Annotated[list[str] | None, Field(description="Other names.")] = None,
        properties: Annotated[dict[str, Any] | None, Field(description="Anything else, as JSON.")] = None,
        item_id: Annotated[Id | None, Field(description="The memory that describes it.")] = None,
        namespace: Namespace = None,
    ) -> CallToolResult:
        memory = await self._sessions.memory(namespace)
        node = await memory.add_node(name, label, aliases or (), properties, item_id)
        return answer({"status": "success", "node": node_form(node)})

    async def graph_add_edge(
        self,
        source: Annotated[str, Field(description="A node's name; made if it does not exist.")],
        relation: Annotated[str, Field(description="The type of the edge.")],
        target: Annotated[str, Field(description="A node's name; made if it does not exist.")],
        weight: Weight = 1.0,
        namespace: Namespace = None,
    ) -> CallToolResult:
        return await self.link(source, relation, target, weight, namespace)

    async def graph_query_neighbors(
        self,
        name: Annotated[str, Field(description="The node to start from.")],
        depth: Annotated[
            Integer,
            Field(description="Steps.", json_schema_extra={"minimum": 1, "maximum": limits.NEIGHBOR_DEPTH}),
        ] = 1,
        direction: Annotated[Literal["both", "out", "in"], Field(description="Which edges to follow.")] = "both",
        relation: Annotated[str | None, Field(description="Only edges of this type.")] = None,
        label: Annotated[str | None, Field(description="Which node, if several have the name.")] = None,
        limit: Limit = 20,
        offset: Offset = 0,
        namespace: Namespace = None,
    ) -> CallToolResult:
        check_rows(limit, offset)
        memory = await self._sessions.memory(namespace)
        found = await memory.neighbors(name, depth, direction, relation, label, limit=limit, offset=offset)
        forms = [neighbor_forms(neighbor) for neighbor in found]
        return answer(page_answer("neighbors", forms, found.total, offset, SEARCH_TOKENS))

    async def graph_find_path(
        self,
        start: Annotated[str, Field(description="A node's name.")],
        goal: Annotated[str, Field(description="A node's name.")],
        max_depth: Annotated[
            Integer,
            Field(description="The longest path.", json_schema_extra={"minimum": 1, "maximum": limits.PATH_DEPTH}),
        ] = limits.PATH_DEPTH,
        namespace: Namespace = None,
    ) -> CallToolResult:
        edges = await (await self._sessions.memory(namespace)).path(start, goal, max_depth)
        return answer({"status": "success", "found": bool(edges), "edges": [wire.encode(edge) for edge in edges]})
