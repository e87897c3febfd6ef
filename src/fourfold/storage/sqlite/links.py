"""Looking up names for links, and links to names that wait (fourfold.storage.linking)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from fourfold.storage.sql import graph, linking
from fourfold.storage.sql.linking import PER_LOOKUP, LinkRows
from fourfold.storage.sql.namespaces import Namespace
from fourfold.storage.sqlite import namespaces
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database

Lookup = Callable[[int, str], Sequence[int] | None]
"""Items of a namespace that may contain a name; None if that is unknown now."""


def no_lookup(ns: int, name: str) -> None:
    return None


class SqliteLinkRows(LinkRows):
    def __init__(self, db: Connection, ns: Namespace, lookup: Lookup = no_lookup) -> None:
        super().__init__(db, ns)
        self._lookup = lookup

    def names_beginning(self, words: set[str], pairs: set[str]) -> set[str]:
        names = set(graph.named(self.db, self.ns.id, words))
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
            yield SqliteLinkRows(db, namespaces.read(db, ns), lookup)

    @contextmanager
    def writing() -> Generator[SqliteLinkRows]:
        with database.write() as db:
            row = namespaces.read(db, ns)
            yield SqliteLinkRows(db, row, lookup)
            namespaces.store(db, row)

    linking.catch_up(reading, writing, lambda name: lookup(ns, name))


def is_long(db: Connection, ns: int, count: int) -> bool:
    """Whether more items than this have to be read for the names that wait."""
    found = db.value("SELECT count(*) FROM unlinked WHERE ns = ?", ns)
    stored = db.value("SELECT items FROM namespaces WHERE id = ?", ns)
    return stored > count and found * PER_LOOKUP > stored


def is_behind(db: Connection, ns: int) -> bool:
    return db.value("SELECT 1 FROM unlinked WHERE ns = ? LIMIT 1", ns) is not None
