"""LlamaIndex: Fourfold as a vector store and as a retriever (extra `llama-index`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from fourfold.errors import InvalidQuery, MissingExtra
from fourfold.filters import Condition, Every, Field, Not, Operator, Some, make_test
from fourfold.integrations import documents
from fourfold.model import Filters, GivenFilters, Item, NewItem
from fourfold.retrieval import Result

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
    from llama_index.core.vector_stores import types
    from llama_index.core.vector_stores.utils import (
        metadata_dict_to_node,  # pyright: ignore[reportUnknownVariableType]
        node_to_metadata_dict,
    )
except ImportError as error:
    raise MissingExtra(f"llama-index-core is missing ({error})", "pip install 'fourfold[llama-index]'") from error

_ANY_TEXT: Final = "vector"
"""A search needs a text, also one by vectors alone, which does not read it."""
_MODES: Final[dict[types.VectorStoreQueryMode, dict[str, Any]]] = {
    types.VectorStoreQueryMode.DEFAULT: {},
    types.VectorStoreQueryMode.HYBRID: {},
    types.VectorStoreQueryMode.SEMANTIC_HYBRID: {},
    types.VectorStoreQueryMode.SPARSE: {"only": ["keyword"]},
    types.VectorStoreQueryMode.TEXT_SEARCH: {"only": ["keyword"]},
}
_OPERATORS: Final[dict[types.FilterOperator, Operator]] = {
    types.FilterOperator.EQ: "eq",
    types.FilterOperator.NE: "ne",
    types.FilterOperator.GT: "gt",
    types.FilterOperator.GTE: "gte",
    types.FilterOperator.LT: "lt",
    types.FilterOperator.LTE: "lte",
    types.FilterOperator.IN: "in",
    types.FilterOperator.NIN: "not in",
    types.FilterOperator.ANY: "in",
    types.FilterOperator.CONTAINS: "eq",
}


class FourfoldVectorStore(types.BasePydanticVectorStore):
    """A memory as a vector store: `StorageContext.from_defaults(vector_store=FourfoldVectorStore(memory))`.

    A memory that makes its own vectors ignores those of the nodes and of queries. To use the vectors of an embedding
    model of LlamaIndex, open the memory with `embedder="none"`.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    _memory: documents.AnyMemory = PrivateAttr()
    _own_vectors: bool = PrivateAttr()

    def __init__(self, memory: documents.AnyMemory) -> None:
        own = memory.status().get("embedder") is not None
        super().__init__(is_embedding_query=not own)  # pyright: ignore[reportCallIssue]
        self._memory = memory
        self._own_vectors = own

    @classmethod
    def class_name(cls) -> str:
        return "FourfoldVectorStore"

    @property
    def client(self) -> documents.AnyMemory:
        return self._memory

    # ------------------------------------------------------------ nodes

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Stores all nodes, or none; a node whose id is stored already is replaced."""
        self._memory.add_many([self._item(node) for node in nodes], wait=True)
        return [node.node_id for node in nodes]

    def _item(self, node: BaseNode) -> NewItem:
        vector = None if self._own_vectors or node.embedding is None else node.embedding
        metadata = node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
        return documents.new_item(node.node_id, node.get_content(MetadataMode.NONE), metadata, vector)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: types.MetadataFilters | None = None
    ) -> list[BaseNode]:
        items = documents.each(self._memory, _filters(filters, node_ids=node_ids))
        return [_node(item) for item in items][::-1]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Removes the nodes of a document."""
        self._memory.forget_matching({"metadata.ref_doc_id": ref_doc_id})

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: types.MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Removes the nodes with these ids that match the filters; NotFound is not raised for others."""
        wanted = _filters(filters, node_ids=node_ids)
        if wanted is not None:
            self._memory.forget_matching(wanted)

    def clear(self) -> None:
        """Removes everything in the namespace."""
        self._memory.forget_matching(documents.EVERYTHING)

    def query(self, query: types.VectorStoreQuery, **kwargs: Any) -> types.VectorStoreQueryResult:
        """Nodes with their scores, best first. `default` and `hybrid` use all retrievers; `alpha` weighs vectors."""
        if query.mode not in _MODES:
            raise InvalidQuery(f"the mode {query.mode.value!r} is not supported", "Use default, hybrid or text_search")
        options = {**_MODES[query.mode], **kwargs}
        if query.query_str is None:
            options["only"] = ["semantic"]
        elif query.alpha is not None and query.mode is types.VectorStoreQueryMode.HYBRID:
            weights = {"semantic": query.alpha, "keyword": 1 - query.alpha, "graph": 0.0}
            options |= {"fusion": "weighted", "weights": weights}
        response = self._memory.search(
            query.query_str or _ANY_TEXT,
            vector=None if self._own_vectors else query.query_embedding,
            top_k=query.hybrid_top_k or query.similarity_top_k,
            filters=_filters(query.filters, node_ids=query.node_ids, doc_ids=query.doc_ids),
            **options,
        ).results
        return types.VectorStoreQueryResult(
            nodes=[_node(result.item) for result in response],
            similarities=[result.score for result in response],
            ids=[documents.id_of(result.item) for result in response],
        )

    # ------------------------------------------------------------ the same for asyncio

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: types.MetadataFilters | None = None
    ) -> list[BaseNode]:
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        await asyncio.to_thread(self.delete, ref_doc_id)

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: types.MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        await asyncio.to_thread(self.delete_nodes, node_ids, filters)

    async def aclear(self) -> None:
        await asyncio.to_thread(self.clear)

    async def aquery(self, query: types.VectorStoreQuery, **kwargs: Any) -> types.VectorStoreQueryResult:
        return await asyncio.to_thread(self.query, query, **kwargs)


class FourfoldRetriever(BaseRetriever):
    """Ranks everything a memory holds, stored by any client. `metadata["fourfold"]` of each node explains the rank."""

    def __init__(
        self,
        memory: documents.AnyMemory,
        *,
        top_k: int = 10,
        filters: GivenFilters | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """`filters`: a condition of Fourfold's grammar. `options`: of `Memory.search`, such as {"preset": "wiki"}."""
        super().__init__()
        self._memory = memory
        self._top_k = top_k
        self._filters = filters
        self._options = options or {}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        response = self._memory.search(
            query_bundle.query_str, top_k=self._top_k, filters=self._filters, **self._options
        ).results
        return [_ranked(result) for result in response]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(item: Item) -> BaseNode:
    """The node that was stored, or a new one for an item of another origin."""
    metadata = documents.metadata_of(item)
    if "_node_content" in metadata:
        return metadata_dict_to_node(metadata, text=item.text)
    return TextNode(id_=documents.id_of(item), text=item.text, metadata=metadata)


