"""The tools: thin adapters over `Memory`."""

# No `from __future__ import annotations`: the SDK reads the annotations of every tool when the server starts.

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from mcp_types import CallToolResult, TextContent
from pydantic import Field

from fourfold import wire
from fourfold.errors import FourfoldError, InvalidQuery
from fourfold.mcp.answers import (
    DeletedAnswer,
    ItemAnswer,
    ItemsAnswer,
    LinkAnswer,
    NeighborsAnswer,
    NodeAnswer,
    PageAnswer,
    PathAnswer,
    RawAnswer,
    SearchAnswer,
    StatusAnswer,
    WhyAnswer,
)
from fourfold.mcp.arguments import (
    AnyTag,
    From,
    ItemId,
    Kind,
    Language,
    MaxTokens,
    Metadata,
    MinConfidence,
    Namespace,
    PathGlob,
    Query,
    Tags,
    To,
    TopK,
    read_filters,
)
from fourfold.mcp.sessions import Sessions
from fourfold.model import ItemPatch, Json, NewItem, SearchResponse
from fourfold.search.budget import check_budget, within_budget

if TYPE_CHECKING:
    from fourfold.memory import Memory


_MAX_TOKENS = 4000
_PAGE = 100

# ---------------------------------------------------------------- answers


def _result(form: Mapping[str, Json], *, is_error: bool = False) -> CallToolResult:
    """Once as data and once as text, for clients that read only one of them."""
    text = wire.dumps(form)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=_clean(form), is_error=is_error
    )


