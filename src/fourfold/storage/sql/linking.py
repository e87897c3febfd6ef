"""Automatic links: titles, headings and aliases become nodes, and the texts that contain their names mention them.

What an item mentions is a function of its text, of all names and of the item's own nodes, whatever was stored first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from fourfold.model import NewItem
from fourfold.scheduling import paced
from fourfold.storage.sql import graph
from fourfold.storage.sql.dialect import Db, paced_rows, pages
from fourfold.storage.sql.graph import LABEL, NOTHING_GONE, Gone
from fourfold.storage.sql.namespaces import Namespace
from fourfold.text.analysis import analyse
from fourfold.text.entities import NameFinder, beginnings, links, normal_name, own_names

AT_ONCE = 32
"""Up to this many new names are searched for in older items at once; more wait for `publish`, which reads all texts."""
PER_LOOKUP = 8
"""Looking a name up in an index takes as long as reading this many texts."""
_READ_NAMES = 2000
"""Namespaces with up to this many names read all of them."""
_MOST_READ_NAMES = 300_000
"""More names are not read inside of a transaction, which other writers wait for: that takes seconds."""
_PAGE_ITEMS = 1000
_PAGE_TEXTS = 250
_WRITTEN_ITEMS = 250
"""Maximum number of items that one transaction of `catch_up` links."""
_FIRST_WRITTEN_ITEMS = 32
_LONGEST_SECONDS = 0.2
"""After a longer transaction of `catch_up` the next has half as many items: on a busy machine others wait for it."""
_DONE_NODES = 10_000
"""Nodes that one transaction of `catch_up` takes from the list of postponed ones."""


class Linked(NamedTuple):
    """An item as the linker sees it: without text and names if links were off."""

    id: int
    text: str
    names: Sequence[str] = ()
    """The item's own names; read only for items that have just changed."""
    is_new: bool = False
    """Whether nothing is stored about its links yet."""


