"""Looking up names for links (fourfold.storage.linking)."""

from __future__ import annotations

from fourfold.index.rows import term_hash
from fourfold.storage.codec import digest
from fourfold.storage.linking import name_terms
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db
from fourfold.storage.sql.dialect import sendable
from fourfold.storage.sql.links import SqlLinkRows


class PostgresLinkRows(SqlLinkRows):
    def __init__(self, db: Db, ns: Namespace) -> None:
        super().__init__(db, ns)
        self._languages = tuple(ns.languages)

    def names_beginning(self, words: set[str], pairs: set[str]) -> list[str]:
        sql = "SELECT folded FROM names WHERE ns = ? AND opening = ANY(?::bytea[])"
        return self._db.column(sql, self._ns.id, [digest(start) for start in words | pairs])

    def may_mention(self, name: str) -> list[int]:
        groups = [sendable(group) for group in name_terms(name, self._languages)]
        keys = [[self._ns.id << 32 | term_hash(term) for term in group] for group in groups]
        if not keys:
            return self._db.column("SELECT id FROM items WHERE ns = ? ORDER BY id", self._ns.id)
        held = " AND ".join(["keys && ?::bigint[]"] * len(keys))
        return self._db.column(f"SELECT item FROM texts WHERE {held} ORDER BY item", *keys)  # noqa: S608  (our own clauses)
