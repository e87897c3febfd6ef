"""Haystack: Fourfold as a document store, and a retriever component for pipelines (extra `haystack`)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Self, cast

from fourfold.errors import InvalidQuery, MissingExtra, RequestError
from fourfold.filters import Condition, Every, Field, Not, Some, field_at, make_test
from fourfold.integrations import documents
from fourfold.integrations.documents import in_thread
from fourfold.memory import Memory
from fourfold.model import Filters, Item, ItemPatch, Json, NewItem
from fourfold.validation import checked_filters

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.dataclasses import ByteStream, SparseEmbedding
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy
    from haystack.errors import FilterError
except ImportError as error:
    raise MissingExtra(f"haystack-ai is missing ({error})", "pip install 'fourfold[haystack]'") from error

_HIDDEN: Final = "_haystack"
"""Key of the metadata for values without a column: embedding, sparse embedding, blob, absent content."""
_ORDERS: Final = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


class FourfoldDocumentStore:
    """A memory as a document store.

        store = FourfoldDocumentStore("notes")
        store.write_documents([Document(content="The boiler is serviced in May")])
        FourfoldRetriever(store).run("when does the heating get checked?")

    Without an embedder of its own (`embedder="none"`) it searches by the embeddings of the documents; otherwise it
    makes the vectors itself, and keeps those embeddings for the pipeline only.
    """

    def __init__(self, store: str | None = None, *, namespace: str | None = None, embedder: str | None = None) -> None:
        """The store in a folder or at an address, which is opened when it is first used."""
        self._place = {"store": store, "namespace": namespace, "embedder": embedder}

    @classmethod
    def of(cls, memory: documents.AnyMemory) -> Self:
        """The document store of an open memory; it cannot be serialised."""
        made = cls()
        made._place = {}
        made.__dict__["memory"] = memory
        return made

    @cached_property
    def memory(self) -> documents.AnyMemory:
        return Memory.open(self._place["store"], namespace=self._place["namespace"], embedder=self._place["embedder"])

    def close(self) -> None:
        """Closes the memory, if it was opened."""
        if "memory" in self.__dict__:
            self.memory.close()

    def to_dict(self) -> dict[str, Any]:
        if not self._place:
            raise RequestError("a document store of an open memory cannot be serialised", "Give it a folder or DSN")
        return default_to_dict(self, **self._place)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return default_from_dict(cls, data)

    # ------------------------------------------------------------ documents

    def count_documents(self) -> int:
        return self.memory.count()

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Documents in the order in which they were first written."""
        matching = [_document(item) for item in documents.each(self.memory, _where(filters))]
        return matching[::-1]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Writes all documents, or none; returns how many. Without a policy, a duplicate is an error."""
        if not isinstance(documents, list) or not all(isinstance(each, Document) for each in documents):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("write_documents takes a list of Documents")
        if policy == DuplicatePolicy.OVERWRITE:
            wanted = documents
        else:
            wanted = self._new(documents, fail=policy != DuplicatePolicy.SKIP)
        self.memory.add_many([_item(each, searched=self._searches_embeddings) for each in wanted], wait=True)
        return len(wanted)

    def _new(self, offered: Sequence[Document], *, fail: bool) -> list[Document]:
        """Documents whose ids are not stored, each id once."""
        stored = documents.find(self.memory, [each.id for each in offered])
        new = {documents.spelled(each.id): each for each in reversed(offered) if each.id not in stored}
        if fail and len(new) < len(offered):
            twice = next(iter(stored), None) or next(
                each.id for each in offered if new[documents.spelled(each.id)] is not each
            )
            raise DuplicateDocumentError(f"ID '{twice}' already exists.")
        return [*reversed(new.values())]

    def delete_documents(self, document_ids: list[str]) -> None:
        """Ids without a document are ignored."""
        documents.forget(self.memory, document_ids)

    def delete_all_documents(self) -> None:
        """Removes everything in the namespace."""
        self.memory.forget_matching(documents.EVERYTHING)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        return self.memory.forget_matching(_where(filters) or documents.EVERYTHING)

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Merges `meta` into the metadata of the documents that match; returns how many there were."""
        items = list(documents.each(self.memory, _where(filters)))
        for item in items:
            self.memory.update(item.id, ItemPatch(metadata=meta))
        return len(items)

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        return self.memory.count(_where(filters))

    def search(
        self, query: str, query_embedding: list[float] | None, filters: dict[str, Any] | None, **options: Any
    ) -> list[Document]:
        """Documents with their scores, best first."""
        vector = query_embedding if self._searches_embeddings else None
        response = self.memory.search(query, vector=vector, filters=_where(filters), **options)
        return [_document(result.item, result.score) for result in response.results]

    @cached_property
    def _searches_embeddings(self) -> bool:
        return self.memory.status().get("embedder") is None

    # ------------------------------------------------------------ the same for asyncio

    count_documents_async = in_thread(count_documents)
    filter_documents_async = in_thread(filter_documents)
    write_documents_async = in_thread(write_documents)
    delete_documents_async = in_thread(delete_documents)
    delete_all_documents_async = in_thread(delete_all_documents)
    delete_by_filter_async = in_thread(delete_by_filter)
    update_by_filter_async = in_thread(update_by_filter)
    count_documents_by_filter_async = in_thread(count_documents_by_filter)