def _ranked(result: Result) -> NodeWithScore:
    node = _node(result.item)
    node.metadata["fourfold"] = documents.scores_of(result)
    node.excluded_embed_metadata_keys.append("fourfold")
    node.excluded_llm_metadata_keys.append("fourfold")
    return NodeWithScore(node=node, score=result.score)


# ---------------------------------------------------------------- filters


def _filters(
    filters: types.MetadataFilters | None,
    *,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
) -> Filters | None:
    parts: list[Condition] = []
    if node_ids:
        parts.append(documents.among(node_ids))
    if doc_ids:
        parts.append(make_test(Field(None, ("ref_doc_id",)), "in", [*doc_ids]))
    if filters is not None and filters.filters:
        parts.append(_condition(filters))
    return Filters(where=Every(tuple(parts))) if parts else None


def _condition(filters: types.MetadataFilters | types.MetadataFilter) -> Condition:
    if isinstance(filters, types.MetadataFilter):
        return _test(filters)
    parts = tuple(_condition(part) for part in filters.filters)
    match filters.condition:
        case types.FilterCondition.OR:
            return Some(parts)
        case types.FilterCondition.NOT:
            return Not(Some(parts))
        case _:
            return Every(parts)


def _test(filter: types.MetadataFilter) -> Condition:
    field = Field(None, tuple(filter.key.split(".")))
    match filter.operator:
        case types.FilterOperator.ALL:
            wanted = filter.value if isinstance(filter.value, list) else [filter.value]
            return Every(tuple(make_test(field, "eq", value) for value in wanted))
        case types.FilterOperator.IS_EMPTY:
            return Some((make_test(field, "exists", False), make_test(field, "in", [None, []])))
        case types.FilterOperator.TEXT_MATCH | types.FilterOperator.TEXT_MATCH_INSENSITIVE:
            raise InvalidQuery(
                f"the operator {filter.operator.value!r} is not supported", "Put the words into the query"
            )
        case operator:
            return make_test(field, _OPERATORS[operator], filter.value)
