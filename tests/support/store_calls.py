"""Short calls over a store for tests: each opens the snapshot or the transaction that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fourfold.model import (
    Edge,
    Filters,
    Item,
    ItemPatch,
    Json,
    Neighbor,
    NewItem,
    Node,
    NodeSummary,
    NodeView,
    Page,
    RawRecord,
    Space,
)
from fourfold.ranking.connections import longest_named
from fourfold.retrieval import Link, Part, Ranking, Relation
from fourfold.storage.protocols import Snapshot, Store, Transaction
from fourfold.storage.values import (
    Direction,
    FileRow,
    FileUpdate,
    MadeVectors,
    NeighborQuery,
    NewNode,
    NewRaw,
    PendingText,
    Record,
    Size,
    TagUse,
    Vocabulary,
)

if TYPE_CHECKING:
    from fourfold.model import Vector

TAG_USES = 1000


class StoreCalls:
    """Every method that names a namespace is one snapshot or one transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def snapshot(self, namespace: str, **options: float) -> AbstractContextManager[Snapshot]:
        return self.store.snapshot(namespace, **options)

    def transaction(self, namespace: str, **options: bool) -> AbstractContextManager[Transaction]:
        return self.store.transaction(namespace, **options)

    # ------------------------------------------------------------ items

    def put(self, namespace: str, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        with self.store.transaction(namespace, names=links) as transaction:
            return transaction.items.put(items, now, links=links)

    def patch(self, namespace: str, item: int, patch: ItemPatch, now: datetime, *, links: bool = True) -> Item:
        with self.store.transaction(namespace, names=links) as transaction:
            return transaction.items.patch(item, patch, now, links=links)

    def forget(self, namespace: str, ids: Sequence[int]) -> int:
        with self.store.transaction(namespace) as transaction:
            return transaction.items.forget(ids)

    def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Item]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.rows.get(ids)

    def find_keys(self, namespace: str, keys: Sequence[str]) -> dict[str, int]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.rows.find_keys(keys)

    def list(self, namespace: str, filters: Filters, limit: int, offset: int) -> list[Item]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.rows.list(filters, limit, offset)

    def ids(self, namespace: str, filters: Filters, among: Sequence[int] | None = None) -> Sequence[int]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.rows.ids(filters, among)

    def count(self, namespace: str, filters: Filters) -> int:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.rows.count(filters)

    def vocabulary(self, namespace: str, field: Vocabulary) -> dict[str, int]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.rows.vocabulary(field)

    # ------------------------------------------------------------ raw records

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

    def get_raw(self, namespace: str, ids: Sequence[int]) -> dict[int, RawRecord]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.raw.get(ids)

    def list_raw(
        self, namespace: str, session_id: str | None, speaker: str | None, limit: int, offset: int
    ) -> Page[RawRecord]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.raw.list(session_id, speaker, limit, offset)

    def forget_raw(self, namespace: str, ids: Sequence[int], *, force: bool = False) -> int:
        with self.store.transaction(namespace) as transaction:
            return transaction.raw.forget(ids, force=force)

    # ------------------------------------------------------------ files

    def files(self, namespace: str, prefix: str) -> Mapping[str, FileRow]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.files(prefix)

    def put_files(self, namespace: str, files: Sequence[FileUpdate], now: datetime, *, links: bool = True) -> None:
        with self.store.transaction(namespace, names=links) as transaction:
            transaction.files.put(files, now, links=links)

    def forget_files(self, namespace: str, paths: Sequence[str]) -> int:
        with self.store.transaction(namespace) as transaction:
            return transaction.files.forget(paths)

    def chunks(self, namespace: str, path: str, first: int, last: int) -> Sequence[Item]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.rows.chunks(path, first, last)

    def named_chunks(self, namespace: str, names: Sequence[str], filters: Filters) -> Sequence[tuple[int, str]]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.rows.named_chunks(names, filters)

    # ------------------------------------------------------------ vectors

    def space(self, namespace: str) -> Space | None:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.space

    def set_space(self, namespace: str, space: Space) -> None:
        with self.store.transaction(namespace) as transaction:
            transaction.vectors.set_space(space)

    def reset_space(self, namespace: str, space: Space) -> None:
        with self.store.transaction(namespace) as transaction:
            transaction.vectors.reset_space(space)

    def pending(self, namespace: str, limit: int, among: Sequence[int] | None = None) -> Sequence[PendingText]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.pending(limit, among)

    def reject(self, namespace: str, pending: PendingText, reason: str) -> None:
        with self.store.transaction(namespace) as transaction:
            transaction.vectors.reject(pending, reason)

    def retry_rejected(self, namespace: str) -> None:
        with self.store.transaction(namespace) as transaction:
            transaction.vectors.retry_rejected()

    def put_vectors(self, namespace: str, space: Space, vectors: Sequence[MadeVectors]) -> int:
        with self.store.transaction(namespace) as transaction:
            return transaction.vectors.put(space, vectors)

    # ------------------------------------------------------------ retrieval

    def nearest(self, namespace: str, vector: Vector, limit: int, filters: Filters) -> Ranking:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.vectors.begin_nearest(vector, limit, filters)()

    def cosines(self, namespace: str, vector: Vector, ids: Sequence[int]) -> Ranking:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.vectors.cosines(vector, ids)

    def nearest_parts(self, namespace: str, query: Vector, ids: Sequence[int]) -> Mapping[int, Part]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.nearest_parts(query, ids)

    def match(self, namespace: str, text: str, limit: int, filters: Filters) -> Ranking:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.words.match(text, limit, filters)

    def word_scores(self, namespace: str, text: str, ids: Sequence[int]) -> Ranking:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.words.scores(text, ids)

    def node_links(self, namespace: str, names: Sequence[str], filters: Filters) -> Sequence[Link]:
        """From the nodes of the longest of these names."""
        with self.store.snapshot(namespace) as snapshot:
            nodes = longest_named(snapshot.graph.named(names), names)
            return snapshot.graph.node_links(sorted(nodes), filters)

    def relations(self, namespace: str, names: Sequence[str]) -> Sequence[Relation]:
        with self.snapshot(namespace) as snapshot:
            return snapshot.graph.relations(sorted(longest_named(snapshot.graph.named(names), names)))

    def item_links(self, namespace: str, ids: Sequence[int], filters: Filters) -> Sequence[Link]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.graph.item_links(ids, filters)

    def tag_counts(self, namespace: str) -> Mapping[str, int]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.tags.counts()

    def tag_uses(
        self, namespace: str, candidates: Sequence[str], filters: Filters, limit: int = TAG_USES
    ) -> Sequence[TagUse]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.tags.uses(candidates, filters, limit)

    def shared_tags(self, namespace: str, ids: Sequence[int], filters: Filters) -> Sequence[TagUse]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.tags.shared(ids, filters)

    # ------------------------------------------------------------ graph

    def add_nodes(self, namespace: str, nodes: Sequence[NewNode]) -> Sequence[Node]:
        with self.store.transaction(namespace) as transaction:
            return transaction.graph.add_nodes(nodes)

    def add_edges(self, namespace: str, edges: Sequence[Edge]) -> None:
        with self.store.transaction(namespace) as transaction:
            transaction.graph.add_edges(edges)

    def remove_node(self, namespace: str, name: str, label: str | None) -> bool:
        with self.store.transaction(namespace) as transaction:
            return transaction.graph.remove_node(name, label)

    def remove_edge(self, namespace: str, source: str, relation: str, target: str) -> bool:
        with self.store.transaction(namespace) as transaction:
            return transaction.graph.remove_edge(source, relation, target)

    def nodes(self, namespace: str, like: str, limit: int, offset: int) -> Sequence[NodeSummary]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.graph.nodes(like, limit, offset)

    def node_view(self, namespace: str, name: str, label: str | None, limit: int) -> NodeView:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.graph.view(name, label, limit)

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

    def path(self, namespace: str, start: str, goal: str, max_depth: int) -> Sequence[Edge]:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.graph.path(start, goal, max_depth)

    # ------------------------------------------------------------ the whole store

    def size(self, namespace: str) -> Size:
        with self.store.snapshot(namespace) as snapshot:
            return snapshot.size

    def namespaces(self) -> dict[str, int]:
        return self.store.namespaces()

    def status(self) -> dict[str, Any]:
        return self.store.status()

    def queues(self, replaced: Sequence[str] = ()) -> Sequence[str]:
        return self.store.maintenance.queues(replaced)

    def lease(self, namespace: str | None) -> AbstractContextManager[bool]:
        return self.store.maintenance.lease(namespace)

    def publish(self, namespace: str, *, everything: bool = False) -> bool:
        return self.store.maintenance.publish(namespace, everything=everything)

    def check(self) -> Sequence[str]:
        return self.store.maintenance.check()

    def repair(self, *, purge: bool = False) -> Sequence[str]:
        return self.store.maintenance.repair(purge=purge)

    def backup(self, target: Path) -> None:
        self.store.maintenance.backup(target)

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        self.store.portable.export(write, namespace=namespace)

    def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        self.store.portable.load(records, mark=mark)

    def load_namespace(self, records: Iterable[Record], namespace: str) -> None:
        self.store.portable.load_namespace(records, namespace)

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        self.store.portable.remove(is_copied)

    def close(self) -> None:
        self.store.close()