@component
class FourfoldRetriever:
    """Ranks the documents of a FourfoldDocumentStore by vectors, words, relations and tags."""

    def __init__(
        self,
        document_store: FourfoldDocumentStore,
        *,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """`options`: of `Memory.search`, such as {"preset": "wiki"}."""
        self.document_store = document_store
        self.top_k = top_k
        self.filters = filters
        self.options = options or {}

    def to_dict(self) -> dict[str, Any]:
        store = self.document_store.to_dict()
        return default_to_dict(self, document_store=store, top_k=self.top_k, filters=self.filters, options=self.options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        own: dict[str, Any] = data["init_parameters"]
        own["document_store"] = FourfoldDocumentStore.from_dict(own["document_store"])
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """`filters` and `top_k` replace those of the component. `query_embedding`: for a store without an embedder."""
        documents = self.document_store.search(
            query, query_embedding, filters or self.filters, top_k=top_k or self.top_k, **self.options
        )
        return {"documents": documents}

    run_async = in_thread(run)


# ---------------------------------------------------------------- documents as items


def _item(document: Document, *, searched: bool) -> NewItem:
    hidden: dict[str, Json] = {}
    if document.embedding is not None:
        hidden["embedding"] = _packed(document.embedding)
    if document.sparse_embedding is not None:
        hidden["sparse_embedding"] = document.sparse_embedding.to_dict()
    if document.blob is not None:
        blob = document.blob
        data = b64encode(blob.data).decode()
        hidden["blob"] = {"data": data, "meta": blob.meta, "mime_type": blob.mime_type}
    if document.content is None:
        hidden["no_content"] = True
    metadata = {**document.meta, _HIDDEN: hidden} if hidden else document.meta
    vector = document.embedding if searched else None
    return documents.new_item(document.id, document.content or "", metadata, vector)


def _document(item: Item, score: float | None = None) -> Document:
    meta = documents.metadata_of(item)
    hidden: dict[str, Any] = meta.pop(_HIDDEN, {})
    blob = hidden.get("blob")
    return Document(
        id=documents.id_of(item),
        content=None if hidden.get("no_content") else item.text,
        blob=None if blob is None else ByteStream(b64decode(blob["data"]), blob["meta"], blob["mime_type"]),
        meta=meta,
        score=score,
        embedding=_unpacked(hidden["embedding"]) if "embedding" in hidden else None,
        sparse_embedding=SparseEmbedding(**hidden["sparse_embedding"]) if "sparse_embedding" in hidden else None,
    )


def _packed(vector: Sequence[float]) -> str:
    """The vector with every bit: the store keeps unit vectors of single precision."""
    import numpy as np

    return b64encode(np.asarray(vector, "<f8").tobytes()).decode()


def _unpacked(text: str) -> list[float]:
    import numpy as np

    return np.frombuffer(b64decode(text), "<f8").tolist()


# ---------------------------------------------------------------- filters


def _where(filters: Mapping[str, Any] | None) -> Filters | None:
    """Filters of Haystack as those of Fourfold; None for no filters."""
    if not filters:
        return None
    try:
        return checked_filters(Filters(where=_condition(filters)))
    except InvalidQuery as error:
        raise FilterError(str(error)) from error


def _condition(filters: Mapping[str, Any]) -> Condition:
    _require(filters, "operator")
    if "field" in filters:
        _require(filters, "value")
        return _comparison(_field(filters["field"]), filters["operator"], filters["value"])
    _require(filters, "conditions")
    parts = tuple(_condition(part) for part in filters["conditions"])
    match filters["operator"]:
        case "AND":
            return Every(parts)
        case "OR":
            return Some(parts)
        case "NOT":
            return Not(Every(parts))
        case unknown:
            raise FilterError(f"unknown logical operator {unknown!r}; use AND, OR or NOT")


def _require(filters: Mapping[str, Any], name: str) -> None:
    if name not in filters:
        raise FilterError(f"'{name}' key missing in {filters}")


def _field(name: str) -> Field:
    match name.split("."):
        case ["id"]:
            return field_at(["key"])
        case ["content" | "blob" | "score" | "embedding" | "sparse_embedding"]:
            raise FilterError(f"{name} cannot be filtered; filter by id or by meta.NAME")
        case ["meta", *path]:
            return field_at(["metadata", *path])
        case path:
            return field_at(["metadata", *path])


def _comparison(field: Field, operator: str, value: Any) -> Condition:
    negated: dict[str, Callable[[], Condition]] = {
        "!=": lambda: _comparison(field, "==", value),
        "not in": lambda: _comparison(field, "in", value),
    }
    if operator in negated:
        return Not(negated[operator]())
    if operator == "==":
        return _one_of(field, [value])
    if operator == "in":
        if not isinstance(value, list):
            raise FilterError(f"{operator!r} needs a list, not a {type(value).__name__}")
        return _one_of(field, cast("list[Any]", value))
    if operator not in _ORDERS:
        raise FilterError(f"unknown comparison operator {operator!r}")
    if value is None:
        return _nothing()
    if isinstance(value, list) or (isinstance(value, str) and not _is_date(value)):
        raise FilterError(f"{operator!r} compares numbers and ISO dates, not {value!r}")
    return make_test(field, _ORDERS[operator], value)  # pyright: ignore[reportArgumentType]


def _one_of(field: Field, values: Sequence[Any]) -> Condition:
    """Equality with one of the values; a field that is missing is None."""
    if not values:
        return _nothing()
    equal = make_test(field, "in", [*values])
    return Some((equal, make_test(field, "exists", False))) if None in values else equal


def _nothing() -> Condition:
    return make_test(field_at(["id"]), "lt", 0)


def _is_date(text: str) -> bool:
    from datetime import datetime

    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) >= len("2026-11-15")
