"""One write to one namespace: a transaction that has the namespace's row locked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from fourfold.model import Edge, Item, ItemPatch, Json, NewItem, Node, RawRecord, Space
from fourfold.storage import versioning
from fourfold.storage.chunk_matching import renumber
from fourfold.storage.linking import Linked, Linker
from fourfold.storage.postgres import items as item_rows
from fourfold.storage.postgres import namespaces, versions
from fourfold.storage.postgres import vectors as vector_rows
from fourfold.storage.postgres.links import PostgresLinkRows
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.rows import Row
from fourfold.storage.postgres.sql import Db
from fourfold.storage.postgres.stored_items import StoredItems
from fourfold.storage.refusals import no_raw
from fourfold.storage.sql import files as file_rows
from fourfold.storage.sql import graph, queue
from fourfold.storage.sql.dialect import possible
from fourfold.storage.sql.graph_paths import read_nodes
from fourfold.storage.sql.raw import RawRecords
from fourfold.storage.sql.saved_versions import SavedVersions
from fourfold.storage.values import FileUpdate, MadeVectors, NewNode, NewRaw, PendingText, Record
from fourfold.text.entities import own_names


class PostgresTransaction:
    def __init__(self, db: Db, ns: Namespace, linkers: dict[int, Linker]) -> None:
        self.db = db
        self.ns = ns
        self.changed = False
        self._linkers = linkers
        self.items = ItemWriter(self)
        self.files = FileWriter(self)
        self.raw = RawWriter(self)
        self.vectors = VectorWriter(self)
        self.graph = GraphWriter(self)

    def stored(self) -> Namespace:
        """The namespace, created if it does not exist: for a write that stores something."""
        if not self.ns.exists:
            self.ns = namespaces.create(self.db, self.ns.name)
        self.changed = True
        return self.ns

    @property
    def linker(self) -> Linker:
        return self._linkers.setdefault(self.ns.id, Linker())

    @property
    def link_rows(self) -> PostgresLinkRows:
        return PostgresLinkRows(self.db, self.ns)

    def link(self, changed: Sequence[Row]) -> None:
        seen = [_linked(row) for row in changed if row.touched and (row.retold or row.renamed)]
        if seen:
            self.linker.link(self.link_rows, seen)

    @property
    def saved(self) -> SavedVersions:
        return SavedVersions(self.db, self.ns.id)

    def forget(self, ids: Sequence[int]) -> int:
        gone = self.remove(ids) + versioning.forget(self.saved, ids)
        self.changed = self.changed or gone > 0
        return gone

    def remove(self, ids: Sequence[int]) -> int:
        """Removes items, and the superseded versions of those that state facts; versions that are kept aside stay."""
        versions_too = versions.versions_of(self.db, possible(ids))
        owned = graph.owned_nodes(self.db, [*ids, *versions_too])
        gone = item_rows.forget(self.db, self.ns, [*ids, *versions_too]) - len(set(versions_too).difference(ids))
        self.linker.renamed(self.link_rows, gone=graph.prune(self.db, self.ns.id, owned))
        return gone


def _linked(row: Row) -> Linked:
    if not row.linked:
        return Linked(row.id, "", is_new=row.before is None)
    names = own_names(row.title, row.text, row.metadata, row.kind)
    return Linked(row.id, row.text, names, is_new=row.before is None)


class ItemWriter:
    def __init__(self, tx: PostgresTransaction) -> None:
        self._tx = tx

    def put(self, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        if not items:
            return []
        ns = self._tx.stored()
        draft = item_rows.put(self._tx.db, ns, items, now, links=links)
        self._tx.link(draft.rows)
        return [row.as_item(ns.name) for row in draft.named]

    def patch(self, item: int, patch: ItemPatch, now: datetime, *, links: bool = True, keep: bool = True) -> Item:
        row = item_rows.patch(self._tx.db, self._tx.ns, item, patch, now, links=links, kept=keep)
        self._tx.changed = True
        self._tx.link([row])
        return row.as_item(self._tx.ns.name)

    def merge(self, kept: int, others: Sequence[int], now: datetime) -> Item:
        self._tx.changed = True
        return versioning.merge(StoredItems(self._tx), self._tx.saved, kept, others, now)

    def restore(self, versions: Sequence[int], now: datetime) -> list[Item]:
        self._tx.changed = True
        return versioning.restore(StoredItems(self._tx), self._tx.saved, versions, now)

    def rewrite_version(self, id: int, record: Record) -> None:
        self._tx.changed = True
        versioning.rewrite(self._tx.saved, id, record)

    def forget(self, ids: Sequence[int]) -> int:
        return self._tx.forget(ids) if self._tx.ns.exists else 0


class FileWriter:
    def __init__(self, tx: PostgresTransaction) -> None:
        self._tx = tx

    def put(self, files: Sequence[FileUpdate], now: datetime, *, links: bool = True) -> None:
        if not files:
            return
        db, ns = self._tx.db, self._tx.stored()
        gone = [item for file in files for item in renumber(file_rows.Chunks(db, ns.id), file)]
        if gone:
            self._tx.forget(gone)
        self._tx.items.put([chunk for file in files for chunk in file.chunks or ()], now, links=links)
        file_rows.put_states(db, ns.id, [file.state for file in files])

    def forget(self, paths: Sequence[str]) -> int:
        db, ns = self._tx.db, self._tx.ns
        if not ns.exists:
            return 0
        gone = self._tx.forget(file_rows.chunk_ids(db, ns.id, paths))
        file_rows.forget_states(db, ns.id, paths)
        self._tx.changed = True
        return gone


class RawWriter:
    def __init__(self, tx: PostgresTransaction) -> None:
        self._tx = tx

    def add(self, record: NewRaw) -> RawRecord:
        return self._rows(self._tx.stored()).add(record)

    def replace(self, id: int, content: str, metadata: Mapping[str, Json]) -> None:
        self._rows(self._tx.stored()).replace(id, content, metadata)

    def forget(self, ids: Sequence[int], *, force: bool = False) -> int:
        if ids and not self._tx.ns.exists:
            raise no_raw(ids[0])
        self._tx.changed = self._tx.changed or bool(ids)
        return self._rows(self._tx.ns).forget(ids, force=force)

    def _rows(self, ns: Namespace) -> RawRecords:
        return RawRecords(self._tx.db, ns.name, ns.id)


class VectorWriter:
    def __init__(self, tx: PostgresTransaction) -> None:
        self._tx = tx

    def set_space(self, space: Space) -> None:
        if self._tx.ns.space != space:
            namespaces.set_space(self._tx.stored(), space)

    def reset_space(self, space: Space) -> None:
        if self._tx.ns.space != space:
            namespaces.reset_space(self._tx.db, self._tx.stored(), space)

    def renew(self, space: Space, ids: Sequence[int]) -> None:
        vector_rows.renew(self._tx.db, self._tx.stored(), space, ids)

    def put(self, space: Space, vectors: Sequence[MadeVectors]) -> int:
        return vector_rows.put_computed(self._tx.db, self._tx.stored(), space, vectors)

    def reject(self, pending: PendingText, reason: str) -> None:
        queue.reject(self._tx.db, self._tx.ns.id, pending, reason)

    def retry_rejected(self) -> None:
        queue.retry_rejected(self._tx.db, self._tx.ns.id)


class GraphWriter:
    def __init__(self, tx: PostgresTransaction) -> None:
        self._tx = tx

    def add_nodes(self, nodes: Sequence[NewNode]) -> list[Node]:
        if not nodes:
            return []
        db, ns = self._tx.db, self._tx.stored()
        added: list[int] = []
        for new in nodes:
            node, fresh = graph.add_node(db, ns.id, new)
            self._named(fresh)
            added.append(node)
        found = read_nodes(db, added)
        return [found[node] for node in added]

    def add_edges(self, edges: Sequence[Edge]) -> None:
        if edges:
            _, fresh = graph.add_edges(self._tx.db, self._tx.stored().id, edges)
            self._named(fresh)

    def _named(self, fresh: Sequence[str]) -> None:
        """Points older items to nodes that have just got these names."""
        self._tx.linker.renamed(self._tx.link_rows, fresh)
        self._tx.linker.announce(self._tx.link_rows, fresh)

    def remove_node(self, name: str, label: str | None) -> bool:
        db, ns = self._tx.db, self._tx.ns
        node = graph.resolve(db, ns.id, name, label)
        if node is not None:
            self._tx.linker.renamed(self._tx.link_rows, gone=graph.remove_nodes(db, ns.id, [node]))
            self._tx.changed = True
        return node is not None

    def remove_edge(self, source: str, relation: str, target: str) -> bool:
        db, ns = self._tx.db, self._tx.ns
        ends = [graph.resolve(db, ns.id, name) for name in (source, target)]
        removed = ends[0] is not None and ends[1] is not None and graph.remove_edge(db, ends[0], relation, ends[1])
        self._tx.changed = self._tx.changed or removed
        return removed
