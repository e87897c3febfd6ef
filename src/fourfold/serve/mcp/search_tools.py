"""The tools that search."""

# No `from __future__ import annotations`: the SDK reads the annotations of every tool when the server starts.

from collections.abc import Mapping
from typing import Annotated, Any

from mcp_types import CallToolResult
from pydantic import Field

from fourfold.errors import InvalidQuery
from fourfold.limits import TOP_K
from fourfold.model import Filters, Json
from fourfold.retrieval import SearchResponse
from fourfold.serve.arguments import Integer, Number, refuse_folders
from fourfold.serve.budget import check_budget
from fourfold.serve.mcp.answers import SEARCH_TOKENS, answer, search_answer, why_answer
from fourfold.serve.mcp.arguments import ItemId, MaxTokens, Namespace, Namespaces, Options, Query
from fourfold.serve.sessions import Sessions


class SearchTools:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def hybrid_search(
        self,
        query_text: Query,
        filters: Filters,
        options: Annotated[
            Options,
            *("vector", "top_k", "weights", "fusion", "preset", "alpha", "k", "rerank", "time", "min_confidence"),
            *("explain", "history", "as_of", "source_weights"),
        ],
        max_tokens: MaxTokens = None,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        return await self._answered(namespace, query_text, filters, options, max_tokens)

    async def semantic_search(
        self,
        query_text: Query,
        filters: Filters,
        options: Annotated[Options, "vector", "top_k", "min_confidence", "explain"],
        max_tokens: MaxTokens = None,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        return await self._answered(namespace, query_text, filters, {**options, "only": ["semantic"]}, max_tokens)

    async def full_text_search(
        self,
        query_text: Query,
        filters: Filters,
        options: Annotated[Options, "top_k", "min_confidence", "explain"],
        max_tokens: MaxTokens = None,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        return await self._answered(namespace, query_text, filters, {**options, "only": ["keyword"]}, max_tokens)

    async def _answered(
        self, namespace: str | None, text: str, filters: Filters, options: Mapping[str, Any], max_tokens: int | None
    ) -> CallToolResult:
        budget = _budget(max_tokens)
        response = await self._searched(namespace, text, filters=filters, **options)
        explain = options.get("explain", False)
        return answer(search_answer(response, response.results, budget, explain=explain, page={}))

    async def retrieve_memory(
        self,
        query: Query,
        filters: Filters,
        options: Annotated[Options, "min_confidence", "explain"],
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
        max_tokens: MaxTokens = None,
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
            **options,
        )
        total, start = len(response.results), (page - 1) * page_size
        facts: Mapping[str, Json] = {
            "page": page,
            "page_size": page_size,
            "total": total,
            "has_more": start + page_size < total,
        }
        shown = response.results[start : start + page_size]
        explain = options.get("explain", False)
        return answer(search_answer(response, shown, budget, explain=explain, page=facts))

    async def explain_result(self, id: ItemId, query_text: Query, namespace: Namespace = None) -> CallToolResult:
        why = await (await self._sessions.memory(namespace)).why(id, query_text)
        return answer(why_answer(why, query_text))

    async def _searched(self, namespace: str | None, text: str, **options: Any) -> SearchResponse:
        """Searches one or more namespaces, each of which the caller must be allowed to use."""
        refuse_folders(options.get("rerank"))
        names = [name.strip() for name in (namespace or "").split(",") if name.strip()]
        memories = [await self._sessions.memory(name) for name in names] or [await self._sessions.memory()]
        return await memories[0].search(text, namespaces=[memory.namespace for memory in memories], **options)


def _budget(max_tokens: int | None) -> int:
    return check_budget(SEARCH_TOKENS if max_tokens is None else max_tokens)
