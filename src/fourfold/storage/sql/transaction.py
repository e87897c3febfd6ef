"""One write to one namespace: rows, links and versions in one transaction of the database."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic

from fourfold.model import Edge, Item, ItemPatch, Json, NewItem, Node, RawRecord, Space
from fourfold.scheduling import paced
from fourfold.storage.sql import graph
from fourfold.storage.sql.dialect import Db, micros
from fourfold.storage.sql.graph import read_nodes
from fourfold.storage.sql.items import D, ItemTable, N
from fourfold.storage.sql.linking import Linked, Linker, LinkRows
from fourfold.storage.sql.namespaces import reject_text, retry_rejected
from fourfold.storage.sql.origins import RawRecords, chunk_ids, forget_file_states, put_file_states, renumber_chunks
from fourfold.storage.sql.rows import Row, load
from fourfold.storage.sql.versions import SavedVersions, merge, restore
from fourfold.storage.values import FileUpdate, MadeVectors, NewNode, NewRaw, PendingText, Record, no_raw
from fourfold.text.entities import own_names

if TYPE_CHECKING:
    pass


class SqlTransaction(ABC, Generic[D, N]):
    """The namespace is created by the first write that stores something: removals leave a missing one missing."""

    def __init__(self, db: D, ns: N, linkers: dict[int, Linker]) -> None:
        self.db = db
        self.ns = ns
        self.changed = False
        self.items_put = 0
        self._linkers = linkers
        self.items = ItemWriter(self)
        self.files = FileWriter(self)
        self.raw = RawWriter(self)
        self.vectors = VectorWriter(self)
        self.graph = GraphWriter(self)

    @abstractmethod
    def _create(self) -> N: ...

    @abstractmethod
    def store(self) -> None:
        """Writes the row of the namespace at the end of the transaction."""

    @property
    @abstractmethod
    def table(self) -> ItemTable[D, N]: ...

    @property
    @abstractmethod
    def link_rows(self) -> LinkRows: ...

    def stored(self) -> N:
        """The namespace, created if it does not exist: for a write that stores something."""
        if not self.ns.exists:
            self.ns = self._create()
        self.changed = True
        return self.ns

    @property
    def linker(self) -> Linker:
        return self._linkers.setdefault(self.ns.id, Linker())

    @property
    def saved(self) -> SavedVersions:
        return SavedVersions(self.db, self.ns.id)

    @property
    def requests(self) -> CarriedOut:
        return CarriedOut(self.db, self.ns.id if self.ns.exists else None)

    def link(self, rows: Sequence[Row]) -> list[Linked]:
        """Makes nodes and mentions of changed and new items follow their texts."""
        changed = [_linked(row) for row in paced(rows) if row.touched and (row.is_retold or row.is_renamed)]
        changed.sort(key=lambda item: item.id)  # nodes are created in the order of items
        if changed:
            self.linker.link(self.link_rows, changed)
        return changed

    def rewrite(self, item: int, new: NewItem, now: datetime) -> None:
        """Replaces a stored item by this one, whatever its identity; it is linked as before."""
        (row,) = load(self.db, self.ns.id, [item])
        row.replace(new, now, links=row.linked)
        self.table.write([row])
        self.link([row])

    def forget(self, ids: Sequence[int]) -> int:
        gone = self.remove(ids) + self.saved.forget(ids)
        self.changed = self.changed or gone > 0
        return gone

    def remove(self, ids: Sequence[int]) -> int:
        """Removes items, and the superseded versions of those that state facts; versions that are kept aside stay."""
        table = self.table
        versions = table.versions_of(ids)
        owned = graph.owned_nodes(self.db, [*ids, *versions])
        gone = table.forget([*ids, *versions]) - len(set(versions).difference(ids))
        self.linker.renamed(self.link_rows, gone=graph.prune(self.db, self.ns.id, owned))
        return gone


def _linked(row: Row) -> Linked:
    if not row.linked:
        return Linked(row.id, "", is_new=row.before is None)
    names = own_names(row.title, row.text, row.metadata, row.kind)
    return Linked(row.id, row.text, names, is_new=row.before is None)


class ItemWriter:
    def __init__(self, tx: SqlTransaction[Any, Any]) -> None:
        self._tx = tx

    def put(self, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        return [row.as_item(self._tx.ns.name) for row in paced(self.write(items, now, links=links))]

    def write(self, items: Sequence[NewItem], now: datetime, *, links: bool) -> list[Row]:
        """Stores items; returns the row of each."""
        if not items:
            return []
        self._tx.stored()
        rows, named = self._tx.table.put(items, now, links=links)
        self._tx.link(rows)
        self._tx.items_put += len(items)
        return named

    def patch(self, item: int, patch: ItemPatch, now: datetime, *, links: bool = True, keep: bool = True) -> Item:
        row = self._tx.table.patch(item, patch, now, links=links, keep=keep)
        self._tx.changed = True
        self._tx.link([row])
        return row.as_item(self._tx.ns.name)

    def merge(self, kept: int, others: Sequence[int], now: datetime) -> Item:
        self._tx.changed = True
        return merge(self._tx, kept, others, now)

    def restore(self, versions: Sequence[int], now: datetime) -> list[Item]:
        self._tx.changed = True
        return restore(self._tx, versions, now)

    def rewrite_version(self, id: int, record: Record) -> None:
        self._tx.changed = True
        self._tx.saved.rewrite(id, record)

    def forget(self, ids: Sequence[int]) -> int:
        return self._tx.forget(ids) if self._tx.ns.exists else 0


class FileWriter:
    def __init__(self, tx: SqlTransaction[Any, Any]) -> None:
        self._tx = tx

    def put(self, files: Sequence[FileUpdate], now: datetime, *, links: bool = True) -> None:
        if not files:
            return
        db, ns = self._tx.db, self._tx.stored()
        if gone := [item for file in files for item in renumber_chunks(db, ns.id, file)]:
            self._tx.forget(gone)
        self._tx.items.write([chunk for file in files for chunk in file.chunks or ()], now, links=links)
        put_file_states(db, ns.id, [file.state for file in files])

    def forget(self, paths: Sequence[str]) -> int:
        db, ns = self._tx.db, self._tx.ns
        if not ns.exists:
            return 0
        gone = self._tx.forget(chunk_ids(db, ns.id, paths))
        forget_file_states(db, ns.id, paths)
        self._tx.changed = True
        return gone


class RawWriter:
    def __init__(self, tx: SqlTransaction[Any, Any]) -> None:
        self._tx = tx

    def add(self, record: NewRaw) -> RawRecord:
        self._tx.stored()
        return self._rows.add(record)

    def replace(self, id: int, content: str, metadata: Mapping[str, Json]) -> None:
        self._tx.stored()
        self._rows.replace(id, content, metadata)

    def forget(self, ids: Sequence[int], *, force: bool = False) -> int:
        if ids and not self._tx.ns.exists:
            raise no_raw(ids[0])
        self._tx.changed = self._tx.changed or bool(ids)
        return self._rows.forget(ids, force=force)

    @property
    def _rows(self) -> RawRecords:
        return RawRecords(self._tx.db, self._tx.ns.name, self._tx.ns.id)


class VectorWriter:
    def __init__(self, tx: SqlTransaction[Any, Any]) -> None:
        self._tx = tx

    def set_space(self, space: Space) -> None:
        if self._tx.ns.space != space:
            self._tx.stored().fix_space(space)

    def reset_space(self, space: Space) -> None:
        if self._tx.ns.space != space:
            self._tx.stored()
            self._tx.table.reset_space(space)

    def put(self, space: Space, vectors: Sequence[MadeVectors]) -> int:
        self._tx.stored()
        return self._tx.table.put_computed(space, vectors)

    def reject(self, pending: PendingText, reason: str) -> None:
        reject_text(self._tx.db, self._tx.ns.id, pending, reason)

    def retry_rejected(self) -> None:
        retry_rejected(self._tx.db, self._tx.ns.id)


class GraphWriter:
    def __init__(self, tx: SqlTransaction[Any, Any]) -> None:
        self._tx = tx

    def add_nodes(self, nodes: Sequence[NewNode]) -> list[Node]:
        if not nodes:
            return []
        db, ns = self._tx.db, self._tx.stored()
        added: list[int] = []
        for new in nodes:
            node, fresh = graph.add_node(db, ns.id, new)
            if new.item is not None:
                ns.relinked.add(new.item)
            self._named(fresh)
            added.append(node)
        ns.renamed_nodes.update(added)
        known = read_nodes(db, added)
        return [known[node] for node in added]

    def add_edges(self, edges: Sequence[Edge]) -> None:
        if edges:
            ns = self._tx.stored()
            nodes, fresh = graph.add_edges(self._tx.db, ns.id, edges)
            self._named(fresh)
            ns.renamed_nodes.update(nodes)

    def _named(self, fresh: Sequence[str]) -> None:
        """Points older items to nodes that have just got these names."""
        self._tx.linker.renamed(self._tx.link_rows, fresh)
        self._tx.linker.announce(self._tx.link_rows, fresh)

    def remove_node(self, name: str, label: str | None) -> bool:
        db, ns = self._tx.db, self._tx.ns
        node = graph.resolve(db, ns.id, name, label)
        if node is None:
            return False
        sql = "SELECT target FROM edges WHERE source = ? UNION SELECT source FROM edges WHERE target = ?"
        ns.renamed_nodes.update([node, *db.column(sql, node, node)])
        self._tx.linker.renamed(self._tx.link_rows, gone=graph.remove_nodes(db, ns.id, [node]))
        self._tx.changed = True
        return True

    def remove_edge(self, source: str, relation: str, target: str) -> bool:
        db, ns = self._tx.db, self._tx.ns
        start, end = (graph.resolve(db, ns.id, name) for name in (source, target))
        if start is None or end is None or not graph.remove_edge(db, start, relation, end):
            return False
        ns.renamed_nodes.update([start, end])
        self._tx.changed = True
        return True


KEPT: Final = timedelta(days=1)


class CarriedOut:
    """`ns`: None while the namespace does not exist; then nothing was carried out in it."""

    def __init__(self, db: Db, ns: int | None) -> None:
        self._db = db
        self._ns = ns

    def find(self, name: bytes) -> tuple[bytes, list[int]] | None:
        sql = "SELECT fingerprint, outcome FROM requests WHERE ns = ? AND name = ?"
        for fingerprint, outcome in [] if self._ns is None else self._db.rows(sql, self._ns, name):
            return bytes(fingerprint), json.loads(outcome)
        return None

    def record(self, name: bytes, fingerprint: bytes, outcome: Sequence[int], now: datetime) -> None:
        if self._ns is None:
            return
        self._db.run("DELETE FROM requests WHERE ns = ? AND done_at < ?", self._ns, micros(now - KEPT))
        row = (self._ns, name, fingerprint, json.dumps(list(outcome)), micros(now))
        self._db.run("INSERT INTO requests (ns, name, fingerprint, outcome, done_at) VALUES (?, ?, ?, ?, ?)", *row)
