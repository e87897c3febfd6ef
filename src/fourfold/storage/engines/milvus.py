"""An index on Milvus: words as sparse vectors with our BM25 weights, vectors by cosine, each in a collection.

Everything is read with Strong consistency. Only the order of hits is used, never their scores: their sign differs
between builds.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import grpc
import numpy as np
from pymilvus import DataType, MilvusClient
from pymilvus.client.types import Status
from pymilvus.exceptions import MilvusException

from fourfold.addresses import Url
from fourfold.errors import InvalidSetting
from fourfold.limits import TAGS
from fourfold.model import Vector
from fourfold.storage.engines import protocol
from fourfold.storage.sql.dialect import pages
from fourfold.text import bm25

T = TypeVar("T")

_WRITE_SECONDS = 60.0
_APPLIED = "applied-"
"""Begins the key of the object that says what was applied last; it has the item 0, which no store assigns."""
_UNUSED_TERM = 0xFFFF_FFFE
"""Milvus takes no empty sparse vector. The largest index that it takes is one less than the largest hash."""
_MOST_FACTS = TAGS + 2
_STRONG = "Strong"
_OPTIONS = {"grpc.keepalive_time_ms": 300_000}
"""Servers close connections that send signs of life more often than they like."""
_ADVICE = "Check that Milvus runs"
_FAILURES = (MilvusException, grpc.RpcError, OSError, ValueError)


class MilvusEngine:
    def __init__(self, url: Url) -> None:
        protocol.check_address(url, ())
        host, port = protocol.hosts(url)[0]
        if len(url.hosts) != 1 or not (host or url.path):
            raise InvalidSetting("milvus:// takes one address: that of the proxy", "Write milvus://HOST:PORT")
        self.shown = url.shown
        self.name = url.shown
        self.nodes = (self,)
        self._uri = f"http://{host}:{port}" if host else f"unix:{url.path}"
        self._token = f"{url.user or ''}:{url.password or ''}" if url.password else ""
        self._opening = threading.Lock()
        self._client: Any = None  # its stubs mix blocking and asynchronous calls
        self._ready: set[str] = set()

    def _called(self, call: Callable[[Any], T], seconds: float) -> T:
        """A client whose connection was closed by the server is replaced; every call may be repeated."""
        client, is_new = self._opened(seconds)
        try:
            return call(client)
        except _FAILURES as error:
            if is_new or not _is_disconnected(error):
                raise protocol.unavailable(self.shown, error, _ADVICE) from error
            with self._opening:
                if self._client is client:  # other threads may still use it
                    self._client = None
        return self._called(call, seconds)

    def _opened(self, seconds: float) -> tuple[Any, bool]:
        """The client, and whether it is new."""
        with self._opening:
            if self._client is not None:
                return self._client, False
            try:
                self._client = MilvusClient(uri=self._uri, token=self._token, timeout=seconds, grpc_options=_OPTIONS)
            except _FAILURES as error:
                raise protocol.unavailable(self.shown, error, _ADVICE) from error
            return self._client, True

    # ------------------------------------------------------------ writing

    def create(self, collection: str, dimension: int | None) -> None:
        wanted = {_words(collection): 0}
        if dimension is not None:
            wanted[_vectors(collection)] = dimension
        for name, size in wanted.items():
            if name not in self._ready:
                self._called(lambda client, name=name, size=size: _create(client, name, size), _WRITE_SECONDS)
                self._ready.add(name)

    def exists(self, collection: str, dimension: int | None) -> bool:
        return len(self._existing(collection)) >= (1 if dimension is None else 2)

    def objects(self, vectors: int) -> int:
        return 1 + vectors

    def drop(self, collection: str) -> None:
        for name in (_words(collection), _vectors(collection)):
            self._ready.discard(name)
            self._called(lambda client, name=name: client.drop_collection(name), _WRITE_SECONDS)

    def put(self, collection: str, documents: Sequence[protocol.Document], without: Collection[str] = ()) -> set[str]:
        for part in protocol.parts(documents):
            words = [{**_head(each), "words": _weights(each)} for each in part]
            spaced = [
                {**_head(each, window), "vector": np.asarray(vector, np.float32)}
                for each in part
                for window, vector in enumerate(each.vectors)
            ]
            for name, rows in ((_words(collection), words), (_vectors(collection), spaced)):
                if rows:
                    self._called(lambda client, name=name, rows=rows: client.upsert(name, rows), _WRITE_SECONDS)
        return set()

    def remove(self, collection: str, entries: Sequence[protocol.Entry], without: Collection[str] = ()) -> set[str]:
        for name in self._existing(collection) if entries else ():
            for part in pages(self._keys(name, entries), protocol.PAGE_OBJECTS):
                self._called(lambda client, name=name, part=part: client.delete(name, ids=part), _WRITE_SECONDS)
        return set()

    def _keys(self, name: str, entries: Sequence[protocol.Entry]) -> list[str]:
        """Of the objects of these entries that are there, with all windows."""

        def read(items: Sequence[int]) -> list[tuple[protocol.Entry, str]]:
            rows = self._query(name, f"item in {list(items)}", ["id", "item", "version"], _WRITE_SECONDS)
            return [(protocol.Entry(row["item"], row["version"]), row["id"]) for row in rows]

        return protocol.objects_among(entries, read)

    def _query(self, name: str, where: str, fields: Sequence[str], seconds: float) -> list[Any]:
        def read(client: Any) -> list[Any]:
            return client.query(
                name,
                filter=where,
                output_fields=list(fields),
                limit=protocol.PAGE_OBJECTS,
                timeout=seconds,
                consistency_level=_STRONG,
            )

        return self._called(read, seconds)

    def _existing(self, collection: str) -> list[str]:
        names = (_words(collection), _vectors(collection))
        return [name for name in names if self._called(lambda client, name=name: client.has_collection(name), 10.0)]

    def apply(self, collection: str, applied: protocol.Applied, without: Collection[str] = ()) -> set[str]:
        """Adds an object before it removes the old one: an upsert would let readers see none in between."""
        name = _words(collection)
        row: dict[str, Any] = {"id": f"{_APPLIED}{applied.mark}", "item": 0, "version": applied.change}
        row |= {"mark": applied.mark, "facts": [], "words": {_UNUSED_TERM: 1.0}}
        old = [each["id"] for each in self._applied(collection, _WRITE_SECONDS) if each["mark"] != applied.mark]
        self._called(lambda client: client.upsert(name, [row]), _WRITE_SECONDS)
        if old:
            self._called(lambda client: client.delete(name, ids=old), _WRITE_SECONDS)
        return set()

    # ------------------------------------------------------------ reading

    def applied(self, collection: str, seconds: float) -> protocol.Applied | None:
        rows = self._applied(collection, seconds)
        return protocol.Applied(rows[0]["mark"], rows[0]["version"]) if rows else None

    def _applied(self, collection: str, seconds: float) -> list[Any]:
        return self._query(_words(collection), "item == 0", ["id", "mark", "version"], seconds)

    def match(
        self, collection: str, weights: Mapping[int, float], limit: int, required: protocol.Required, seconds: float
    ) -> list[int]:
        terms = {min(term, _UNUSED_TERM): weight for term, weight in weights.items()}
        return self._search(_words(collection), "words", terms, "IP", limit, required, seconds)

    def nearest(
        self, collection: str, vector: Vector, limit: int, required: protocol.Required, seconds: float
    ) -> list[int]:
        query = np.asarray(vector, np.float32).tolist()
        return self._search(_vectors(collection), "vector", query, "COSINE", limit, required, seconds)

    def _search(
        self, name: str, field: str, asked: Any, metric: str, limit: int, required: protocol.Required, seconds: float
    ) -> list[int]:
        def search(client: Any) -> Any:
            return client.search(
                name,
                [asked],
                filter=" and ".join(f"array_contains_any(facts, {list(group)})" for group in required),
                limit=limit,
                anns_field=field,
                search_params={"metric_type": metric},
                output_fields=["item"],
                timeout=seconds,
                consistency_level=_STRONG,
            )

        return [hit["entity"]["item"] for hit in self._called(search, seconds)[0]]

    def held(self, collection: str, entries: Sequence[protocol.Entry]) -> int:
        keys, held = [_key(entry) for entry in entries], set[str]()
        for name in self._existing(collection) if keys else ():

            def read(client: Any, name: str = name) -> list[Any]:
                return client.get(name, ids=keys, output_fields=["id"], consistency_level=_STRONG)

            held.update(row["id"] for row in self._called(read, _WRITE_SECONDS))
        return len(held)

    def entries(self, collection: str, low: int, high: int) -> list[protocol.Entry]:
        return [each for name in self._existing(collection) for each in self._entries(name, low, high)]

    def _entries(self, name: str, low: int, high: int) -> list[protocol.Entry]:
        def read(low: int, high: int) -> list[protocol.Entry]:
            rows = self._query(name, f"item >= {low} and item < {high}", ["item", "version"], _WRITE_SECONDS)
            return [protocol.Entry(row["item"], row["version"]) for row in rows]

        return protocol.listed(read, low, high)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _is_disconnected(error: Exception) -> bool:
    if isinstance(error, MilvusException):
        return error.code == Status.CONNECT_FAILED
    return not isinstance(error, ValueError)


def _words(collection: str) -> str:
    return f"{collection}_words"


def _vectors(collection: str) -> str:
    return f"{collection}_vectors"


def _create(client: Any, name: str, dimension: int) -> None:
    """`dimension` 0: of words."""
    if client.has_collection(name):
        return
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=40)
    schema.add_field("item", DataType.INT64)
    schema.add_field("version", DataType.INT64)
    schema.add_field("mark", DataType.VARCHAR, max_length=64)
    schema.add_field("facts", DataType.ARRAY, element_type=DataType.INT64, max_capacity=_MOST_FACTS)
    indexes = client.prepare_index_params()
    if dimension:
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        indexes.add_index("vector", index_type="AUTOINDEX", metric_type="COSINE")
    else:
        schema.add_field("words", DataType.SPARSE_FLOAT_VECTOR)
        indexes.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
    client.create_collection(name, schema=schema, index_params=indexes, consistency_level=_STRONG)


def _key(entry: protocol.Entry, part: int = 0) -> str:
    return f"{entry.item}-{entry.version}-{part}" if part else f"{entry.item}-{entry.version}"


def _head(document: protocol.Document, part: int = 0) -> dict[str, Any]:
    item, version = document.entry
    key = _key(document.entry, part)
    return {"id": key, "item": item, "version": version, "mark": "", "facts": list(document.facts)}


def _weights(document: protocol.Document) -> dict[int, float]:
    """What each term adds to the BM25 of the document, before its idf."""
    counts: Counter[int] = Counter(np.minimum(document.hashes, _UNUSED_TERM).tolist())
    norm = bm25.K1 * (1 - bm25.B + bm25.B * document.length)
    return {term: tf * (bm25.K1 + 1) / (tf + norm) for term, tf in counts.items()} or {_UNUSED_TERM: 1e-6}
