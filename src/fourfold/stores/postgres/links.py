"""Titles, headings and aliases become nodes, and texts that name them point to them, by themselves (B11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from fourfold.stores.postgres import graph, spaces
from fourfold.stores.postgres.graph import LABEL, Gone
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, digest, rows, run, run_many, sendable, value
from fourfold.stores.sqlite.links import AT_ONCE, name_terms
from fourfold.stores.sqlite.scoring import term_hash
from fourfold.text.entities import NameFinder, beginnings, normal_name
from fourfold.text.links import links

_SOON_READ = 2000
"""So many names are read in a moment."""
_LOOKED_UP = 5000
"""So many words and pairs of words are looked up; for more, all names are read."""
_CHUNK = 1000


class Linked(NamedTuple):
    """An item as links see it: without text and names where links were off."""

    id: int
    text: str
    names: Sequence[str] = ()
    """What it is known by; only of items that have just changed."""


class Linker:
    """Knows the names of one namespace. Used by who has the namespace locked, so there is one user at a time.

    What an item mentions is a function of its text, of all names and of the item's own nodes, whatever came first.
    """

    def __init__(self) -> None:
        self._finder = NameFinder()
        self._version = -1

    async def link(self, db: Db, ns: Namespace, changed: Sequence[Linked]) -> None:
        """Nodes for the titles of these items, mentions in their texts, and older items that name the new nodes."""
        fresh, stale = await _own_nodes(db, ns.id, changed)
        await self.renamed(db, ns, fresh, await graph.prune(db, ns.id, stale))
        await point(db, ns.id, changed)
        await self._set_mentions(db, ns, changed)
        await self.announce(db, ns, fresh)

    async def announce(self, db: Db, ns: Namespace, fresh: Sequence[str]) -> None:
        """Points older items to nodes that have just got these names."""
        if not fresh:
            return
        if len(fresh) > AT_ONCE:
            await _postpone(db, ns.id, fresh)
            return
        found = {item.id: item for item in await _pointing(db, ns.id, fresh)}
        finder = NameFinder(fresh)
        telling = [name for name in fresh if NameFinder([name]).find(name.upper())]  # not found everywhere
        async for batch in _chunks(db, await _may_mention(db, ns, telling)):
            found |= {item.id: item for item in batch if finder.find(item.text)}
        await self._set_mentions(db, ns, list(found.values()))

    async def renamed(self, db: Db, ns: Namespace, fresh: Iterable[str] = (), gone: Gone | None = None) -> None:
        """Takes note of names that this transaction added or removed."""
        fresh, names = set(fresh), set(gone.names if gone is not None else ())
        if fresh or names:
            current = self._version == ns.names
            ns.names += 1
            if current:
                self._finder.add(fresh)
                self._finder.discard(names - fresh)
                self._version = ns.names
        async for batch in _chunks(db, gone.fans if gone is not None else ()):
            await self._set_mentions(db, ns, batch)

    # ------------------------------------------------------------ names

    async def _finder_for(self, db: Db, ns: Namespace, texts: Sequence[str]) -> NameFinder:
        """One with all names, if they are at hand or soon read; otherwise with those that these texts could mention."""
        if ns.names == self._version:
            return self._finder
        if len(texts) <= AT_ONCE and await _has_more_names(db, ns.id, _SOON_READ):
            words, pairs = beginnings(texts)
            if len(words) + len(pairs) <= _LOOKED_UP:
                return NameFinder(await _names_beginning(db, ns.id, words | pairs))
        found = await rows(db, "SELECT folded FROM names WHERE ns = %s", ns.id)
        self._finder, self._version = NameFinder(name for (name,) in found), ns.names
        return self._finder

    # ------------------------------------------------------------ mentions

    async def _set_mentions(self, db: Db, ns: Namespace, changed: Sequence[Linked]) -> None:
        """Reads these items again; writes only what is different."""
        for start in range(0, len(changed), _CHUNK):
            part = changed[start : start + _CHUNK]
            finder = await self._finder_for(db, ns, [item.text for item in part])
            named = {item.id: {*finder.find(item.text), *map(normal_name, links(item.text))} for item in part}
            wanted = await _mentioned(db, ns.id, named)
            sql = "SELECT item, node FROM mentions WHERE item = ANY(%s::bigint[])"
            known = {tuple(row) for row in await rows(db, sql, [item.id for item in part])}
            await run_many(db, "DELETE FROM mentions WHERE item = %s AND node = %s", sorted(known - wanted))
            await run_many(db, "INSERT INTO mentions VALUES (%s, %s)", sorted(wanted - known))

    # ------------------------------------------------------------ many names at once

    async def catch_up(self, db: Db, ns: Namespace, nodes: Sequence[int], after: int) -> int | None:
        """Looks for the names of postponed nodes in some of the items behind that one; where to go on, None at the end.

        In pieces, since others want to write meanwhile. What is stored between two pieces is linked as it is stored.
        """
        names = [
            name for (name,) in await rows(db, "SELECT folded FROM names WHERE node = ANY(%s::bigint[])", list(nodes))
        ]
        sql = f"SELECT {_LINKED} FROM items WHERE ns = %s AND id > %s ORDER BY id LIMIT %s"  # noqa: S608  (constants)
        batch = [Linked(*row) for row in await rows(db, sql, ns.id, after, _CHUNK)]
        finder = NameFinder(names)
        await self._set_mentions(db, ns, [item for item in batch if finder.find(item.text)])
        if batch:
            return batch[-1].id
        await self._set_mentions(db, ns, await _pointing(db, ns.id, names))
        await run(db, "DELETE FROM unlinked WHERE node = ANY(%s::bigint[])", list(nodes))
        return None


_LINKED = "id, CASE WHEN linked THEN text ELSE '' END"


async def _own_nodes(db: Db, ns: int, changed: Sequence[Linked]) -> tuple[list[str], set[int]]:
    """Gives each item the nodes of its own names; returns new names, and nodes that lost an item."""
    names = {item.id: item.names for item in changed}
    wanted = list(dict.fromkeys((name, LABEL) for found in names.values() for name in found))
    nodes, fresh = await graph.ensure_nodes(db, ns, wanted, made=False)
    owned = {(nodes[name, LABEL], item) for item, found in names.items() for name in found}
    sql = "SELECT node, item, made FROM node_items WHERE item = ANY(%s::bigint[])"
    known = {(node, item): made for node, item, made in await rows(db, sql, list(names))}
    lost = [pair for pair, made in known.items() if not made and pair not in owned]
    await graph.detach(db, lost)
    await graph.attach(db, [(*pair, False) for pair in sorted(owned - known.keys())])
    return fresh, {node for node, _ in lost}


async def _mentioned(db: Db, ns: int, named: dict[int, set[str]]) -> set[tuple[int, int]]:
    """(item, node) for the names in these items' texts, but not for their own nodes."""
    digests = {name: digest(name) for names in named.values() for name in names}
    if not digests:
        return set()
    sql = "SELECT digest, node FROM names WHERE ns = %s AND digest = ANY(%s::bytea[])"
    nodes: dict[bytes, list[int]] = {}
    for key, node in await rows(db, sql, ns, list(digests.values())):
        nodes.setdefault(key, []).append(node)
    found = {(item, node) for item, names in named.items() for name in names for node in nodes.get(digests[name], ())}
    sql = "SELECT item, node FROM node_items WHERE item = ANY(%s::bigint[])"
    return found - {tuple(row) for row in await rows(db, sql, list(named))} if found else found


