"""One write to one namespace of the embedded store, and its export and import: what differs from `storage.sql`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fourfold.embed.windows import rows_of, spans_of
from fourfold.storage.sql import graph, linking
from fourfold.storage.sql.items import ItemTable
from fourfold.storage.sql.linking import PER_LOOKUP, Linker, LinkRows
from fourfold.storage.sql.namespaces import Namespace
from fourfold.storage.sql.rows import Row
from fourfold.storage.sql.transaction import SqlTransaction
from fourfold.storage.sqlite.database import Connection, Database, unchecked
from fourfold.storage.sqlite.namespaces import (
    SPAN_BYTES,
    SourceRows,
    create_namespace,
    find_namespace,
    packed,
    read_namespace,
    store_namespace,
    stored_vectors,
)

if TYPE_CHECKING:
    from fourfold.embed.windows import Windows
    from fourfold.model import Vector


_MANY_ITEMS = 100
"""New items from which on foreign keys and triggers cost more than compiling statements again without them."""


class SqliteItems(ItemTable[Connection, Namespace]):
    def stored_vectors(self, items: Sequence[int]) -> Mapping[int, Vector | Windows]:
        return stored_vectors(self.db, self.ns.dimension, items)

    def insert_vectors(self, vectors: Sequence[tuple[int, Vector | Windows]]) -> None:
        rows = [(item, rows_of(vector), spans_of(vector)) for item, vector in vectors]
        self.db.run_many(
            "INSERT INTO vectors (item, vector, spans) VALUES (?, ?, ?)",
            [(item, matrix.tobytes(), packed(spans)) for item, matrix, spans in rows],
        )
        self.ns.vectors += len(rows)
        self.ns.windows += sum(max(0, len(spans) - 1) for *_, spans in rows)

    def drop_vectors(self, items: Sequence[int]) -> None:
        db, ns, ids = self.db, self.ns, self.db.ids(items)
        for (size,) in db.rows(f"DELETE FROM vectors WHERE item {db.any_id} RETURNING length(spans)", ids):  # noqa: S608  (constants)
            ns.vectors -= 1
            ns.windows -= 0 if size is None else size // SPAN_BYTES - 1
        db.run(f"DELETE FROM waiting WHERE ns = ? AND item {db.any_id}", ns.id, ids)  # noqa: S608  (constants)

    def _insert(self, fresh: Sequence[Row]) -> None:
        if len(fresh) < _MANY_ITEMS:
            super()._insert(fresh)
        else:
            with unchecked(self.db):
                super()._insert(fresh)
                self._count_for_triggers(fresh)

    def _count_for_triggers(self, fresh: Sequence[Row]) -> None:
        """What the triggers of new rows count."""
        uses = Counter(tag for row in fresh for tag in row.tags)
        counts = [(count, self.ns.id, tag) for tag, count in uses.items()]
        self.db.run_many("UPDATE tags SET uses = uses + ? WHERE ns = ? AND folded = ?", counts)
        superseded = sum(row.superseded_at is not None for row in fresh)
        expiring = sum(row.details.get("expires_at") is not None for row in fresh)
        if superseded or expiring:
            sql = "UPDATE namespaces SET superseded = superseded + ?, expiring = expiring + ? WHERE id = ?"
            self.db.run(sql, superseded, expiring, self.ns.id)

    def _insert_tags(self, rows: Sequence[Row]) -> None:
        folded = sorted({tag for row in rows for tag in row.tags})
        if not folded:
            return
        db = self.db
        db.run_many("INSERT OR IGNORE INTO tags (ns, folded) VALUES (?, ?)", [(self.ns.id, tag) for tag in folded])
        sql = f"SELECT folded, id FROM tags WHERE ns = ? AND folded {db.any_text}"  # noqa: S608  (constants)
        ids = dict(db.rows(sql, self.ns.id, db.texts(folded)))
        tagged = [(ids[tag], row.id, name) for row in rows for tag, name in row.tags.items()]
        db.run_many("INSERT INTO item_tags VALUES (?, ?, ?)", tagged)


Lookup = Callable[[int, str], Sequence[int] | None]
"""Items of a namespace that may contain a name; None if that is unknown now."""


def no_lookup(ns: int, name: str) -> None:
    return None


class SqliteLinkRows(LinkRows):
    def __init__(self, db: Connection, ns: Namespace, lookup: Lookup = no_lookup) -> None:
        super().__init__(db, ns)
        self._lookup = lookup

    def names_beginning(self, words: set[str], pairs: set[str]) -> set[str]:
        names = set(graph.named_nodes(self.db, self.ns.id, words))
        sql = "SELECT folded FROM names WHERE ns = ? AND folded >= ? AND folded < ?"
        for pair in pairs:  # "!" sorts after a space and before any letter
            names.update(self.db.column(sql, self.ns.id, pair, f"{pair}!"))
        return names

    def may_mention(self, name: str) -> Sequence[int] | None:
        return self._lookup(self.ns.id, name)


def catch_up(database: Database, ns: int, lookup: Lookup = no_lookup) -> None:
    """Searches older items for the names of postponed nodes."""

    @contextmanager
    def reading() -> Generator[SqliteLinkRows]:
        with database.read() as db:
            yield SqliteLinkRows(db, read_namespace(db, ns), lookup)

    @contextmanager
    def writing() -> Generator[SqliteLinkRows]:
        with database.write() as db:
            row = read_namespace(db, ns)
            yield SqliteLinkRows(db, row, lookup)
            store_namespace(db, row)

    linking.catch_up(reading, writing, lambda name: lookup(ns, name))


def is_long(db: Connection, ns: int, count: int) -> bool:
    """Whether more items than this have to be read for the names that wait."""
    found = db.value("SELECT count(*) FROM unlinked WHERE ns = ?", ns)
    stored = db.value("SELECT items FROM namespaces WHERE id = ?", ns)
    return stored > count and found * PER_LOOKUP > stored


def is_behind(db: Connection, ns: int) -> bool:
    return db.value("SELECT 1 FROM unlinked WHERE ns = ? LIMIT 1", ns) is not None


MOST_LINKED_ITEMS = 1000
"""After more texts, one transaction leaves it to `publish` to search them for further new names."""


class SqliteTransaction(SqlTransaction[Connection, Namespace]):
    def __init__(
        self, db: Connection, namespace: str, linkers: dict[int, Linker], may_mention: Lookup = no_lookup
    ) -> None:
        super().__init__(db, find_namespace(db, namespace), linkers)
        self._may_mention = may_mention
        self.first_change = SourceRows(db, self.ns.id).last_change
        """The last change before this transaction."""

    def _create(self) -> Namespace:
        return create_namespace(self.db, self.ns.name)

    def store(self) -> None:
        if self.ns.exists:
            store_namespace(self.db, self.ns)

    def _items(self) -> SqliteItems:
        return SqliteItems(self)

    @property
    def link_rows(self) -> SqliteLinkRows:
        return SqliteLinkRows(self.db, self.ns, self._lookup)

    def _lookup(self, ns: int, name: str) -> Sequence[int] | None:
        committed = self._may_mention(ns, name)
        if committed is None or len(self.linked) > MOST_LINKED_ITEMS:
            return None
        return sorted(self.linked.union(committed))
