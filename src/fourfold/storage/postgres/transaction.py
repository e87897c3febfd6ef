"""One write to one namespace, whose row is locked, and export and import: what differs from `storage.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fourfold.index.log_tail import TextRow
from fourfold.index.rows import term_hash
from fourfold.storage.postgres import namespaces
from fourfold.storage.postgres.connection import Connection, copy_rows, facts
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.vectors import stored, vector_rows
from fourfold.storage.postgres.words import Text, write_texts
from fourfold.storage.sql.dialect import digest, sendable
from fourfold.storage.sql.items import ItemTable
from fourfold.storage.sql.linking import LinkRows, name_terms
from fourfold.storage.sql.rows import Row
from fourfold.storage.sql.transaction import SqlTransaction

if TYPE_CHECKING:
    from fourfold.embed.windows import Windows
    from fourfold.model import Vector


class PostgresItems(ItemTable[Connection, Namespace]):
    more_columns: ClassVar[Mapping[str, str]] = {"facts": "?::jsonb"}

    def _more_values(self, row: Row) -> tuple[Any, ...]:
        return (facts(row.metadata),)

    def stored_vectors(self, items: Sequence[int]) -> Mapping[int, Vector | Windows]:
        return stored(self.db, self.ns.dimension, items)

    def insert_vectors(self, vectors: Sequence[tuple[int, Vector | Windows]]) -> None:
        """A row is the vector of an item, or of one of its windows."""
        if not vectors:
            return
        rows = [row for item, vector in vectors for row in vector_rows(item, self.ns.id, vector)]
        copy_rows(self.db, "vectors", rows)
        self.ns.vectors += len(vectors)
        self.ns.windows += len(rows) - len(vectors)
        self.ns.vector_changes += 1

    def drop_vectors(self, items: Sequence[int]) -> None:
        """In one round trip."""
        sql = (
            "WITH gone AS (DELETE FROM vectors WHERE item = ANY(?::bigint[]) RETURNING part), "
            "left_ AS (DELETE FROM waiting WHERE item = ANY(?::bigint[])) "
            "SELECT count(*), count(*) FILTER (WHERE part > 0) FROM gone"
        )
        ((gone, windows),) = self.db.rows(sql, list(items), list(items)) if items else [(0, 0)]
        if gone:
            self.ns.vectors -= gone - windows
            self.ns.windows -= windows
            self.ns.vector_changes += 1

    def _insert_tags(self, rows: Sequence[Row]) -> None:
        tagged = [(row.id, self.ns.id, folded, name) for row in rows for folded, name in row.tags.items()]
        self.db.run_many("INSERT INTO item_tags VALUES (?, ?, ?, ?)", tagged)

    def _index_texts(self, old: Sequence[TextRow], new: Sequence[TextRow]) -> None:
        write_texts(self.db, self.ns, [Text(*row) for row in old], [Text(*row) for row in new])

    def _remove(self, items: Sequence[int]) -> None:
        """Also drops the states of the files of which these items are chunks; SQLite has a trigger for that."""
        chunks = f"SELECT path FROM items WHERE id {self.db.any_id} AND key IS NULL AND path IS NOT NULL"  # noqa: S608  (constants)
        self.db.run(f"DELETE FROM files WHERE ns = ? AND path IN ({chunks})", self.ns.id, self.db.ids(items))  # noqa: S608  (our own clauses)
        super()._remove(items)


class PostgresLinkRows(LinkRows):
    def __init__(self, db: Connection, ns: Namespace) -> None:
        super().__init__(db, ns)
        self._languages = tuple(ns.languages)

    def names_beginning(self, words: set[str], pairs: set[str]) -> list[str]:
        sql = "SELECT folded FROM names WHERE ns = ? AND opening = ANY(?::bytea[])"
        return self.db.column(sql, self.ns.id, [digest(start) for start in words | pairs])

    def may_mention(self, name: str) -> list[int]:
        groups = [sendable(group) for group in name_terms(name, self._languages)]
        keys = [[self.ns.id << 32 | term_hash(term) for term in group] for group in groups]
        if not keys:
            return self.db.column("SELECT id FROM items WHERE ns = ? ORDER BY id", self.ns.id)
        held = " AND ".join(["keys && ?::bigint[]"] * len(keys))
        return self.db.column(f"SELECT item FROM texts WHERE {held} ORDER BY item", *keys)  # noqa: S608  (our own clauses)


class PostgresTransaction(SqlTransaction[Connection, Namespace]):
    def _create(self) -> Namespace:
        return namespaces.create(self.db, self.ns.name)

    def store(self) -> None:
        if self.changed:
            namespaces.store(self.db, self.ns)

    def _items(self) -> PostgresItems:
        return PostgresItems(self)

    @property
    def link_rows(self) -> PostgresLinkRows:
        return PostgresLinkRows(self.db, self.ns)