async def _has_more_names(db: Db, ns: int, count: int) -> bool:
    return await value(db, "SELECT count(*) FROM (SELECT 1 FROM names WHERE ns = %s LIMIT %s)", ns, count + 1) > count


async def _names_beginning(db: Db, ns: int, starts: Iterable[str]) -> list[str]:
    sql = "SELECT folded FROM names WHERE ns = %s AND opening = ANY(%s::bytea[])"
    return [name for (name,) in await rows(db, sql, ns, [digest(start) for start in starts])]


async def _postpone(db: Db, ns: int, fresh: Sequence[str]) -> None:
    sql = (
        "INSERT INTO unlinked SELECT DISTINCT ns, node FROM names WHERE ns = %s AND digest = ANY(%s::bytea[]) "
        "ON CONFLICT DO NOTHING"
    )
    await run(db, sql, ns, [digest(name) for name in fresh])


async def postponed(db: Db, ns: Namespace) -> list[int]:
    """Nodes whose names have not been looked for in older items."""
    return [node for (node,) in await rows(db, "SELECT node FROM unlinked WHERE ns = %s ORDER BY node", ns.id)]


async def point(db: Db, ns: int, changed: Sequence[Linked]) -> None:
    """Notes what the links of texts name, for the day when something has that name."""
    if changed:
        await run(db, "DELETE FROM pointers WHERE item = ANY(%s::bigint[])", [item.id for item in changed])
    named = {(ns, digest(name), item.id) for item in changed for name in map(normal_name, links(item.text)) if name}
    await run_many(db, "INSERT INTO pointers VALUES (%s, %s, %s)", sorted(named))


async def _pointing(db: Db, ns: int, names: Sequence[str]) -> list[Linked]:
    sql = (
        f"SELECT DISTINCT {_LINKED} FROM pointers JOIN items ON id = item "  # noqa: S608  (constants)
        "WHERE pointers.ns = %s AND digest = ANY(%s::bytea[])"
    )
    return [Linked(*row) for row in await rows(db, sql, ns, [digest(name) for name in names])]


async def _may_mention(db: Db, ns: Namespace, names: Sequence[str]) -> list[int]:
    """Items that may hold all words of one of the names."""
    languages = tuple(await spaces.languages(db, ns.id)) if names else ()
    found: set[int] = set()
    for name in names:
        groups = [sendable(group) for group in name_terms(name, languages)]
        keys = [[ns.id << 32 | term_hash(term) for term in group] for group in groups]
        if not keys:
            return [item for (item,) in await rows(db, "SELECT id FROM items WHERE ns = %s ORDER BY id", ns.id)]
        held = " AND ".join(["keys && %s::bigint[]"] * len(keys))
        found.update(item for (item,) in await rows(db, f"SELECT item FROM texts WHERE {held}", *keys))  # noqa: S608  (our own clauses)
    return sorted(found)


async def _chunks(db: Db, ids: Sequence[int]) -> AsyncIterator[list[Linked]]:
    sql = f"SELECT {_LINKED} FROM items WHERE id = ANY(%s::bigint[]) ORDER BY id"  # noqa: S608  (constants)
    for start in range(0, len(ids), _CHUNK):
        yield [Linked(*row) for row in await rows(db, sql, list(ids[start : start + _CHUNK]))]
