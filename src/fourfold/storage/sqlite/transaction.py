"""One write to one namespace: rows, links and the change log in one transaction of the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from fourfold.index.source import Change
from fourfold.model import Edge, Item, ItemPatch, Json, NewItem, Node, RawRecord, Space
from fourfold.scheduling import paced
from fourfold.storage import versioning
from fourfold.storage.chunk_matching import renumber
from fourfold.storage.linking import Linked, Linker
from fourfold.storage.refusals import no_raw
from fourfold.storage.sql import files as file_rows
from fourfold.storage.sql import graph, queue
from fourfold.storage.sql.graph_paths import read_nodes
from fourfold.storage.sql.raw import RawRecords
from fourfold.storage.sql.saved_versions import SavedVersions
from fourfold.storage.sqlite import bulk, changes, items, spaces, versions
from fourfold.storage.sqlite.bulk import Fresh
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import possible
from fourfold.storage.sqlite.link_source import log_links
from fourfold.storage.sqlite.links import Lookup, SqliteLinkRows, changed_items
from fourfold.storage.sqlite.stored_items import StoredItems
from fourfold.storage.values import FileUpdate, MadeVectors, NewNode, NewRaw, PendingText, Record
from fourfold.text.entities import own_names

MOST_LINKED_ITEMS = 1000
"""After more texts, one transaction leaves it to `publish` to search them for further new names."""


class SqliteTransaction:
    """The namespace is created by the first write that stores something: removals leave a missing one missing."""

    def __init__(
        self,
        db: Connection,
        namespace: str,
        linkers: dict[int, Linker],
        may_mention: Lookup,
    ) -> None:
        self.db = db
        self.namespace = namespace
        self._linkers = linkers
        self._may_mention = may_mention
        self._ns = spaces.find(db, namespace)
        self.first_change = 0 if self._ns is None else changes.last_change(db, self._ns)
        """The last change before this transaction."""
        self.items_put = 0
        self.linked_items: set[int] = set()
        """Items whose texts this transaction wrote: the indexes do not know them."""
        self.touched_items: set[int] = set()
        """Items whose links this transaction changed, and that are not in the log for it yet."""
        self.touched_nodes: set[int] = set()
        """The same of nodes whose names or edges it changed."""

    @property
    def known_ns(self) -> int | None:
        """The number of the namespace; None while it does not exist."""
        return self._ns

    @property
    def ns(self) -> int:
        if self._ns is None:
            self._ns = spaces.ensure(self.db, self.namespace)
        return self._ns

    @property
    def linker(self) -> Linker:
        return self._linkers.setdefault(self.ns, Linker())

    @property
    def link_rows(self) -> SqliteLinkRows:
        return SqliteLinkRows(self.db, self.ns, self._lookup, self.touched_items)

    def log_links(self) -> None:
        """Logs which items and nodes have other links than before; called before the commit."""
        if self.touched_items or self.touched_nodes:
            log_links(self.db, self.ns, self.touched_items, self.touched_nodes)
            self.touched_items.clear()
            self.touched_nodes.clear()

    def _lookup(self, ns: int, name: str) -> Sequence[int] | None:
        committed = self._may_mention(ns, name)
        if committed is None or len(self.linked_items) > MOST_LINKED_ITEMS:
            return None
        return sorted(self.linked_items.union(committed))

    @property
    def items(self) -> SqliteItemWriter:
        return SqliteItemWriter(self)

    @property
    def files(self) -> SqliteFileWriter:
        return SqliteFileWriter(self)

    @property
    def raw(self) -> SqliteRawWriter:
        return SqliteRawWriter(self)

    @property
    def vectors(self) -> SqliteVectorWriter:
        return SqliteVectorWriter(self)

    @property
    def graph(self) -> SqliteGraphWriter:
        return SqliteGraphWriter(self)


class SqliteItemWriter:
    def __init__(self, tx: SqliteTransaction) -> None:
        self._tx = tx

    def put(self, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        if not items:
            return []
        tx = self._tx
        return bulk.as_stored(tx.db, tx.namespace, tx.ns, self.write(items, now, links=links), now)

    def write(self, new: Sequence[NewItem], now: datetime, *, links: bool) -> bulk.Put:
        """Stores items without reading them back."""
        tx = self._tx
        done = bulk.put(tx.db, tx.ns, new, now, linked=links)
        facts = dict.fromkeys(items.fact_of(item) for item in new if item.attribute is not None)
        versions.settle(tx.db, tx.ns, [fact for fact in facts if fact is not None])
        changed: dict[int, Change] = {}
        for row in done.written:
            known = changed.get(row.id)
            changed[row.id] = row.change if known is None else known | row.change
        with_text = {change for change in set(changed.values()) if change & Change.TEXT}
        texts = [item for item, change in changed.items() if change in with_text]
        fresh = {new.id for new in done.fresh}
        again = [item for item in texts if item not in fresh]
        self.link(again, links, done.fresh)
        changes.log(tx.db, tx.ns, changed.items())
        tx.touched_items.difference_update(changed)
        tx.items_put += len(new)
        return done

    def link(self, changed: Sequence[int], on: bool, fresh: Sequence[Fresh] = ()) -> None:
        """Makes nodes and mentions of changed and new items follow their texts."""
        items.set_linked(self._tx.db, changed, on)
        linked = list(changed_items(self._tx.db, changed))
        for id, new in paced(fresh) if on else ():
            linked.append(Linked(id, new.text, own_names(new.title, new.text, new.metadata, new.kind), is_new=True))
        linked.sort(key=lambda item: item.id)  # nodes are created in the order of items
        self._tx.linker.link(self._tx.link_rows, linked)
        self._tx.linked_items.update(item.id for item in linked)

    def patch(self, item: int, patch: ItemPatch, now: datetime, *, links: bool = True, keep: bool = True) -> Item:
        tx = self._tx
        change = items.patch(tx.db, tx.namespace, tx.ns, item, patch, now, keep=keep)
        if change & Change.TEXT:
            self.link([item], links)
        changes.log(tx.db, tx.ns, [(item, change)])
        return items.get(tx.db, tx.namespace, tx.ns, [item])[item]

    def rewrite(self, item: int, new: NewItem, now: datetime) -> None:
        """Replaces an item that breaks a rule by one that does not; it is linked as before."""
        tx = self._tx
        change = items.rewrite(tx.db, tx.ns, item, new, now)
        if change & Change.TEXT:
            self.link([item], items.is_linked(tx.db, item))
        changes.log(tx.db, tx.ns, [(item, change)])

    def merge(self, kept: int, others: Sequence[int], now: datetime) -> Item:
        return versioning.merge(StoredItems(self._tx), self._saved, kept, others, now)

    def restore(self, versions: Sequence[int], now: datetime) -> list[Item]:
        return versioning.restore(StoredItems(self._tx), self._saved, versions, now)

    def rewrite_version(self, id: int, record: Record) -> None:
        versioning.rewrite(self._saved, id, record)

    @property
    def _saved(self) -> SavedVersions:
        return SavedVersions(self._tx.db, self._tx.ns)

    def forget(self, ids: Sequence[int]) -> int:
        if self._tx.known_ns is None:
            return 0
        return self.remove(ids) + versioning.forget(self._saved, ids)

    def remove(self, ids: Sequence[int]) -> int:
        """Removes items, and the superseded versions of those that state facts; versions that are kept aside stay."""
        tx = self._tx
        named = list(dict.fromkeys(possible(ids)))
        versions_too = [item for item in versions.versions_of(tx.db, named) if item not in set(named)]
        known = [*named, *versions_too]
        owned = graph.owned_nodes(tx.db, known)
        gone = [item for item in known if items.forget(tx.db, tx.ns, item)]
        lost = graph.prune(tx.db, tx.ns, owned)
        tx.linker.renamed(tx.link_rows, gone=lost)
        changes.log(tx.db, tx.ns, ((item, Change.REMOVED) for item in gone))
        return len(set(gone).difference(versions_too))


class SqliteFileWriter:
    def __init__(self, tx: SqliteTransaction) -> None:
        self._tx = tx

    def put(self, files: Sequence[FileUpdate], now: datetime, *, links: bool = True) -> None:
        tx = self._tx
        if gone := [item for file in files for item in renumber(file_rows.Chunks(tx.db, tx.ns), file)]:
            tx.items.forget(gone)
        tx.items.write([chunk for file in files for chunk in file.chunks or ()], now, links=links)
        file_rows.put_states(tx.db, tx.ns, [file.state for file in files])

    def forget(self, paths: Sequence[str]) -> int:
        tx = self._tx
        if tx.known_ns is None:
            return 0
        gone = tx.items.forget(file_rows.chunk_ids(tx.db, tx.ns, paths))
        file_rows.forget_states(tx.db, tx.ns, paths)
        return gone


class SqliteRawWriter:
    def __init__(self, tx: SqliteTransaction) -> None:
        self._tx = tx

    def add(self, record: NewRaw) -> RawRecord:
        return self._rows.add(record)

    def replace(self, id: int, content: str, metadata: Mapping[str, Json]) -> None:
        self._rows.replace(id, content, metadata)

    def forget(self, ids: Sequence[int], *, force: bool = False) -> int:
        if self._tx.known_ns is None and ids:
            raise no_raw(ids[0])
        return self._rows.forget(ids, force=force) if ids else 0

    @property
    def _rows(self) -> RawRecords:
        return RawRecords(self._tx.db, self._tx.namespace, self._tx.ns)


class SqliteVectorWriter:
    def __init__(self, tx: SqliteTransaction) -> None:
        self._tx = tx

    def set_space(self, space: Space) -> None:
        spaces.set_space(self._tx.db, self._tx.ns, space)

    def reset_space(self, space: Space) -> None:
        spaces.reset_space(self._tx.db, self._tx.ns, space)

    def renew(self, space: Space, ids: Sequence[int]) -> None:
        spaces.renew(self._tx.db, self._tx.ns, space, ids)

    def put(self, space: Space, vectors: Sequence[MadeVectors]) -> int:
        return spaces.put_made(self._tx.db, self._tx.ns, space, vectors)

    def reject(self, pending: PendingText, reason: str) -> None:
        queue.reject(self._tx.db, self._tx.ns, pending, reason)

    def retry_rejected(self) -> None:
        if self._tx.known_ns is not None:
            queue.retry_rejected(self._tx.db, self._tx.ns)


class SqliteGraphWriter:
    def __init__(self, tx: SqliteTransaction) -> None:
        self._tx = tx

    def add_nodes(self, nodes: Sequence[NewNode]) -> list[Node]:
        tx = self._tx
        made: list[int] = []
        for new in nodes:
            node, fresh = graph.add_node(tx.db, tx.ns, new)
            if new.item is not None:
                tx.touched_items.add(new.item)
            self._name(fresh)
            made.append(node)
        tx.touched_nodes.update(made)
        found = read_nodes(tx.db, made)
        return [found[node] for node in made]

    def add_edges(self, edges: Sequence[Edge]) -> None:
        tx = self._tx
        nodes, fresh = graph.add_edges(tx.db, tx.ns, edges)
        self._name(fresh)
        tx.touched_nodes.update(nodes)

    def remove_node(self, name: str, label: str | None) -> bool:
        tx = self._tx
        node = None if tx.known_ns is None else graph.resolve(tx.db, tx.ns, name, label)
        if node is None:
            return False
        sql = "SELECT target FROM edges WHERE source = ? UNION SELECT source FROM edges WHERE target = ?"
        tx.touched_nodes.update([node, *tx.db.column(sql, node, node)])
        tx.linker.renamed(tx.link_rows, gone=graph.remove_nodes(tx.db, tx.ns, [node]))
        return True

    def remove_edge(self, source: str, relation: str, target: str) -> bool:
        tx = self._tx
        if tx.known_ns is None:
            return False
        ends = [graph.resolve(tx.db, tx.ns, name) for name in (source, target)]
        if ends[0] is None or ends[1] is None:
            return False
        removed = graph.remove_edge(tx.db, ends[0], relation, ends[1])
        tx.touched_nodes.update([ends[0], ends[1]])
        return removed

    def _name(self, fresh: Sequence[str]) -> None:
        linker = self._tx.linker
        linker.renamed(self._tx.link_rows, fresh)
        linker.announce(self._tx.link_rows, fresh)
