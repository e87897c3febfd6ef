"""The rows that linking reads and writes (fourfold.storage.linking)."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from fourfold.scheduling import paced
from fourfold.storage import linking
from fourfold.storage.linking import PER_LOOKUP, Linked
from fourfold.storage.sql import graph
from fourfold.storage.sql.links import SqlLinkRows
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database, batches, marks, value
from fourfold.storage.sqlite.link_source import log_links
from fourfold.text.entities import own_names

Lookup = Callable[[int, str], Sequence[int] | None]
"""Items of a namespace that may contain a name; None if that is unknown now."""


def _no_lookup(ns: int, name: str) -> None:
    return None


class SqliteLinkRows(SqlLinkRows):
    def __init__(self, db: Connection, ns: int, lookup: Lookup = _no_lookup, touched: set[int] | None = None) -> None:
        super().__init__(db, ns, set() if touched is None else touched)
        self._lookup = lookup

    def names_version(self) -> int:
        return self._db.value("SELECT names FROM namespaces WHERE id = ?", self._ns)

    def raise_names_version(self) -> None:
        self._db.run("UPDATE namespaces SET names = names + 1 WHERE id = ?", self._ns)

    def names_beginning(self, words: set[str], pairs: set[str]) -> set[str]:
        found = set(graph.named(self._db, self._ns, words))
        sql = "SELECT folded FROM names WHERE ns = ? AND folded >= ? AND folded < ?"
        for pair in pairs:  # "!" sorts after a space and before any letter
            found.update(self._db.column(sql, self._ns, pair, f"{pair}!"))
        return found

    def may_mention(self, name: str) -> Sequence[int] | None:
        return self._lookup(self._ns, name)


def changed_items(db: Connection, ids: Iterable[int]) -> Iterator[Linked]:
    """Stored items with their own names."""
    wanted = list(ids)
    names = dict(_known_by(db, wanted))
    return (Linked(item, text, names[item]) for item, _, text in _linked_texts(db, wanted))


def catch_up(database: Database, ns: int, lookup: Lookup = _no_lookup) -> None:
    """Searches older items for the names of postponed nodes."""

    @contextmanager
    def reading() -> Generator[SqliteLinkRows]:
        with database.read() as db:
            yield SqliteLinkRows(db, ns, lookup)

    @contextmanager
    def writing() -> Generator[SqliteLinkRows]:
        with database.write() as db:
            linking_rows = SqliteLinkRows(db, ns, lookup)
            yield linking_rows
            log_links(db, ns, linking_rows.touched, ())

    linking.catch_up(reading, writing, lambda name: lookup(ns, name))


def is_long(db: Connection, ns: int, count: int) -> bool:
    """Whether more items than this have to be read for the names that wait."""
    found = value(db, "SELECT count(*) FROM unlinked WHERE ns = ?", ns)
    stored = value(db, "SELECT items FROM namespaces WHERE id = ?", ns)
    return stored > count and found * PER_LOOKUP > stored


def is_behind(db: Connection, ns: int) -> bool:
    return value(db, "SELECT 1 FROM unlinked WHERE ns = ? LIMIT 1", ns) is not None


def _linked_texts(db: Connection, ids: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """(id, title, text) of the items that exist, as links see them: both empty where links were off."""
    for part in batches(ids):
        sql = (
            "SELECT id, iif(linked, title, ''), iif(linked, text, '') FROM items "  # noqa: S608  (placeholders)
            f"WHERE id IN ({marks(len(part))}) ORDER BY id"
        )
        yield from paced(db.execute(sql, tuple(part)))


def _known_by(db: Connection, ids: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
    """(id, names that the item gives itself) of the items that exist; none where links were off."""
    for part in batches(ids):
        sql = f"SELECT id, linked, title, text, metadata, kind FROM items WHERE id IN ({marks(len(part))}) ORDER BY id"  # noqa: S608  (placeholders)
        for item, linked, title, text, metadata, kind in db.execute(sql, tuple(part)):
            yield item, own_names(title, text, json.loads(metadata), kind) if linked else []