def _clean(value: Json) -> Json:
    """Without halves of surrogate pairs, which no UTF-8 can hold. The store keeps none, but a query may have them."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case dict():
            return {_clean(key): _clean(each) for key, each in cast("dict[str, Json]", value).items()}
        case list() | tuple():
            return [_clean(each) for each in cast("list[Json]", value)]
        case _:
            return value


def told(error: FourfoldError, tool: str) -> CallToolResult:
    """What was wrong, and what to do (S1.8)."""
    return _result(wire.error_json(error, tool), is_error=True)


def _search_form(response: SearchResponse, max_tokens: int | None) -> dict[str, Json]:
    form = wire.response_json(response)
    results, left_out = within_budget(form["results"], check_budget(_MAX_TOKENS if max_tokens is None else max_tokens))
    form["results"] = results
    if left_out:
        form["notes"] = [*form["notes"], f"{left_out} more results did not fit into max_tokens"]
    return form


# ---------------------------------------------------------------- the tools


class Tools:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def _memory(self, namespace: str | None) -> "Memory":
        return await self._sessions.memory(namespace)

    # ------------------------------------------------------------ core

    async def hybrid_search(
        self,
        query_text: Query,
        query_embedding: Annotated[
            list[float] | None,
            Field(description="The query's own vector, if you bring one; made from the text if not."),
        ] = None,
        top_k: TopK = None,
        weights: Annotated[
            dict[str, float] | None,
            Field(description="Of semantic, keyword, graph, tags; their sum is 1. Leave out: chosen for each query."),
        ] = None,
        fusion: Annotated[str | None, Field(description="auto, rrf or weighted. Leave out.")] = None,
        preset: Annotated[
            str | None, Field(description="auto, insights, insights-basic, wiki, files or memories. Leave out.")
        ] = None,
        alpha: Annotated[
            float | None, Field(description="Preset memories only: 1 is vectors only, 0 is tags only.")
        ] = None,
        tags: Tags = None,
        any_tag: AnyTag = False,
        created_from: From = None,
        created_to: To = None,
        kind: Kind = None,
        language: Language = None,
        path: PathGlob = None,
        metadata: Metadata = None,
        max_tokens: MaxTokens = None,
        min_confidence: MinConfidence = None,
        explain: Annotated[bool, Field(description="With true, each result says how its score came about.")] = False,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, SearchAnswer]:
        memory = await self._memory(namespace)
        response = await memory.search(
            query_text,
            vector=query_embedding,
            top_k=top_k,
            weights=weights,
            fusion=fusion,
            preset=preset,
            alpha=alpha,
            filters=read_filters(tags, any_tag, created_from, created_to, kind, language, path, metadata),
            min_confidence=min_confidence,
            explain=explain,
        )
        return _result(_search_form(response, max_tokens))

    async def semantic_search(
        self,
        query_text: Query,
        top_k: TopK = None,
        tags: Tags = None,
        max_tokens: MaxTokens = None,
        min_confidence: MinConfidence = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, SearchAnswer]:
        return await self._one_way("semantic", query_text, top_k, tags, max_tokens, min_confidence, namespace)

    async def full_text_search(
        self,
        query_text: Query,
        top_k: TopK = None,
        tags: Tags = None,
        max_tokens: MaxTokens = None,
        min_confidence: MinConfidence = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, SearchAnswer]:
        return await self._one_way("keyword", query_text, top_k, tags, max_tokens, min_confidence, namespace)

    async def _one_way(
        self,
        retriever: str,
        query_text: str,
        top_k: int | None,
        tags: list[str] | None,
        max_tokens: int | None,
        min_confidence: float | None,
        namespace: str | None,
    ) -> CallToolResult:
        memory = await self._memory(namespace)
        response = await memory.search(
            query_text, top_k=top_k, only=[retriever], filters=read_filters(tags), min_confidence=min_confidence
        )
        return _result(_search_form(response, max_tokens))

    async def store_memory(
        self,
        content: Annotated[str, Field(description="The text, complete in itself: names instead of pronouns, dates.")],
        title: Annotated[str, Field(description="A short name; other memories that mention it become linked.")] = "",
        tags: Annotated[list[str] | None, Field(description="A few words to filter by.")] = None,
        kind: Annotated[str | None, Field(description="Such as fact, decision, preference, procedure.")] = None,
        key: Annotated[
            str | None, Field(description="Your own id: storing under it again replaces instead of adding.")
        ] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Anything else, as JSON.")] = None,
        source_ids: Annotated[list[int] | None, Field(description="Ids of raw records that this is made of.")] = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, ItemAnswer]:
        memory = await self._memory(namespace)
        item = await memory.add(
            NewItem(
                content,
                title=title,
                tags=tuple(tags or ()),
                kind=kind,
                key=key,
                metadata=metadata or {},
                source_ids=tuple(source_ids or ()),
            ),
            wait=True,  # what an agent stores it may look for at once, in other words
        )
        return _result({"status": "success", "item": wire.item_json(item)})

    async def get_memory(
        self,
        ids: Annotated[list[int | str], Field(description='Ids of memories, or "key:K".')],
        around: Annotated[
            int, Field(description="For chunks of files: with so many neighbouring chunks on each side, 0 to 50.")
        ] = 0,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, ItemsAnswer]:
        memory = await self._memory(namespace)
        items = await memory.get(ids)
        if around:
            groups = [await memory.around(item.id, around, around) for item in items]
            items = list({item.id: item for group in groups for item in group}.values())
        return _result({"status": "success", "items": [wire.item_json(item) for item in items]})

    async def update_memory(
        self,
        id: ItemId,
        content: Annotated[str | None, Field(description="The new text, whole.")] = None,
        title: Annotated[str | None, Field(description="The new title.")] = None,
        add_tags: Annotated[list[str] | None, Field(description="Tags to add.")] = None,
        remove_tags: Annotated[list[str] | None, Field(description="Tags to take away.")] = None,
        metadata: Annotated[
            dict[str, Any] | None, Field(description="Merged with what is there; null removes a key.")
        ] = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, ItemAnswer]:
        patch = ItemPatch(content, title, tuple(add_tags or ()), tuple(remove_tags or ()), metadata)
        item = await (await self._memory(namespace)).update(id, patch, wait=True)
        return _result({"status": "success", "item": wire.item_json(item)})

    async def delete_memory(
        self,
        ids: Annotated[list[int | str], Field(description='Ids of memories, or "key:K". All of them, or none.')],
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, DeletedAnswer]:
        deleted = await (await self._memory(namespace)).forget(ids)
        return _result({"status": "success", "deleted": deleted})

    async def list_memories(
        self,
        limit: Annotated[int, Field(description="How many, 1 to 1000.")] = 20,
        offset: Annotated[int, Field(description="How many to skip.")] = 0,
        tags: Tags = None,
        any_tag: AnyTag = False,
        created_from: From = None,
        created_to: To = None,
        kind: Kind = None,
        path: PathGlob = None,
        metadata: Metadata = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, ItemsAnswer]:
        filters = read_filters(tags, any_tag, created_from, created_to, kind, None, path, metadata)
        items = await (await self._memory(namespace)).list(filters, limit=limit, offset=offset)
        return _result({"status": "success", "items": [wire.item_json(item) for item in items]})

    async def link(
        self,
        source: Annotated[str, Field(description="A name: a person, a project, the title of a memory.")],
        relation: Annotated[str, Field(description="How they are related, such as works on.")],
        target: Annotated[str, Field(description="Another name.")],
        weight: Annotated[float, Field(description="How strongly, above 0 and at most 1.")] = 1.0,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, LinkAnswer]:
        return await self._edge(source, relation, target, weight, namespace)

    async def _edge(
        self, source: str, relation: str, target: str, weight: float, namespace: str | None
    ) -> CallToolResult:
        edge = await (await self._memory(namespace)).add_edge(source, relation, target, weight)
        form = {"source": edge.source, "relation": edge.relation, "target": edge.target, "weight": edge.weight}
        return _result({"status": "success", **form})

    # ------------------------------------------------------------ graph

    async def graph_add_node(
        self,
        name: Annotated[str, Field(description="What it is called.")],
        label: Annotated[
            str, Field(description="What it is, such as person. A name is unique within a label.")
        ] = "entity",
        aliases: Annotated[list[str] | None, Field(description="Other names.")] = None,
        properties: Annotated[dict[str, Any] | None, Field(description="Anything else, as JSON.")] = None,
        item_id: Annotated[int | str | None, Field(description="The memory that describes it.")] = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, NodeAnswer]:
        memory = await self._memory(namespace)
        node = await memory.add_node(name, label, aliases or (), properties, item_id)
        return _result({"status": "success", "node": wire.node_json(node)})

    async def graph_add_edge(
        self,
        source: Annotated[str, Field(description="A node's name; made if it does not exist.")],
        relation: Annotated[str, Field(description="The type of the edge.")],
        target: Annotated[str, Field(description="A node's name; made if it does not exist.")],
        weight: Annotated[float, Field(description="Above 0 and at most 1.")] = 1.0,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, LinkAnswer]:
        return await self._edge(source, relation, target, weight, namespace)

    async def graph_query_neighbors(
        self,
        name: Annotated[str, Field(description="The node to start from.")],
        depth: Annotated[int, Field(description="How many steps, 1 to 5.")] = 1,
        direction: Annotated[Literal["both", "out", "in"], Field(description="Which edges to follow.")] = "both",
        relation: Annotated[str | None, Field(description="Only edges of this type.")] = None,
        label: Annotated[str | None, Field(description="Which node, if several have the name.")] = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, NeighborsAnswer]:
        found = await (await self._memory(namespace)).neighbors(name, depth, direction, relation, label)
        return _result({"status": "success", "neighbors": [wire.neighbor_json(neighbor) for neighbor in found]})

    async def graph_find_path(
        self,
        start: Annotated[str, Field(description="A node's name.")],
        goal: Annotated[str, Field(description="A node's name.")],
        max_depth: Annotated[int, Field(description="The longest path, 1 to 10 edges.")] = 10,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, PathAnswer]:
        edges = await (await self._memory(namespace)).path(start, goal, max_depth)
        return _result({"status": "success", "found": bool(edges), "edges": [wire.edge_json(edge) for edge in edges]})

    # ------------------------------------------------------------ the other names of the seed systems

    async def retrieve_memory(
        self,
        query: Query,
        page: Annotated[int, Field(description="From 1.")] = 1,
        page_size: Annotated[int, Field(description="Results a page, 1 to 100; 100 in all.")] = 10,
        alpha: Annotated[
            float | None, Field(description="1 is vectors only (no hybrid search), 0 is tags only. Leave out.")
        ] = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, PageAnswer]:
        if page < 1 or not 1 <= page_size <= _PAGE or page * page_size > _PAGE:
            raise InvalidQuery(f"page {page} of {page_size}", f"Pages start at 1; there are {_PAGE} results at most")
        memory = await self._memory(namespace)
        response = await memory.search(query, preset="memories", alpha=alpha, top_k=page * page_size)
        form = wire.response_json(response)
        form["results"] = [{**result, "truncated": False} for result in form["results"][(page - 1) * page_size :]]
        return _result({**form, "page": page, "page_size": page_size})

    async def store_raw_dialogue(
        self,
        content: Annotated[str, Field(description="What was said, word by word.")],
        speaker: Annotated[str | None, Field(description="Who said it.")] = None,
        session_id: Annotated[str | None, Field(description="In which conversation.")] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Anything else, as JSON.")] = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, RawAnswer]:
        record = await (await self._memory(namespace)).add_raw(content, speaker, session_id, metadata)
        return _result({"status": "success", "raw": wire.raw_json(record)})

    async def compress_to_l2_insight(
        self,
        content: Annotated[str, Field(description="The insight, complete in itself.")],
        source_ids: Annotated[list[int], Field(description="Ids of the raw records that it is drawn from.")],
        tags: Annotated[list[str] | None, Field(description="A few words to filter by.")] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Anything else, as JSON.")] = None,
        namespace: Namespace = None,
    ) -> Annotated[CallToolResult, ItemAnswer]:
        new = NewItem(content, tags=tuple(tags or ()), metadata=metadata or {}, source_ids=tuple(source_ids))
        item = await (await self._memory(namespace)).add(new, wait=True)
        return _result({"status": "success", "item": wire.item_json(item)})

    async def explain_result(
        self, id: ItemId, query_text: Query, namespace: Namespace = None
    ) -> Annotated[CallToolResult, WhyAnswer]:
        why = await (await self._memory(namespace)).why(id, query_text)
        return _result(wire.why_json(why, query_text))

    async def memory_status(self) -> Annotated[CallToolResult, StatusAnswer]:
        return _result({"status": "success", "store": await self._sessions.status()})
