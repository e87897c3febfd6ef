"""Short calls over a store for tests: each opens the snapshot or the transaction that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from fourfold.model import Filters, Item, ItemPatch, Json, Neighbor, NewItem, Page, RawRecord
from fourfold.ranking.connections import longest_named
from fourfold.retrieval import Link, Ranking, Relation
from fourfold.storage.protocols import Snapshot, Store, Transaction
from fourfold.storage.values import Direction, FileUpdate, NeighborQuery, NewRaw, TagUse

if TYPE_CHECKING:
    from fourfold.model import Vector

TAG_USES = 1000
READS = {
    "get": "rows.get", "find_keys": "rows.find_keys", "list": "rows.list", "ids": "rows.ids", "count": "rows.count",
    "vocabulary": "rows.vocabulary", "chunks": "rows.chunks", "named_chunks": "rows.named_chunks", "files": "files",
    "get_raw": "raw.get", "list_raw": "raw.list", "space": "space", "size": "size", "pending": "pending",
    "cosines": "vectors.cosines", "nearest_parts": "nearest_parts", "match": "words.match",
    "word_scores": "words.scores", "item_links": "graph.item_links", "nodes": "graph.nodes",
    "node_view": "graph.view", "path": "graph.path", "tag_counts": "tags.counts", "shared_tags": "tags.shared",
}  # fmt: skip
"""Calls that take a namespace and read one snapshot of it, by the name of what they read."""
WRITES = {
    "forget": "items.forget", "forget_raw": "raw.forget", "forget_files": "files.forget",
    "set_space": "vectors.set_space", "reset_space": "vectors.reset_space", "reject": "vectors.reject",
    "retry_rejected": "vectors.retry_rejected", "put_vectors": "vectors.put", "add_nodes": "graph.add_nodes",
    "add_edges": "graph.add_edges", "remove_node": "graph.remove_node", "remove_edge": "graph.remove_edge",
}  # fmt: skip
"""Calls that take a namespace and are one transaction."""
WHOLE = {
    "namespaces": "namespaces", "status": "status", "close": "close", "queues": "maintenance.queues",
    "lease": "maintenance.lease", "publish": "maintenance.publish", "check": "maintenance.check",
    "repair": "maintenance.repair", "backup": "maintenance.backup", "export": "portable.export",
    "load": "portable.load", "load_namespace": "portable.load_namespace", "remove": "portable.remove",
}  # fmt: skip
"""Calls of the store."""


class StoreCalls:
    """Every method that names a namespace is one snapshot or one transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        if name in READS:
            return partial(self._read, READS[name])
        if name in WRITES:
            return partial(self._write, WRITES[name])
        if name in WHOLE:
            return attrgetter(WHOLE[name])(self.store)
        raise AttributeError(name)

    def _read(self, path: str, namespace: str, *args: Any, **options: Any) -> Any:
        with self.store.snapshot(namespace) as snapshot:
            value = attrgetter(path)(snapshot)
            return value(*args, **options) if callable(value) else value

    def _write(self, path: str, namespace: str, *args: Any, **options: Any) -> Any:
        with self.store.transaction(namespace) as transaction:
            return attrgetter(path)(transaction)(*args, **options)

    def snapshot(self, namespace: str, **options: float) -> AbstractContextManager[Snapshot]:
        return self.store.snapshot(namespace, **options)

    def transaction(self, namespace: str, **options: bool) -> AbstractContextManager[Transaction]:
        return self.store.transaction(namespace, **options)

    def put(self, namespace: str, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        with self.store.transaction(namespace, names=links) as transaction:
            return transaction.items.put(items, now, links=links)

    def patch(self, namespace: str, item: int, patch: ItemPatch, now: datetime, *, links: bool = True) -> Item:
        with self.store.transaction(namespace, names=links) as transaction:
            return transaction.items.patch(item, patch, now, links=links)

    def put_files(self, namespace: str, files: Sequence[FileUpdate], now: datetime, *, links: bool = True) -> None:
        with self.store.transaction(namespace, names=links) as transaction:
            transaction.files.put(files, now, links=links)

    def add_raw(
        self,
        namespace: str,
        content: str,
        speaker: str | None,
        session_id: str | None,
        metadata: Mapping[str, Json],
        now: datetime,
    ) -> RawRecord:
        with self.store.transaction(namespace) as transaction:
            return transaction.raw.add(NewRaw(content, speaker, session_id, metadata, now))

    def nearest(self, namespace: str, vector: Vector, limit: int, filters: Filters) -> Ranking:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.vectors.begin_nearest(vector, limit, filters)()

    def node_links(self, namespace: str, names: Sequence[str], filters: Filters) -> Sequence[Link]:
        """From the nodes of the longest of these names."""
        with self.store.snapshot(namespace) as snapshot:
            nodes = longest_named(snapshot.graph.named(names), names)
            return snapshot.graph.node_links(sorted(nodes), filters)

    def relations(self, namespace: str, names: Sequence[str]) -> Sequence[Relation]:
        with self.snapshot(namespace) as snapshot:
            return snapshot.graph.relations(sorted(longest_named(snapshot.graph.named(names), names)))

    def tag_uses(
        self, namespace: str, candidates: Sequence[str], filters: Filters, limit: int = TAG_USES
    ) -> Sequence[TagUse]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.tags.uses(candidates, filters, limit)

    def neighbors(
        self,
        namespace: str,
        name: str,
        label: str | None,
        depth: int,
        direction: Direction,
        relation: str | None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Page[Neighbor]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.graph.neighbors(NeighborQuery(name, label, depth, direction, relation, limit, offset))
