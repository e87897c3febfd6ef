"""Titles, headings and aliases become nodes, and texts that name them point to them, by themselves (B11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import apsw

from fourfold.stores.sqlite import graph, items
from fourfold.stores.sqlite.database import rows, value
from fourfold.text.entities import NameFinder, normal_name
from fourfold.text.links import headings, links

LABEL = "entity"
_AT_ONCE = 32
"""So many new names are looked for in older items at once; more wait for `catch_up`, which reads all texts once."""
_HEADINGS = 64
_CHUNK = 1000

Lookup = Callable[[str], Sequence[int]]
"""Older items that may mention a name."""


class Linker:
    """Knows the names of one namespace. Used inside write transactions only, so there is one user at a time."""

    def __init__(self, ns: int) -> None:
        self._ns = ns
        self._finder = NameFinder()
        self._version = -1

    def link(self, db: apsw.Connection, changed: Sequence[int], lookup: Lookup) -> None:
        """Nodes for the titles of these items, mentions in their texts, and older items that name the new nodes."""
        self._follow(db)
        fresh, stale = self._own_nodes(db, changed)
        self._renamed(db, fresh, graph.prune(db, stale))
        for item, _, text, _ in items.texts(db, changed):
            self._set_mentions(db, item, text)
        self.announce(db, fresh, lookup)

    def announce(self, db: apsw.Connection, fresh: Sequence[str], lookup: Lookup) -> None:
        """Points older items to nodes that have just got these names."""
        if len(fresh) > _AT_ONCE:
            self._postpone(db, fresh)
            return
        for name in fresh:
            finder = NameFinder([name])
            if finder.find(name.upper()):  # not a name that would be found everywhere
                self._mention(db, finder, lookup(name))

    def renamed(self, db: apsw.Connection, fresh: Iterable[str] = (), gone: Iterable[str] = ()) -> None:
        """Takes note of names that this transaction added or removed."""
        self._follow(db)
        self._renamed(db, fresh, gone)

    # ------------------------------------------------------------ names

    def _follow(self, db: apsw.Connection) -> None:
        """Reads the names again if another process changed them."""
        version = self._stored_version(db)
        if version != self._version:
            self._finder = NameFinder(name for (name,) in rows(db, "SELECT folded FROM names WHERE ns = ?", self._ns))
            self._version = version

    def _renamed(self, db: apsw.Connection, fresh: Iterable[str], gone: Iterable[str]) -> None:
        fresh, gone = list(fresh), list(gone)
        if fresh or gone:
            self._finder.add(fresh)
            self._finder.discard(set(gone) - set(fresh))
            db.execute("UPDATE namespaces SET names = names + 1 WHERE id = ?", (self._ns,))
            self._version = self._stored_version(db)

    def _stored_version(self, db: apsw.Connection) -> int:
        return value(db, "SELECT names FROM namespaces WHERE id = ?", self._ns)

    def forget_cache(self) -> None:
        """After a transaction that was rolled back."""
        self._version = -1

    # ------------------------------------------------------------ nodes and mentions of an item

    def _own_nodes(self, db: apsw.Connection, changed: Sequence[int]) -> tuple[list[str], set[int]]:
        """Gives each item the nodes of its title and headings; returns new names, and nodes that lost an item."""
        fresh: list[str] = []
        stale: set[int] = set()
        for item, title, text, _ in items.texts(db, changed):
            wanted: set[int] = set()
            for name in _names(title, text):
                node, added = graph.ensure_node(db, self._ns, name, LABEL, made=False)
                wanted.add(node)
                fresh.extend(added)
            known = {node for (node,) in rows(db, "SELECT node FROM node_items WHERE item = ? AND NOT made", item)}
            for node in known - wanted:
                db.execute("DELETE FROM node_items WHERE node = ? AND item = ?", (node, item))
            for node in wanted:
                graph.attach(db, node, item, made=False)
            stale |= known - wanted
        return fresh, stale

    def _set_mentions(self, db: apsw.Connection, item: int, text: str) -> None:
        named = {*self._finder.find(text), *map(normal_name, links(text))}
        db.execute("DELETE FROM mentions WHERE item = ?", (item,))
        self._insert(db, item, named)

    def _mention(self, db: apsw.Connection, finder: NameFinder, candidates: Sequence[int]) -> None:
        for item, _, text, _ in items.texts(db, candidates):
            self._insert(db, item, finder.find(text))

    def _insert(self, db: apsw.Connection, item: int, names: Iterable[str]) -> None:
        db.executemany(
            "INSERT OR IGNORE INTO mentions SELECT ?, node FROM names WHERE ns = ? AND folded = ? "
            "AND node NOT IN (SELECT node FROM node_items WHERE item = ?)",
            ((item, self._ns, name, item) for name in names),
        )

    # ------------------------------------------------------------ many names at once

    def _postpone(self, db: apsw.Connection, fresh: Sequence[str]) -> None:
        sql = "INSERT OR IGNORE INTO unlinked SELECT ns, node FROM names WHERE ns = ? AND folded = ?"
        db.executemany(sql, ((self._ns, name) for name in fresh))

    def catch_up(self, db: apsw.Connection) -> None:
        """Looks for all postponed names in all items, reading each text once."""
        sql = "SELECT folded FROM names JOIN unlinked USING (ns, node) WHERE ns = ?"
        finder = NameFinder(name for (name,) in rows(db, sql, self._ns))
        for part in items.chunks(items.all_ids(db, self._ns), _CHUNK):
            self._mention(db, finder, part)
        db.execute("DELETE FROM unlinked WHERE ns = ?", (self._ns,))


def postponed(db: apsw.Connection, ns: int) -> bool:
    return value(db, "SELECT 1 FROM unlinked WHERE ns = ?", ns) is not None


def _names(title: str, text: str) -> list[str]:
    wanted = [title, *headings(text)[:_HEADINGS]]
    return [name for name in wanted if normal_name(name)]
