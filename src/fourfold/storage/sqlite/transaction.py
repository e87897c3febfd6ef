"""One write to one namespace of the embedded store."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.storage.sql.linking import Linked, Linker
from fourfold.storage.sql.namespaces import Namespace
from fourfold.storage.sql.rows import Row
from fourfold.storage.sql.transaction import SqlTransaction
from fourfold.storage.sqlite import changes, namespaces
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.items import SqliteItems
from fourfold.storage.sqlite.links import Lookup, SqliteLinkRows, no_lookup

MOST_LINKED_ITEMS = 1000
"""After more texts, one transaction leaves it to `publish` to search them for further new names."""


class SqliteTransaction(SqlTransaction[Connection, Namespace]):
    def __init__(
        self, db: Connection, namespace: str, linkers: dict[int, Linker], may_mention: Lookup = no_lookup
    ) -> None:
        super().__init__(db, namespaces.find(db, namespace), linkers)
        self._may_mention = may_mention
        self.first_change = changes.last_change(db, self.ns.id)
        """The last change before this transaction."""
        self._linked_items: set[int] = set()
        """Items whose texts this transaction wrote: the indexes do not know them."""

    def _create(self) -> Namespace:
        return namespaces.create(self.db, self.ns.name)

    def store(self) -> None:
        if self.ns.exists:
            namespaces.store(self.db, self.ns)

    @property
    def table(self) -> SqliteItems:
        return SqliteItems(self.db, self.ns)

    @property
    def link_rows(self) -> SqliteLinkRows:
        return SqliteLinkRows(self.db, self.ns, self._lookup)

    def link(self, rows: Sequence[Row]) -> list[Linked]:
        linked = super().link(rows)
        self._linked_items.update(item.id for item in linked)
        return linked

    def _lookup(self, ns: int, name: str) -> Sequence[int] | None:
        committed = self._may_mention(ns, name)
        if committed is None or len(self._linked_items) > MOST_LINKED_ITEMS:
            return None
        return sorted(self._linked_items.union(committed))
