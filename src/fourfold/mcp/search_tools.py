"""The tools that search."""

# No `from __future__ import annotations`: the SDK reads the annotations of every tool when the server starts.

from collections.abc import Mapping
from typing import Annotated, Any

from mcp_types import CallToolResult
from pydantic import Field

from fourfold.errors import InvalidQuery
from fourfold.limits import TOP_K
from fourfold.mcp.answers import SEARCH_TOKENS, answer, search_answer, why_answer
from fourfold.mcp.arguments import (
    Alpha,
    Embedding,
    Explain,
    Fusion,
    Integer,
    ItemId,
    MaxTokens,
    MinConfidence,
    Namespace,
    Namespaces,
    Number,
    Preset,
    Query,
    RrfK,
    TopK,
    Weights,
    filtered,
)
from fourfold.mcp.sessions import Sessions
from fourfold.model import Filters, Json, SearchResponse
from fourfold.search.budget import check_budget


class SearchTools:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @filtered
    async def hybrid_search(
        self,
        query_text: Query,
        filters: Filters,
        query_embedding: Embedding = None,
        top_k: TopK = None,
        weights: Weights = None,
        fusion: Fusion = None,
        preset: Preset = None,
        alpha: Alpha = None,
        k: RrfK = None,
        min_confidence: MinConfidence = None,
        max_tokens: MaxTokens = None,
        explain: Explain = False,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        budget = _budget(max_tokens)
        response = await self._searched(
            namespace,
            query_text,
            vector=query_embedding,
            top_k=top_k,
            weights=weights,
            fusion=fusion,
            preset=preset,
            alpha=alpha,
            k=k,
            filters=filters,
            min_confidence=min_confidence,
            explain=explain,
        )
        return answer(search_answer(response, response.results, budget, explain=explain, page={}))

    @filtered
    async def semantic_search(
        self,
        query_text: Query,
        filters: Filters,
        query_embedding: Embedding = None,
        top_k: TopK = None,
        min_confidence: MinConfidence = None,
        max_tokens: MaxTokens = None,
        explain: Explain = False,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        return await self._one_retriever(
            "semantic", query_text, query_embedding, top_k, filters, min_confidence, max_tokens, explain, namespace
        )

    @filtered
    async def full_text_search(
        self,
        query_text: Query,
        filters: Filters,
        top_k: TopK = None,
        min_confidence: MinConfidence = None,
        max_tokens: MaxTokens = None,
        explain: Explain = False,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        return await self._one_retriever(
            "keyword", query_text, None, top_k, filters, min_confidence, max_tokens, explain, namespace
        )

    async def _one_retriever(
        self,
        retriever: str,
        query_text: str,
        vector: list[float] | None,
        top_k: int | None,
        filters: Filters,
        min_confidence: float | None,
        max_tokens: int | None,
        explain: bool,
        namespace: str | None,
    ) -> CallToolResult:
        budget = _budget(max_tokens)
        response = await self._searched(
            namespace,
            query_text,
            vector=vector,
            top_k=top_k,
            only=[retriever],
            filters=filters,
            min_confidence=min_confidence,
            explain=explain,
        )
        return answer(search_answer(response, response.results, budget, explain=explain, page={}))

    @filtered
    async def retrieve_memory(
        self,
        query: Query,
        filters: Filters,
        page: Annotated[Integer, Field(json_schema_extra={"minimum": 1})] = 1,
        page_size: Annotated[
            Integer, Field(description="100 results in all.", json_schema_extra={"minimum": 1, "maximum": TOP_K})
        ] = 10,
        alpha: Annotated[
            Number | None,
            Field(
                description="1 is vectors only (no hybrid search), 0 is tags only. Leave out.",
                json_schema_extra={"minimum": 0, "maximum": 1},
            ),
        ] = None,
        min_confidence: MinConfidence = None,
        max_tokens: MaxTokens = None,
        explain: Explain = False,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        if page < 1 or not 1 <= page_size <= TOP_K or page * page_size > TOP_K:
            raise InvalidQuery(f"page {page} of {page_size}", f"Pages start at 1; there are {TOP_K} results at most")
        budget = _budget(max_tokens)
        response = await self._searched(
            namespace,
            query,
            preset="memories",
            alpha=alpha,
            top_k=TOP_K,
            filters=filters,
            min_confidence=min_confidence,
            explain=explain,
        )
        total, start = len(response.results), (page - 1) * page_size
        facts: Mapping[str, Json] = {
            "page": page,
            "page_size": page_size,
            "total": total,
            "has_more": start + page_size < total,
        }
        shown = response.results[start : start + page_size]
        return answer(search_answer(response, shown, budget, explain=explain, page=facts))

    async def explain_result(self, id: ItemId, query_text: Query, namespace: Namespace = None) -> CallToolResult:
        why = await (await self._sessions.memory(namespace)).why(id, query_text)
        return answer(why_answer(why, query_text))

    async def _searched(self, namespace: str | None, text: str, **options: Any) -> SearchResponse:
        """Several namespaces are searched apart, each of which has to be one of the caller's (B15)."""
        names = [name.strip() for name in (namespace or "").split(",") if name.strip()]
        memories = [await self._sessions.memory(name) for name in names] or [await self._sessions.memory()]
        return await memories[0].search(text, namespaces=[memory.namespace for memory in memories], **options)


def _budget(max_tokens: int | None) -> int:
    return check_budget(SEARCH_TOKENS if max_tokens is None else max_tokens)
