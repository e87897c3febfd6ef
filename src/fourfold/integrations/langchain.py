"""LangChain: Fourfold as a vector store and as a retriever (extra `langchain`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from fourfold.client import RemoteMemory
from fourfold.errors import InvalidItem, MissingExtra, RequestError
from fourfold.integrations import documents
from fourfold.memory import Memory
from fourfold.model import GivenFilters, Item
from fourfold.retrieval import Result, SearchResponse

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
    from pydantic import Field
except ImportError as error:
    raise MissingExtra(f"langchain-core is missing ({error})", "pip install 'fourfold[langchain]'") from error

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.embeddings import Embeddings

_ANY_TEXT = "vector"
"""A search needs a text, also one by vectors alone, which does not read it."""


class FourfoldVectorStore(VectorStore):
    """A memory as a vector store, whose searches also use words, tags and relations.

        with Memory.open("notes") as memory:
            store = FourfoldVectorStore(memory)
            store.add_documents([Document("The boiler is serviced in May", metadata={"tags": ["house"]})])
            store.similarity_search("when does the heating get checked?", k=1)

    Without `embedding`, the memory makes the vectors. A model of LangChain needs a memory that makes none:
    `Memory.open("notes", embedder="none")`. Searches take `filter`, a condition on metadata and columns, and the
    options of `Memory.search`, such as `preset` or `only=["semantic"]`.
    """

    def __init__(self, memory: documents.AnyMemory, embedding: Embeddings | None = None) -> None:
        if embedding is not None:
            documents.require_no_embedder(memory, "Open it with embedder='none', or leave out `embedding`")
        self.memory = memory
        self._embedding = embedding

    @property
    def embeddings(self) -> Embeddings | None:
        return self._embedding

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        memory: documents.AnyMemory | None = None,
        store: str | Path | None = None,
        **kwargs: Any,
    ) -> Self:
        """Adds texts to a memory, or to the store in this folder or at this address; `close` it at the end."""
        if memory is None:
            memory = Memory.open(store, embedder=None if embedding is None else "none")
        made = cls(memory, embedding)
        made.add_texts(texts, metadatas, ids=ids, **kwargs)
        return made

    def close(self) -> None:
        """Closes the memory."""
        self.memory.close()

    # ------------------------------------------------------------ documents

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        wait: bool = True,
        **kwargs: Any,
    ) -> list[str]:
        """Stores all texts, or none, and returns their ids; an id that is stored already is replaced.

        `wait`: until the memory has made their vectors; otherwise they follow in the background.
        """
        if kwargs:
            raise InvalidItem(f"unknown argument {next(iter(kwargs))!r}", "Give texts, metadatas, ids and wait")
        lines = list(texts)
        for name, values in (("metadatas", metadatas), ("ids", ids)):
            if values is not None and len(values) != len(lines):
                raise ValueError(f"there are {len(lines)} texts and {len(values)} {name}; give one for each text")
        keys = [id or str(uuid4()) for id in ids or [None] * len(lines)]
        vectors = [None] * len(lines) if self._embedding is None else self._embedding.embed_documents(lines)
        items = [
            documents.new_item(key, text, metadata, vector)
            for key, text, metadata, vector in zip(keys, lines, metadatas or [{} for _ in lines], vectors, strict=True)
        ]
        self.memory.add_many(items, wait=wait)
        return keys

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Removes documents, or all of the namespace if no ids are given; ids without a document are ignored."""
        if ids is None:
            self.memory.forget_matching(documents.EVERYTHING)
        else:
            documents.forget(self.memory, ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return [_document(item) for item in documents.find(self.memory, ids).values()]

    # ------------------------------------------------------------ searches

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Documents with their scores, best first: the sum of what the retrievers contribute."""
        return [(_document(result.item), result.score) for result in self._search(query, k, **kwargs).results]

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Documents with their confidence, the estimated probability that they answer."""
        return [(_document(result.item), result.confidence) for result in self._search(query, k, **kwargs).results]

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        from langchain_core.runnables.config import run_in_executor

        return await run_in_executor(None, self._similarity_search_with_relevance_scores, query, k, **kwargs)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """By vectors alone."""
        hits = _search(self.memory, _ANY_TEXT, k, vector=embedding, only=["semantic"], **kwargs)
        return [_document(result.item) for result in hits.results]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Of the best `fetch_k` documents, `k` that differ from each other; needs `embedding`."""
        model = self._model("max_marginal_relevance_search")
        return self._diverse(model.embed_query(query), self.similarity_search(query, fetch_k, **kwargs), k, lambda_mult)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        return self._diverse(embedding, self.similarity_search_by_vector(embedding, fetch_k, **kwargs), k, lambda_mult)

    def _diverse(self, query: list[float], documents: list[Document], k: int, lambda_mult: float) -> list[Document]:
        import numpy as np

        if not documents:
            return []
        model = self._model("max_marginal_relevance_search")
        vectors = model.embed_documents([document.page_content for document in documents])
        return [documents[place] for place in maximal_marginal_relevance(np.array(query), vectors, lambda_mult, k)]

    def _model(self, caller: str) -> Embeddings:
        if self._embedding is None:
            remedy = "Give this vector store an `embedding`"
            raise RequestError(f"{caller} compares vectors outside of the store", remedy)
        return self._embedding

    def _search(self, query: str, k: int, **options: Any) -> SearchResponse:
        if self._embedding is not None and "vector" not in options:
            options["vector"] = self._embedding.embed_query(query)
        return _search(self.memory, query, k, **options)


class FourfoldRetriever(BaseRetriever):
    """Ranks what a memory holds, with the reasons in `metadata["fourfold"]` of each document.

    `FourfoldRetriever(memory=memory, k=5, filter="kind = note", options={"preset": "wiki"})`; an argument of `invoke`
    (`k`, `filter`, or an option of `Memory.search`) comes before these.
    """

    memory: Memory | RemoteMemory
    k: int = 4
    filter: Any = None
    """A condition as text, as a mapping, or `Filters`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Of `Memory.search`."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, **kwargs: Any
    ) -> list[Document]:
        options = {"filter": self.filter, **self.options, **kwargs}
        return [_ranked(result) for result in _search(self.memory, query, k or self.k, **options).results]


def _search(
    memory: documents.AnyMemory, query: str, k: int, *, filter: GivenFilters | None = None, **options: Any
) -> SearchResponse:
    return memory.search(query, top_k=k, filters=filter, **options)


def _document(item: Item) -> Document:
    return Document(page_content=item.text, metadata=documents.metadata_of(item), id=documents.id_of(item))


def _ranked(result: Result) -> Document:
    document = _document(result.item)
    document.metadata["fourfold"] = documents.scores_of(result)
    return document
