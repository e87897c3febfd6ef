"""Titles, headings and aliases become nodes, and texts that name them point to them, by themselves (B11)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import apsw

from fourfold.courtesy import paced
from fourfold.stores.sqlite import graph, items
from fourfold.stores.sqlite.bulk import Fresh
from fourfold.stores.sqlite.database import Database, rows, value
from fourfold.stores.sqlite.graph import LABEL, Gone
from fourfold.text.analysis import analyse
from fourfold.text.entities import NameFinder, beginnings, normal_name
from fourfold.text.links import links, own_names

AT_ONCE = 32
"""So many new names are looked for in older items at once; more wait for `catch_up`, which reads all texts once."""
_SOON_READ = 2000
"""So many names are read in a moment."""
_LOOKED_UP = 5000
"""So many words and pairs of words are looked up one by one; for more, all names are read."""
_CHUNK = 1000
_PER_LOOKUP = 8
"""A name is looked up in an index in the time in which so many texts are read."""

Lookup = Callable[[str], Sequence[int] | None]
"""Older items that may mention a name; None if that cannot be said now."""


class Linker:
    """Knows the names of one namespace. Used inside write transactions only, so there is one user at a time.

    What an item mentions is a function of its text, of all names and of the item's own nodes, whatever came first.
    """

    def __init__(self, ns: int) -> None:
        self._ns = ns
        self._finder = NameFinder()
        self._version = -1

    def link(self, db: apsw.Connection, changed: Sequence[int], new: Sequence[Fresh], lookup: Lookup) -> None:
        """Nodes for the titles of these items, mentions in their texts, and older items that name the new nodes."""
        fresh, stale = self._own_nodes(db, changed)
        owners = [(item, own_names(given.title, given.text, given.metadata, given.kind)) for item, given in paced(new)]
        own, also = graph.own_nodes(db, self._ns, LABEL, owners)
        fresh += also
        self.renamed(db, fresh, graph.prune(db, self._ns, stale))
        for item, _, text in items.linked_texts(db, changed):
            point(db, self._ns, item, text)
        self.set_mentions(db, changed)
        self._add_mentions(db, new, own)
        self.announce(db, fresh, lookup)

    def announce(self, db: apsw.Connection, fresh: Sequence[str], lookup: Lookup) -> None:
        """Points older items to nodes that have just got these names."""
        if len(fresh) > AT_ONCE:
            self._postpone(db, fresh)
            return
        self.set_mentions(db, _pointing(db, self._ns, fresh))
        for name in fresh:
            finder = NameFinder([name])
            if finder.find(name.upper()):  # not a name that would be found everywhere
                older = lookup(name)
                if older is None:
                    self._postpone(db, [name])
                else:
                    self.set_mentions(db, _holding(db, finder, older))

    def renamed(self, db: apsw.Connection, fresh: Iterable[str] = (), gone: Gone | None = None) -> None:
        """Takes note of names that this transaction added or removed."""
        fresh, names = set(fresh), set(gone.names if gone is not None else ())
        if fresh or names:
            current = self._version == self._stored_version(db)
            db.execute("UPDATE namespaces SET names = names + 1 WHERE id = ?", (self._ns,))
            if current:
                self._finder.add(fresh)
                self._finder.discard(names - fresh)
                self._version += 1
        self.set_mentions(db, gone.fans if gone is not None else ())

    # ------------------------------------------------------------ names

    def _finder_for(self, db: apsw.Connection, texts: Sequence[str]) -> NameFinder:
        """One with all names, if they are at hand or soon read; otherwise with those that these texts could mention."""
        version = self._stored_version(db)
        if version == self._version:
            return self._finder
        if len(texts) <= AT_ONCE and _has_more_names(db, self._ns, _SOON_READ):
            words, pairs = beginnings(texts)
            if len(words) + len(pairs) <= _LOOKED_UP:
                return NameFinder(_names_beginning(db, self._ns, words, pairs))
        known = db.execute("SELECT folded FROM names WHERE ns = ?", (self._ns,))
        self._finder = NameFinder(name for (name,) in paced(known))
        self._version = version
        return self._finder

    def _stored_version(self, db: apsw.Connection) -> int:
        return value(db, "SELECT names FROM namespaces WHERE id = ?", self._ns)

    # ------------------------------------------------------------ nodes and mentions of an item

    def _own_nodes(self, db: apsw.Connection, changed: Sequence[int]) -> tuple[list[str], set[int]]:
        """Gives each item the nodes of its own names; returns new names, and nodes that lost an item."""
        fresh: list[str] = []
        stale: set[int] = set()
        for item, names in items.known_by(db, changed):
            wanted: set[int] = set()
            for name in names:
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

    def _add_mentions(self, db: apsw.Connection, new: Sequence[Fresh], own: Mapping[int, set[int]]) -> None:
        """What new items point to and mention; `own` are the nodes that they are themselves."""
        finder = self._finder_for(db, [given.text for _, given in new])
        pointed = {item: set(map(normal_name, links(given.text))) for item, given in paced(new)}
        named = {item: pointed[item].union(finder.find(given.text)) for item, given in paced(new)}
        _point(db, self._ns, pointed)
        nodes = _nodes_named(db, self._ns, {name for names in named.values() for name in names})
        for item, names in paced(named.items()):
            meant = {node for name in names for node in nodes.get(name, ())} if names else set[int]()
            db.executemany(
                "INSERT INTO mentions VALUES (?, ?)", ((item, node) for node in meant - own.get(item, set()))
            )

    def set_mentions(self, db: apsw.Connection, changed: Sequence[int]) -> None:
        """Reads these items again; writes only what is different."""
        for part in items.chunks(changed):
            texts = {item: text for item, _, text in items.linked_texts(db, part)}
            finder = self._finder_for(db, list(texts.values()))
            named = {item: {*finder.find(text), *map(normal_name, links(text))} for item, text in texts.items()}
            nodes = _nodes_named(db, self._ns, {name for names in named.values() for name in names})
            own, known = (_pairs(db, sql, list(texts)) for sql in (_OWN, _MENTIONED))
            wanted = {(item, node) for item in named for name in named[item] for node in nodes.get(name, ())} - own
            db.executemany("DELETE FROM mentions WHERE item = ? AND node = ?", known - wanted)
            db.executemany("INSERT INTO mentions VALUES (?, ?)", wanted - known)

    def _postpone(self, db: apsw.Connection, fresh: Sequence[str]) -> None:
        sql = "INSERT OR IGNORE INTO unlinked SELECT ns, node FROM names WHERE ns = ? AND folded = ?"
        db.executemany(sql, ((self._ns, name) for name in paced(fresh)))


# ---------------------------------------------------------------- many names at once


def catch_up(database: Database, ns: int, lookup: Lookup | None = None) -> None:
    """Looks for the names of postponed nodes in older items: in those that `lookup` gives, or in all.

    In pieces, since others want to write meanwhile. What is stored between two of them is linked as it is stored.
    """
    with database.read() as db:
        nodes = postponed(db, ns)
        names = _names_of(db, nodes)
        last = value(db, "SELECT max(id) FROM items WHERE ns = ?", ns) or 0
        few = len(names) * _PER_LOOKUP <= value(db, "SELECT items FROM namespaces WHERE id = ?", ns)
    some = _candidates(names, lookup) if few and lookup is not None else None
    finder, linker = NameFinder(names), Linker(ns)
    for piece in _pieces(database, ns, last) if some is None else items.chunks(some, _CHUNK):
        with database.read() as db:
            held = _holding(db, finder, piece)
        if held:
            with database.write() as db:
                linker.set_mentions(db, held)
    with database.write() as db:
        linker.set_mentions(db, _pointing(db, ns, names))
        db.executemany("DELETE FROM unlinked WHERE ns = ? AND node = ?", ((ns, node) for node in nodes))


def is_long(db: apsw.Connection, ns: int, count: int) -> bool:
    """Whether more items than so many have to be read for the names that wait."""
    found = value(db, "SELECT count(*) FROM unlinked WHERE ns = ?", ns)
    stored = value(db, "SELECT items FROM namespaces WHERE id = ?", ns)
    return stored > count and found * _PER_LOOKUP > stored


def _pieces(database: Database, ns: int, last: int) -> Iterator[list[int]]:
    """The ids of all items up to that one."""
    sql, after = "SELECT id FROM items WHERE ns = ? AND id > ? AND id <= ? ORDER BY id LIMIT ?", 0
    while True:
        with database.read() as db:
            ids = [item for (item,) in rows(db, sql, ns, after, last, _CHUNK)]
        if not ids:
            return
        yield ids
        after = ids[-1]


def _candidates(names: Collection[str], lookup: Lookup) -> list[int] | None:
    """Items that may hold one of these names; None if that cannot be said now."""
    found: set[int] = set()
    for name in paced(names):
        if NameFinder([name]).find(name.upper()):  # not a name that would be found everywhere
            older = lookup(name)
            if older is None:
                return None
            found.update(older)
    return sorted(found)


def _has_more_names(db: apsw.Connection, ns: int, count: int) -> bool:
    return value(db, "SELECT count(*) FROM (SELECT 1 FROM names WHERE ns = ? LIMIT ?)", ns, count + 1) > count


def _names_beginning(db: apsw.Connection, ns: int, words: set[str], pairs: set[str]) -> set[str]:
    """Names that are one of these words, or begin with one of these pairs."""
    found: set[str] = set()
    for part in items.batches(sorted(words)):
        sql = f"SELECT folded FROM names WHERE ns = ? AND folded IN ({items.marks(len(part))})"  # noqa: S608  (placeholders)
        found.update(name for (name,) in db.execute(sql, (ns, *part)))
    sql = "SELECT folded FROM names WHERE ns = ? AND folded >= ? AND folded < ?"
    for pair in pairs:
        found.update(name for (name,) in db.execute(sql, (ns, pair, f"{pair}!")))  # what follows a space, and no letter
    return found


def _names_of(db: apsw.Connection, nodes: Sequence[int]) -> frozenset[str]:
    found: set[str] = set()
    for part in items.batches(nodes):
        found.update(
            name
            for (name,) in rows(db, f"SELECT folded FROM names WHERE node IN ({items.marks(len(part))})", *part)  # noqa: S608  (placeholders)
        )
    return frozenset(found)


def is_behind(db: apsw.Connection, ns: int) -> bool:
    return value(db, "SELECT 1 FROM unlinked WHERE ns = ? LIMIT 1", ns) is not None


def postponed(db: apsw.Connection, ns: int) -> list[int]:
    """Nodes whose names have not been looked for in older items."""
    return [node for (node,) in rows(db, "SELECT node FROM unlinked WHERE ns = ?", ns)]


def point(db: apsw.Connection, ns: int, item: int, text: str) -> None:
    """Notes what the links of a text name, for the day when something has that name."""
    db.execute("DELETE FROM pointers WHERE item = ?", (item,))
    _point(db, ns, {item: {normal_name(name) for name in links(text)}})


def _point(db: apsw.Connection, ns: int, pointed: Mapping[int, set[str]]) -> None:
    pairs = ((ns, name, item) for item, names in pointed.items() for name in names if name)
    db.executemany("INSERT INTO pointers VALUES (?, ?, ?)", pairs)


_OWN = "SELECT item, node FROM node_items WHERE item IN ({})"
_MENTIONED = "SELECT item, node FROM mentions WHERE item IN ({})"


def _pairs(db: apsw.Connection, sql: str, ids: Sequence[int]) -> set[tuple[int, int]]:
    return {pair for part in items.batches(ids) for pair in db.execute(sql.format(items.marks(len(part))), tuple(part))}


def _nodes_named(db: apsw.Connection, ns: int, names: set[str]) -> dict[str, list[int]]:
    """The nodes that have each of these names."""
    found: dict[str, list[int]] = {}
    for part in items.batches(sorted(names)):
        sql = f"SELECT DISTINCT folded, node FROM names WHERE ns = ? AND folded IN ({items.marks(len(part))})"  # noqa: S608  (placeholders)
        for name, node in db.execute(sql, (ns, *part)):
            found.setdefault(name, []).append(node)
    return found


def _pointing(db: apsw.Connection, ns: int, names: Collection[str]) -> list[int]:
    """Items whose links name one of these."""
    found: set[int] = set()
    for part in items.batches(sorted(names)):
        sql = f"SELECT item FROM pointers WHERE ns = ? AND folded IN ({items.marks(len(part))})"  # noqa: S608  (placeholders)
        found.update(item for (item,) in rows(db, sql, ns, *part))
    return sorted(found)


def _holding(db: apsw.Connection, finder: NameFinder, candidates: Sequence[int]) -> list[int]:
    return [item for item, _, text in items.linked_texts(db, candidates) if finder.find(text)]


def name_terms(name: str, languages: Sequence[str]) -> list[set[str]]:
    """For each word of a name the terms that an index may hold for it; words that it may not hold are left out."""
    groups: list[set[str]] = []
    for word in name.split():
        spellings = (word, _contracted(word))
        terms = [analyse(spelling, language) for spelling in spellings for language in languages]
        if len(word) > 1 and all(terms):  # a single letter may be part of a token, and a stop word is no term
            groups.append({*spellings, *(term for found in terms for term in found)})
    return groups


def _contracted(word: str) -> str:
    """How a language without umlauts has them: Müller is mueller as a name, but muller in an English text."""
    return word.replace("ae", "a").replace("oe", "o").replace("ue", "u")
