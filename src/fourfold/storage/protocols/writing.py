"""What a write does: one transaction of one namespace, and its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from fourfold.model import Edge, Item, ItemPatch, Json, NewItem, Node, RawRecord, Space
from fourfold.storage.values import FileUpdate, MadeVectors, NewNode, NewRaw, PendingText, Record


class ItemWriter(Protocol):
    def put(self, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        """Stores checked items; returns them as stored, in order. With `links`, titles and mentions become nodes.

        A new value of a fact (`subject` and `attribute`) supersedes the stored one (`storage.values.arranged`).
        InvalidVector if a vector is not in the namespace's space, NotFound for unknown source_ids, InvalidItem if a
        merged item exceeds a limit.
        """
        ...

    def patch(self, item: int, patch: ItemPatch, now: datetime, *, links: bool = True, keep: bool = True) -> Item:
        """Applies a checked patch to the item as it is stored now, so that concurrent patches keep the limits.

        `keep`: the item as it was stays stored as a version; if it states a fact, as a superseded item.
        """
        ...

    def merge(self, kept: int, others: Sequence[int], now: datetime) -> Item:
        """Removes the others, which `restore` brings back; the kept item gets their tags and sources."""
        ...

    def restore(self, versions: Sequence[int], now: datetime) -> list[Item]:
        """Makes versions the present state of their items, and merged items items again; returns these items.

        NotFound names an unknown one. Conflict if another item has the key of a merged one.
        """
        ...

    def rewrite_version(self, id: int, record: Record) -> None:
        """Replaces the record of a version."""
        ...

    def forget(self, ids: Sequence[int]) -> int:
        """Removes items with everything that belongs to them, versions included; returns how many existed.

        An id of a version removes that version.
        """
        ...


class FileWriter(Protocol):
    def put(self, files: Sequence[FileUpdate], now: datetime, *, links: bool = True) -> None:
        """Makes the stored chunks of each path exactly these; a chunk with the same title and text stays that item."""
        ...

    def forget(self, paths: Sequence[str]) -> int:
        """Removes files with their chunks; returns how many chunks. Forgetting a chunk forgets the file's state."""
        ...


class RawWriter(Protocol):
    def add(self, record: NewRaw) -> RawRecord: ...

    def replace(self, id: int, content: str, metadata: Mapping[str, Json]) -> None: ...

    def forget(self, ids: Sequence[int], *, force: bool = False) -> int:
        """Removes raw records, all or none. NotFound names a missing one; `force` also removes sources of items."""
        ...


class VectorWriter(Protocol):
    def set_space(self, space: Space) -> None:
        """Fixes the space of a namespace that has none. SpaceMismatch if it has another one."""
        ...

    def reset_space(self, space: Space) -> None:
        """Drops all vectors of another space, so that every item waits for a new one."""
        ...

    def put(self, space: Space, vectors: Sequence[MadeVectors]) -> int:
        """Stores vectors, all of an item at once; skips items that are gone or whose text has changed."""
        ...

    def reject(self, pending: PendingText, reason: str) -> None:
        """Marks the item as rejected by the embedder until its text changes."""
        ...

    def retry_rejected(self) -> None:
        """Requeues rejected items."""
        ...


class GraphWriter(Protocol):
    def add_nodes(self, nodes: Sequence[NewNode]) -> list[Node]: ...

    def add_edges(self, edges: Sequence[Edge]) -> None:
        """Creates missing nodes; an existing edge gets the new weight."""
        ...

    def remove_node(self, name: str, label: str | None) -> bool: ...

    def remove_edge(self, source: str, relation: str, target: str) -> bool: ...


class RequestWriter(Protocol):
    def find(self, name: bytes) -> tuple[bytes, list[int]] | None:
        """The fingerprint of the request of this name that was carried out in the namespace, and its outcome."""
        ...

    def record(self, name: bytes, fingerprint: bytes, outcome: Sequence[int], now: datetime) -> None:
        """Records that a request is carried out by this transaction; requests that are a day old are forgotten."""
        ...


class Transaction(Protocol):
    """One write to one namespace: committed when its `with` block ends, rolled back if the block raises."""

    @property
    def items(self) -> ItemWriter: ...

    @property
    def files(self) -> FileWriter: ...

    @property
    def raw(self) -> RawWriter: ...

    @property
    def vectors(self) -> VectorWriter: ...

    @property
    def graph(self) -> GraphWriter: ...

    @property
    def requests(self) -> RequestWriter: ...
