"""The rows that linking reads and writes (fourfold.storage.linking)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fourfold.scheduling import paced
from fourfold.storage import linking
from fourfold.storage.linking import LABEL, PER_LOOKUP, Gone, Linked
from fourfold.storage.sql import graph
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database, batches, marks, rows, value
from fourfold.storage.sqlite.link_source import log_links
from fourfold.text.entities import own_names

Lookup = Callable[[int, str], Sequence[int] | None]
"""Items of a namespace that may contain a name; None if that is unknown now."""


def _no_lookup(ns: int, name: str) -> None:
    return None


class SqliteLinkRows:
    def __init__(self, db: Connection, ns: int, lookup: Lookup = _no_lookup, touched: set[int] | None = None) -> None:
        """`touched` receives the items whose links change."""
        self._db = db
        self._ns = ns
        self._lookup = lookup
        self.touched: set[int] = set() if touched is None else touched

    # ------------------------------------------------------------ names and nodes

    def names_version(self) -> int:
        return value(self._db, "SELECT names FROM namespaces WHERE id = ?", self._ns)

    def raise_names_version(self) -> None:
        self._db.execute("UPDATE namespaces SET names = names + 1 WHERE id = ?", (self._ns,))

    def names(self) -> Iterator[str]:
        return (name for (name,) in self._db.execute("SELECT folded FROM names WHERE ns = ?", (self._ns,)))

    def has_more_names(self, count: int) -> bool:
        sql = "SELECT count(*) FROM (SELECT 1 FROM names WHERE ns = ? LIMIT ?)"
        return value(self._db, sql, self._ns, count + 1) > count

    def names_beginning(self, words: set[str], pairs: set[str]) -> set[str]:
        found = {name for name, _ in self._selected("folded, node FROM names WHERE ns = ? AND folded", words)}
        sql = "SELECT folded FROM names WHERE ns = ? AND folded >= ? AND folded < ?"
        for pair in pairs:  # "!" sorts after a space and before any letter
            found.update(name for (name,) in self._db.execute(sql, (self._ns, pair, f"{pair}!")))
        return found

    def ensure_nodes(self, names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
        nodes, fresh = graph.ensure_nodes(self._db, self._ns, [(name, LABEL) for name in names], made=False)
        return {name: node for (name, _), node in nodes.items()}, fresh

    def nodes_named(self, names: Collection[str]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name, node in set(self._selected("folded, node FROM names WHERE ns = ? AND folded", names)):
            found.setdefault(name, []).append(node)
        return found

    def names_of(self, nodes: Sequence[int]) -> frozenset[str]:
        found = self._selected("folded, node FROM names WHERE ns = ? AND node", nodes)
        return frozenset(name for name, _ in found)

    def owned(self, items: Sequence[int]) -> dict[tuple[int, int], bool]:
        found = self._of_items("SELECT node, item, made FROM node_items", items)
        return {(node, item): bool(made) for node, item, made in found}

    def attach(self, pairs: Sequence[tuple[int, int]]) -> None:
        graph.attach(self._db, [(*pair, False) for pair in pairs])
        self.touched.update(item for _, item in pairs)

    def detach(self, pairs: Sequence[tuple[int, int]]) -> None:
        self._db.delete("node_items", ("node", "item"), pairs)
        self.touched.update(item for _, item in pairs)

    def prune(self, nodes: Collection[int]) -> Gone:
        return graph.prune(self._db, self._ns, nodes)

    # ------------------------------------------------------------ mentions

    def mentions(self, items: Sequence[int]) -> set[tuple[int, int]]:
        return set(self._of_items("SELECT item, node FROM mentions", items))

    def change_mentions(self, removed: Sequence[tuple[int, int]], added: Sequence[tuple[int, int]]) -> None:
        self.touched.update(item for item, _ in (*removed, *added))
        self._db.executemany("DELETE FROM mentions WHERE item = ? AND node = ?", paced(removed))
        self._db.executemany("INSERT INTO mentions VALUES (?, ?)", paced(added))

    def set_pointers(self, names: Mapping[int, set[str]], stored: Sequence[int]) -> None:
        self._db.executemany("DELETE FROM pointers WHERE item = ?", ((item,) for item in stored))
        pairs = ((self._ns, name, item) for item, found in names.items() for name in found if name)
        self._db.executemany("INSERT INTO pointers VALUES (?, ?, ?)", pairs)

    def pointing(self, names: Collection[str]) -> list[int]:
        return sorted({item for (item,) in self._selected("item FROM pointers WHERE ns = ? AND folded", names)})

    # ------------------------------------------------------------ items

    def texts(self, items: Sequence[int]) -> Iterator[Linked]:
        return (Linked(item, text) for item, _, text in _linked_texts(self._db, items))

    def may_mention(self, name: str) -> Sequence[int] | None:
        return self._lookup(self._ns, name)

    def count_items(self) -> int:
        return value(self._db, "SELECT items FROM namespaces WHERE id = ?", self._ns)

    def items_after(self, item: int, limit: int) -> list[int]:
        sql = "SELECT id FROM items WHERE ns = ? AND id > ? ORDER BY id LIMIT ?"
        return [found for (found,) in rows(self._db, sql, self._ns, item, limit)]

    # ------------------------------------------------------------ names that wait

    def postpone(self, names: Sequence[str]) -> None:
        sql = "INSERT OR IGNORE INTO unlinked SELECT ns, node FROM names WHERE ns = ? AND folded = ?"
        self._db.executemany(sql, ((self._ns, name) for name in paced(names)))

    def postponed(self) -> list[int]:
        return [node for (node,) in rows(self._db, "SELECT node FROM unlinked WHERE ns = ?", self._ns)]

    def catch_up_done(self, nodes: Sequence[int]) -> None:
        self._db.executemany("DELETE FROM unlinked WHERE ns = ? AND node = ?", ((self._ns, node) for node in nodes))

    # ------------------------------------------------------------ many keys

    def _selected(self, sql: str, keys: Collection[str] | Collection[int]) -> Iterator[tuple[Any, ...]]:
        for part in batches(list(keys)):
            yield from self._db.execute(f"SELECT {sql} IN ({marks(len(part))})", (self._ns, *part))

    def _of_items(self, sql: str, ids: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        for part in batches(ids):
            yield from self._db.execute(f"{sql} WHERE item IN ({marks(len(part))})", tuple(part))


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