@dataclass(frozen=True, eq=False)
class LinkRows(ABC):
    """The tables of one namespace. Names are in normal form, except for those that `ensure_nodes` is given."""

    db: Db
    ns: Namespace

    @abstractmethod
    def names_beginning(self, words: set[str], pairs: set[str]) -> Collection[str]:
        """Names that are one of these words, or begin with one of these pairs of words."""

    @abstractmethod
    def may_mention(self, name: str) -> Sequence[int] | None:
        """Items that may contain all words of a name; None if that is unknown now."""

    # ------------------------------------------------------------ names and nodes

    def names(self) -> Iterator[str]:
        return (name for (name,) in self.db.stream("SELECT folded FROM names WHERE ns = ?", self.ns.id))

    def has_more_names(self, count: int) -> bool:
        sql = "SELECT count(*) FROM (SELECT 1 FROM names WHERE ns = ? LIMIT ?) AS some_"
        return self.db.value(sql, self.ns.id, count + 1) > count

    def names_of(self, nodes: Sequence[int]) -> list[str]:
        return self.db.column(f"SELECT folded FROM names WHERE node {self.db.any_id}", self.db.ids(nodes))  # noqa: S608  (constants)

    def owned(self, items: Sequence[int]) -> dict[tuple[int, int], bool]:
        """(node, item) for the nodes of which these items are the texts, and whether a caller attached them."""
        sql = f"SELECT node, item, made FROM node_items WHERE item {self.db.any_id}"  # noqa: S608  (constants)
        rows = self.db.rows(sql, self.db.ids(items)) if items else ()
        return {(node, item): bool(made) for node, item, made in rows}

    def attach(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Makes items the texts of nodes, (node, item); they no longer mention these."""
        graph.attach(self.db, [(*pair, False) for pair in pairs])
        self.ns.relinked.update(item for _, item in pairs)

    def detach(self, pairs: Sequence[tuple[int, int]]) -> None:
        self.db.delete("node_items", ("node", "item"), pairs)
        self.ns.relinked.update(item for _, item in pairs)

    # ------------------------------------------------------------ mentions

    def mentions(self, items: Sequence[int]) -> set[tuple[int, int]]:
        """(item, node)"""
        sql = f"SELECT item, node FROM mentions WHERE item {self.db.any_id}"  # noqa: S608  (constants)
        return {(item, node) for item, node in self.db.rows(sql, self.db.ids(items))}

    def change_mentions(self, removed: Sequence[tuple[int, int]], added: Sequence[tuple[int, int]]) -> None:
        self.ns.relinked.update(item for item, _ in (*removed, *added))
        self.db.run_many("DELETE FROM mentions WHERE item = ? AND node = ?", removed)
        self.db.run_many("INSERT INTO mentions VALUES (?, ?)", added)

    def set_pointers(self, names: Mapping[int, set[str]], stored: Sequence[int]) -> None:
        """Stores the names that the links of items refer to, for the time when a node gets such a name.

        `stored`: those of the items that may have pointers already.
        """
        if stored:
            self.db.run(f"DELETE FROM pointers WHERE item {self.db.any_id}", self.db.ids(stored))  # noqa: S608  (constants)
        key = self.db.name_key
        pairs = {(self.ns.id, key(name), item) for item, pointed in names.items() for name in pointed if name}
        self.db.run_many("INSERT INTO pointers VALUES (?, ?, ?)", sorted(pairs))

    def pointing(self, names: Collection[str]) -> list[int]:
        """Items whose links refer to one of these names."""
        sql = f"SELECT DISTINCT item FROM pointers WHERE ns = ? AND {self.db.any_name} ORDER BY item"  # noqa: S608  (constants)
        return self.db.column(sql, self.ns.id, self.db.names(names))

    # ------------------------------------------------------------ items

    def texts(self, items: Sequence[int]) -> Iterator[Linked]:
        sql = f"SELECT id, CASE WHEN linked THEN text ELSE '' END FROM items WHERE id {self.db.any_id} ORDER BY id"  # noqa: S608  (constants)
        for page in pages(items, _PAGE_TEXTS):
            yield from (Linked(*row) for row in paced_rows(self.db.rows(sql, self.db.ids(page))))

    def items_after(self, item: int, limit: int) -> list[int]:
        """The ids that follow this one."""
        sql = "SELECT id FROM items WHERE ns = ? AND id > ? ORDER BY id LIMIT ?"
        return self.db.column(sql, self.ns.id, item, limit)

    # ------------------------------------------------------------ names that wait

    def postpone(self, names: Sequence[str]) -> None:
        """Postpones the search of older items for these names to `catch_up`."""
        sql = (
            "INSERT INTO unlinked SELECT DISTINCT ns, node FROM names "  # noqa: S608  (constants)
            f"WHERE ns = ? AND {self.db.any_name} ON CONFLICT DO NOTHING"
        )
        self.db.run(sql, self.ns.id, self.db.names(names))

    def postponed(self) -> list[int]:
        """Nodes whose names older items have not been searched for."""
        return self.db.column("SELECT node FROM unlinked WHERE ns = ? ORDER BY node", self.ns.id)

    def catch_up_done(self, nodes: Sequence[int]) -> None:
        self.db.run(f"DELETE FROM unlinked WHERE node {self.db.any_id}", self.db.ids(nodes))  # noqa: S608  (constants)


Opened = Callable[[], AbstractContextManager[LinkRows]]


class Linker:
    """Caches the names of one namespace. Used by one thread at a time: in write transactions, or by `catch_up`."""

    def __init__(self) -> None:
        self._finder = NameFinder()
        self._version = -1
        self._looked_up = 0
        """Words and pairs of words that were looked up since the names were last known."""

    def link(self, rows: LinkRows, changed: Sequence[Linked]) -> None:
        """Updates nodes and mentions of changed items, and points older items to the new nodes."""
        fresh, stale = _own_nodes(rows, changed)
        self.renamed(rows, fresh, graph.prune(rows.db, rows.ns.id, stale))
        self._mention(rows, changed, pointers=True)
        self.announce(rows, fresh)

    def announce(self, rows: LinkRows, fresh: Sequence[str]) -> None:
        """Points older items to nodes that have just got these names."""
        if len(fresh) > AT_ONCE:
            rows.postpone(fresh)
            return
        mentioning = {item.id: item for item in rows.texts(rows.pointing(fresh))} if fresh else {}
        for name in fresh:
            if (finder := selective(name)) is not None:
                older = rows.may_mention(name)
                if older is None:
                    rows.postpone([name])
                else:
                    mentioning |= {item.id: item for item in rows.texts(older) if finder.find(item.text)}
        self._mention(rows, list(mentioning.values()))

    def renamed(self, rows: LinkRows, fresh: Iterable[str] = (), gone: Gone = NOTHING_GONE) -> None:
        """Records names that this transaction added or removed."""
        fresh, names = set(fresh), set(gone.names)
        if fresh or names:
            current = self._version == rows.ns.names
            rows.ns.names += 1
            if current:
                self._finder.add(fresh)
                self._finder.discard(names - fresh)
                self._version = rows.ns.names
        self.mention_again(rows, gone.mentioning)

    def mention_again(self, rows: LinkRows, items: Sequence[int]) -> None:
        """Searches the texts of stored items for names again."""
        for part in pages(items, _PAGE_ITEMS):
            self._mention(rows, list(rows.texts(part)))

    def _mention(self, rows: LinkRows, changed: Sequence[Linked], *, pointers: bool = False) -> None:
        """Writes only differences."""
        for part in pages(changed, _PAGE_ITEMS):
            stored = [item.id for item in part if not item.is_new]
            finder = self._finder_for(rows, [item.text for item in part])
            pointed = {item.id: {normal_name(name) for name in links(item.text)} for item in paced_rows(part)}
            named = {item.id: pointed[item.id].union(finder.find(item.text)) for item in paced_rows(part)}
            if pointers:
                rows.set_pointers(pointed, stored)
            nodes = graph.named_nodes(rows.db, rows.ns.id, {name for names in named.values() for name in names})
            wanted = {(item, node) for item, names in named.items() for name in names for node in nodes.get(name, ())}
            if wanted:
                wanted -= {(item, node) for node, item in rows.owned([item.id for item in part])}
            stored_mentions = rows.mentions(stored) if stored else set[tuple[int, int]]()
            rows.change_mentions(sorted(stored_mentions - wanted), sorted(wanted - stored_mentions))

    def read_names(self, reading: Opened) -> None:
        """Reads all names the first time, and again when looking words up has cost half as much.

        During a load there are new names all the time.
        """
        with reading() as rows:
            version, knows_some = rows.ns.names, self._version >= 0
            if version == self._version or (knows_some and rows.has_more_names(2 * self._looked_up)):
                return
            names = list(rows.names())
        self._know(names, version)  # takes seconds, without a snapshot

    def _know(self, names: Iterable[str], version: int) -> None:
        self._finder, self._version, self._looked_up = NameFinder(paced(names)), version, 0

    def _finder_for(self, rows: LinkRows, texts: Sequence[str]) -> NameFinder:
        """A finder of all names, or of those that the texts could contain if looking these up takes less time."""
        version = rows.ns.names
        if version == self._version:
            return self._finder
        if rows.has_more_names(_READ_NAMES):
            words, pairs = beginnings(texts)
            self._looked_up += len(words) + len(pairs)
            if rows.has_more_names(min(self._looked_up, _MOST_READ_NAMES)):
                return NameFinder(rows.names_beginning(words, pairs))
        self._know(rows.names(), version)
        return self._finder


def _own_nodes(rows: LinkRows, changed: Sequence[Linked]) -> tuple[list[str], set[int]]:
    """Gives each item the nodes of its own names; returns new names, and nodes that lost an item."""
    names = dict.fromkeys((name, LABEL) for item in changed for name in item.names)
    nodes, fresh = graph.ensure_nodes(rows.db, rows.ns.id, list(names), made=False)
    owned = {(nodes[name, LABEL], item.id) for item in changed for name in item.names}
    stored = [item.id for item in changed if not item.is_new]
    stored_owners = rows.owned(stored)
    lost = [pair for pair, made in stored_owners.items() if not made and pair not in owned]
    rows.detach(lost)
    rows.attach(sorted(owned - stored_owners.keys()))
    return fresh, {node for node, _ in lost}


def selective(name: str) -> NameFinder | None:
    """A finder of the name; None if every text could contain it."""
    finder = NameFinder([name])
    return finder if finder.find(name.upper()) else None


# ---------------------------------------------------------------- many names at once


def catch_up(reading: Opened, writing: Opened, may_mention: Callable[[str], Sequence[int] | None]) -> None:
    """Searches older items for the names of postponed nodes: those that an index proposes, or all.

    Other writers wait for each transaction, so these are many and short, and names are read outside of them. A log
    cannot be reset below a snapshot, so these are short, too. What is stored in between is linked as usual.
    """
    with reading() as rows:
        nodes, stored = rows.postponed(), rows.ns.items
    names, pointing = set[str](), set[int]()
    for some in pages(nodes, _PAGE_ITEMS):
        with reading() as rows:
            of_page = rows.names_of(some)
            names.update(of_page)
            pointing.update(rows.pointing(of_page))
    if not nodes:
        return
    few = len(names) * PER_LOOKUP <= stored
    proposed = _proposed(names, may_mention) if few else None
    finder, linker = NameFinder(names), Linker()
    for piece in _all_items(reading) if proposed is None else pages(proposed, _PAGE_ITEMS):
        with reading() as rows:
            texts = list(rows.texts(piece))
        _link_again(linker, [item.id for item in texts if finder.find(item.text)], reading, writing)
    _link_again(linker, sorted(pointing), reading, writing)
    for done in pages(nodes, _DONE_NODES):
        with writing() as rows:
            rows.catch_up_done(done)


def _link_again(linker: Linker, items: Sequence[int], reading: Opened, writing: Opened) -> None:
    done, size = 0, _FIRST_WRITTEN_ITEMS
    while done < len(items):
        linker.read_names(reading)
        with writing() as rows:
            started = monotonic()
            linker.mention_again(rows, items[done : done + size])
            seconds = monotonic() - started
        done += size
        size = max(1, size // 2) if seconds > _LONGEST_SECONDS else min(2 * size, _WRITTEN_ITEMS)


def _proposed(names: Collection[str], may_mention: Callable[[str], Sequence[int] | None]) -> list[int] | None:
    """Items that may contain one of these names; None if that is unknown now."""
    items: set[int] = set()
    for name in paced(names):
        if selective(name) is not None:
            older = may_mention(name)
            if older is None:
                return None
            items.update(older)
    return sorted(items)


def _all_items(reading: Opened) -> Iterator[Sequence[int]]:
    after = 0
    while True:
        with reading() as rows:
            ids = rows.items_after(after, _PAGE_ITEMS)
        if not ids:
            return
        yield ids
        after = ids[-1]


# ---------------------------------------------------------------- names in texts


def bring_names(items: Sequence[NewItem]) -> bool:
    """Whether new items may bring names to look up in older ones at once."""
    if len(items) > AT_ONCE:
        return False
    return any(own_names(item.title, item.text, item.metadata, item.kind) for item in items)


def name_terms(name: str, languages: Sequence[str]) -> list[set[str]]:
    """For each word of a name the terms that an index may hold for it; words that it may not hold are left out.

    A name has umlauts as two letters, a text in a language without umlauts as one.
    """
    groups: list[set[str]] = []
    for word in name.split():
        spellings = {word, word.replace("ae", "a").replace("oe", "o").replace("ue", "u")}  # Müller: mueller and muller
        terms = [analyse(spelling, language) for spelling in spellings for language in languages]
        if len(word) > 1 and all(terms):  # a single letter may be part of a token, and a stop word is not a term
            groups.append({*spellings, *(term for own in terms for term in own)})
    return groups
