"""An index on Weaviate: one collection for words and vectors, our own tokens with the `whitespace` tokenizer.

A node answers a search from its own replica only, whatever consistency level is asked for: what it holds is known by
its mark, and rows of PostgreSQL decide about every candidate, so reads ask for one replica. Writes need a quorum, and
then each node is asked what it has: no level ensures that all have it, since ALL leaves out a node that is known to be
down.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import grpc
import httpx
import numpy as np
from weaviate.classes import config
from weaviate.classes.data import DataObject
from weaviate.classes.init import AdditionalConfig, Auth, Timeout
from weaviate.classes.query import Filter
from weaviate.client import WeaviateClient
from weaviate.connect import ConnectionParams
from weaviate.exceptions import WeaviateBaseError

from fourfold.addresses import Url
from fourfold.errors import IndexUnavailable, InvalidSetting
from fourfold.model import Vector
from fourfold.storage.engines import protocol
from fourfold.storage.sql.dialect import pages
from fourfold.text import bm25

T = TypeVar("T")

_CONNECT_SECONDS = 2.0


class Connection:
    """A client of one node. It sleeps up to a minute between attempts to reach the node, so every call has a thread and
    a deadline, and after a failure the next call gets a new client."""

    def __init__(self, http: tuple[str, int], grpc_port: int, url: Url, seconds: float) -> None:
        self._http, self._grpc_port, self._seconds = http, grpc_port, seconds
        self._secret = url.password
        self._secure = url.parameters.get("tls") == "true"
        self._opening = threading.Lock()
        self._client: WeaviateClient | None = None
        self.name = f"weaviate node {http[0]}:{http[1]}"

    def call(self, call: Callable[[Any], T], seconds: float | None = None) -> T:
        """Calls with the client; its types are only partly known, hence Any."""
        try:
            for port in (self._http[1], self._grpc_port):
                socket.create_connection((self._http[0], port), min(self._seconds, _CONNECT_SECONDS)).close()
            return protocol.within(seconds or self._seconds, lambda: call(self._opened()))
        except (WeaviateBaseError, grpc.RpcError, httpx.HTTPError, OSError) as error:
            self.close()
            raise protocol.unavailable(self.name, error, "Check that Weaviate runs") from error

    def _opened(self) -> WeaviateClient:
        with self._opening:
            if self._client is None:
                host, port = self._http
                client = WeaviateClient(
                    ConnectionParams.from_params(host, port, self._secure, host, self._grpc_port, self._secure),
                    auth_client_secret=Auth.api_key(self._secret) if self._secret else None,
                    additional_config=AdditionalConfig(
                        timeout=Timeout(init=self._seconds, query=self._seconds, insert=self._seconds)
                    ),
                    skip_init_checks=True,
                )
                try:
                    client.connect()
                except BaseException:
                    client.close()
                    raise
                self._client = client
            return self._client

    def close(self) -> None:
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.close()


_WRITE_SECONDS = 20.0
_APPLIED = protocol.Entry(0, 1)
"""The object that says what was applied last; no store assigns the item 0."""
_CONFIRM_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
_NAMED_OBJECTS = 1_000
"""In one request."""
_VERSION_BITS = 56
"""Of an id: the number of the window is above them, the item above that."""
_REPLICAS = 3
_LETTERS = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")


class WeaviateNode:
    def __init__(self, http: tuple[str, int], grpc_port: int, url: Url) -> None:
        self._search = Connection(http, grpc_port, url, protocol.ATTEMPT_SECONDS)
        self.work = Connection(http, grpc_port, url, _WRITE_SECONDS)
        self.name = self._search.name

    def applied(self, collection: str, seconds: float) -> protocol.Applied | None:
        connection = self._search if seconds <= protocol.ATTEMPT_SECONDS else self.work
        mark = connection.call(
            lambda client: _at(client, collection, config.ConsistencyLevel.ONE).query.fetch_object_by_id(
                _uuid(_APPLIED)
            ),
            seconds,
        )
        return None if mark is None else protocol.Applied(mark.properties["mark"], int(mark.properties["version"]))

    def match(
        self, collection: str, weights: Mapping[int, float], limit: int, required: protocol.Required, seconds: float
    ) -> list[int]:
        terms = _spelled(np.array(list(weights), np.uint32))

        def search(client: Any) -> Any:
            query = _at(client, collection, config.ConsistencyLevel.ONE).query
            return query.bm25(
                terms, query_properties=["words"], limit=limit, filters=_filter(required), return_properties=[]
            )

        return _items(self._search.call(search))

    def nearest(
        self, collection: str, vector: Vector, limit: int, required: protocol.Required, seconds: float
    ) -> list[int]:
        query_vector = np.asarray(vector, np.float32).tolist()

        def search(client: Any) -> Any:
            query = _at(client, collection, config.ConsistencyLevel.ONE).query
            return query.near_vector(query_vector, limit=limit, filters=_filter(required), return_properties=[])

        return _items(self._search.call(search))

    def held(self, collection: str, entries: Sequence[protocol.Entry]) -> int:
        return self.count(collection, [_uuid(entry) for entry in entries])

    def count(self, collection: str, ids: Sequence[UUID]) -> int:
        """How many of some objects the node has."""
        return sum(len(self._fetched(collection, _ids(part), len(part))) for part in pages(ids, _NAMED_OBJECTS))

    def objects(self, collection: str, entries: Sequence[protocol.Entry]) -> set[UUID]:
        """The objects of these entries, with all windows."""

        def read(items: Sequence[int]) -> list[tuple[protocol.Entry, UUID]]:
            where = Filter.by_property("item").contains_any(list(items))
            return [(_entry(uuid), uuid) for uuid in self._fetched(collection, where, protocol.PAGE_OBJECTS)]

        return set(protocol.objects_among(entries, read))

    def _fetched(self, collection: str, where: Any, limit: int) -> list[UUID]:
        def read(client: Any) -> Any:
            query = _at(client, collection, config.ConsistencyLevel.ONE).query
            return query.fetch_objects(filters=where, limit=limit, return_properties=[])

        return [each.uuid for each in self.work.call(read).objects]

    def entries(self, collection: str, low: int, high: int) -> list[protocol.Entry]:
        item = Filter.by_property("item")

        def read(low: int, high: int) -> list[protocol.Entry]:
            where = item.greater_or_equal(low) & item.less_than(high)
            return [_entry(uuid) for uuid in self._fetched(collection, where, protocol.PAGE_OBJECTS)]

        return protocol.listed(read, low, high)

    def close(self) -> None:
        self._search.close()
        self.work.close()


class WeaviateEngine:
    def __init__(self, url: Url) -> None:
        protocol.check_address(url, ("grpc", "replicas", "shards", "tls"))
        ports = url.parameters.get("grpc", "50051").split(",")
        if len(ports) not in (1, len(url.hosts)) or not all(map(protocol.is_port, ports)):
            remedy = "Write one port, or one per host"
            raise InvalidSetting("the gRPC ports of weaviate:// do not fit its hosts", remedy)
        ports = ports * len(url.hosts) if len(ports) == 1 else ports
        self.shown = url.shown
        self.nodes = tuple(
            WeaviateNode((host, int(port)), int(grpc_port), url)
            for (host, port), grpc_port in zip(protocol.hosts(url), ports, strict=True)
        )
        self._writers = list(self.nodes)
        self._replicas = protocol.number(url, "replicas", min(_REPLICAS, len(url.hosts)))
        self._shards = protocol.number(url, "shards", 1)
        if url.parameters.get("tls", "false") not in ("true", "false"):
            raise InvalidSetting("`tls` of weaviate:// is neither true nor false", "Write tls=true")

    def _write(self, call: Callable[[Any], T]) -> T:
        """By the first node that can reach a quorum. One that fails is asked last from now on."""
        failure: IndexUnavailable | None = None
        for node in tuple(self._writers):
            try:
                return node.work.call(call)
            except IndexUnavailable as error:
                failure = failure or error
                self._writers.remove(node)
                self._writers.append(node)
        raise failure or IndexUnavailable(f"{self.shown} has no node", "Name one")

    def create(self, collection: str, dimension: int | None) -> None:
        self._write(lambda client: self._create(client, collection))

    def _create(self, client: Any, collection: str) -> None:
        if client.collections.exists(collection):
            return
        client.collections.create(
            collection,
            properties=[
                config.Property(
                    name="item", data_type=config.DataType.INT, index_filterable=True, index_range_filters=True
                ),
                config.Property(name="version", data_type=config.DataType.INT, index_filterable=False),
                config.Property(
                    name="mark", data_type=config.DataType.TEXT, index_filterable=False, index_searchable=False
                ),
                config.Property(name="facts", data_type=config.DataType.INT_ARRAY, index_filterable=True),
                config.Property(
                    name="words",
                    data_type=config.DataType.TEXT,
                    tokenization=config.Tokenization.WHITESPACE,
                    index_filterable=False,
                    index_searchable=True,
                ),
            ],
            vector_config=config.Configure.Vectors.self_provided(
                vector_index_config=config.Configure.VectorIndex.hnsw(distance_metric=config.VectorDistances.COSINE)
            ),
            inverted_index_config=config.Configure.inverted_index(
                bm25_b=bm25.B, bm25_k1=bm25.K1, stopwords_preset=config.StopwordsPreset.NONE
            ),
            replication_config=config.Configure.replication(
                factor=self._replicas, deletion_strategy=config.ReplicationDeletionStrategy.TIME_BASED_RESOLUTION
            ),
            sharding_config=config.Configure.sharding(desired_count=self._shards),
        )

    def exists(self, collection: str, dimension: int | None) -> bool:
        return self._write(lambda client: client.collections.exists(collection))

    def objects(self, vectors: int) -> int:
        return max(1, vectors)

    def drop(self, collection: str) -> None:
        self._write(lambda client: client.collections.delete(collection))

    def put(self, collection: str, documents: Sequence[protocol.Document], without: Collection[str] = ()) -> set[str]:
        ids: list[UUID] = []
        for part in protocol.parts(documents):
            objects = [each for document in part for each in _objects(document)]
            self._insert(collection, objects)
            ids += [each.uuid for each in objects]
        return self._lacking(without, lambda node: node.count(collection, ids) == len(ids))

    def _lacking(self, without: Collection[str], has_it: Callable[[WeaviateNode], bool]) -> set[str]:
        """The nodes that do not have a write; a quorum may be a moment ahead of the last of them."""
        until = time.monotonic() + _CONFIRM_SECONDS
        return {node.name for node in self.nodes if node.name not in without and not _gets(node, has_it, until)}

    def _insert(self, collection: str, objects: Sequence[Any]) -> None:
        def insert(client: Any) -> None:
            done = _at(client, collection, config.ConsistencyLevel.QUORUM).data.insert_many(objects)
            if done.has_errors:
                raise protocol.unavailable(
                    self.shown, Exception(next(iter(done.errors.values())).message), "Check its nodes"
                )

        self._write(insert)

    def remove(self, collection: str, entries: Sequence[protocol.Entry], without: Collection[str] = ()) -> set[str]:
        uuids, silent = {_uuid(entry) for entry in entries}, set[str]()
        for node in self.nodes if entries else ():
            try:
                uuids |= set() if node.name in without else node.objects(collection, entries)
            except IndexUnavailable:
                silent.add(node.name)
        ids = sorted(uuids)
        for part in pages(ids, _NAMED_OBJECTS):
            self._delete(collection, part)
        return silent | self._lacking({*without, *silent}, lambda node: node.count(collection, ids) == 0)

    def _delete(self, collection: str, ids: Sequence[UUID]) -> None:
        def delete(client: Any) -> None:
            done = _at(client, collection, config.ConsistencyLevel.QUORUM).data.delete_many(where=_ids(ids))
            if done.failed:
                raise IndexUnavailable(f"{self.shown} did not remove everything", "Check its nodes")

        self._write(delete)

    def apply(self, collection: str, applied: protocol.Applied, without: Collection[str] = ()) -> set[str]:
        noted = {"item": 0, "version": applied.change, "mark": applied.mark}
        self._insert(collection, [DataObject(uuid=_uuid(_APPLIED), properties=noted)])
        return self._lacking(without, lambda node: node.applied(collection, _CONFIRM_SECONDS) == applied)

    def close(self) -> None:
        for node in self.nodes:
            node.close()


def _gets(node: WeaviateNode, has_it: Callable[[WeaviateNode], bool], until: float) -> bool:
    try:
        while not has_it(node):
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE_SECONDS)
    except IndexUnavailable:
        return False
    return True


def _at(client: Any, collection: str, level: config.ConsistencyLevel) -> Any:
    return client.collections.use(collection).with_consistency_level(level)


def _objects(document: protocol.Document) -> list[Any]:
    """The object of the first window has the words."""
    head = {"item": document.entry.item, "version": document.entry.version, "facts": list(document.facts)}
    vectors = [np.asarray(vector, np.float32).tolist() for vector in document.vectors] or [None]
    first = {**head, "words": _spelled(document.hashes)}
    return [
        DataObject(uuid=_uuid(document.entry, part), properties=head if part else first, vector=vector)
        for part, vector in enumerate(vectors)
    ]


def _uuid(entry: protocol.Entry, part: int = 0) -> UUID:
    return UUID(int=entry.item << 64 | part << _VERSION_BITS | entry.version)


def _ids(ids: Sequence[UUID]) -> Any:
    return Filter.by_id().contains_any(list(ids))


def _entry(uuid: UUID) -> protocol.Entry:
    return protocol.Entry(uuid.int >> 64, uuid.int & (1 << _VERSION_BITS) - 1)


def _items(answer: Any) -> list[int]:
    return [_entry(each.uuid).item for each in answer.objects]


def _spelled(hashes: Any) -> str:
    """Terms as words of eight letters."""
    letters = hashes.astype(">u4").tobytes().hex().encode().translate(_LETTERS).decode()
    return " ".join(letters[place : place + 8] for place in range(0, len(letters), 8))


def _filter(required: protocol.Required) -> Any:
    groups = [Filter.by_property("facts").contains_any(list(group)) for group in required]
    return Filter.all_of(groups) if groups else None
