"""Writing one namespace: each writer changes a draft, which the store puts in place when the transaction ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from fourfold.errors import SpaceMismatch
from fourfold.model import Edge, Item, ItemPatch, Json, NewItem, Node, RawRecord, Space
from fourfold.storage import versioning
from fourfold.storage.memory import files as file_rows
from fourfold.storage.memory import graph
from fourfold.storage.memory import items as item_rows
from fourfold.storage.memory.saved_versions import SavedVersions
from fourfold.storage.memory.state import Namespace
from fourfold.storage.memory.stored_items import StoredItems
from fourfold.storage.refusals import no_raw
from fourfold.storage.values import FileUpdate, MadeVectors, NewNode, NewRaw, PendingText, Record


class MemoryTransaction:
    def __init__(self, draft: Namespace) -> None:
        self.draft = draft
        self.items = MemoryItemWriter(draft)
        self.files = MemoryFileWriter(draft)
        self.raw = MemoryRawWriter(draft)
        self.vectors = MemoryVectorWriter(draft)
        self.graph = MemoryGraphWriter(draft)


class MemoryItemWriter:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def put(self, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        written = item_rows.put_all(self._ns, items, now, links=links)
        item_rows.settle(self._ns, items)
        graph.link(self._ns, [item for item, changed in written if changed])
        return [self._ns.items[item].item for item, _ in written]

    def patch(self, item: int, patch: ItemPatch, now: datetime, *, links: bool = True, keep: bool = True) -> Item:
        if item_rows.patch(self._ns, item, patch, now, links=links, kept=keep):
            graph.link(self._ns, [item])
        return self._ns.items[item].item

    def merge(self, kept: int, others: Sequence[int], now: datetime) -> Item:
        return versioning.merge(StoredItems(self._ns), SavedVersions(self._ns), kept, others, now)

    def restore(self, versions: Sequence[int], now: datetime) -> list[Item]:
        return versioning.restore(StoredItems(self._ns), SavedVersions(self._ns), versions, now)

    def rewrite_version(self, id: int, record: Record) -> None:
        versioning.rewrite(SavedVersions(self._ns), id, record)

    def forget(self, ids: Sequence[int]) -> int:
        known = sorted(self._ns.items.keys() & ids)
        for item in known:
            if item in self._ns.items:  # not yet gone with the item of which it is a version
                file_rows.forget_state(self._ns, item)
                graph.remove(self._ns, item)
        return len(known) + versioning.forget(SavedVersions(self._ns), ids)


class MemoryFileWriter:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def put(self, files: Sequence[FileUpdate], now: datetime, *, links: bool = True) -> None:
        changed = [item for file in files for item in file_rows.put(self._ns, file, now, links=links)]
        graph.link(self._ns, (item for item in changed if item in self._ns.items))

    def forget(self, paths: Sequence[str]) -> int:
        return sum(file_rows.forget(self._ns, path) for path in paths)


class MemoryRawWriter:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def add(self, record: NewRaw) -> RawRecord:
        id = self._ns.counters.new(self._ns.name, "raw")
        self._ns.raw[id] = stored = RawRecord(id, self._ns.name, **record._asdict())
        return stored

    def replace(self, id: int, content: str, metadata: Mapping[str, Json]) -> None:
        self._ns.raw[id] = replace(self._ns.raw[id], content=content, metadata=metadata)

    def forget(self, ids: Sequence[int], *, force: bool = False) -> int:
        wanted = list(dict.fromkeys(ids))
        for record in wanted:
            if record not in self._ns.raw:
                raise no_raw(record)
        for record in wanted:
            item_rows.forget_raw(self._ns, record, force=force)
        return len(wanted)


class MemoryVectorWriter:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def set_space(self, space: Space) -> None:
        known = self._ns.space
        if known is not None and known != space:
            raise SpaceMismatch(
                f"the vectors here come from {known.fingerprint}, not from {space.fingerprint}",
                "Use that embedder again, or replace all vectors: fourfold reembed",
            )
        self._ns.space = space

    def reset_space(self, space: Space) -> None:
        if self._ns.space != space:
            self._ns.space = space
            self._ns.items = {id: replace(stored, vector=None) for id, stored in self._ns.items.items()}

    def renew(self, space: Space, ids: Sequence[int]) -> None:
        self._ns.space = space
        for id in self._ns.items.keys() & set(ids):
            self._ns.items[id] = replace(self._ns.items[id], vector=None)

    def put(self, space: Space, vectors: Sequence[MadeVectors]) -> int:
        self.set_space(space)
        known = {id: (item.title, item.text) for id, item in item_rows.all_items(self._ns)}
        fitting = [(id, vector) for id, title, text, vector in vectors if known.get(id) == (title, text)]
        for id, vector in fitting:
            self._ns.items[id] = replace(self._ns.items[id], vector=vector)
        return len(fitting)

    def reject(self, pending: PendingText, reason: str) -> None:
        id, title, text = pending
        self._ns.rejected[id] = (title, text)

    def retry_rejected(self) -> None:
        self._ns.rejected.clear()


class MemoryGraphWriter:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def add_nodes(self, nodes: Sequence[NewNode]) -> list[Node]:
        return [self._ns.node(node) for node in [graph.add_node(self._ns, new) for new in nodes]]

    def add_edges(self, edges: Sequence[Edge]) -> None:
        for edge in edges:
            graph.set_edge(self._ns, edge)

    def remove_node(self, name: str, label: str | None) -> bool:
        node = graph.resolve(self._ns, name, label)
        if node is not None:
            graph.remove_node(self._ns, node)
        return node is not None

    def remove_edge(self, source: str, relation: str, target: str) -> bool:
        ends = (graph.resolve(self._ns, source), relation, graph.resolve(self._ns, target))
        known = [edge for edge in self._ns.edges if edge == ends]
        for edge in known:
            del self._ns.edges[edge]
        return bool(known)
