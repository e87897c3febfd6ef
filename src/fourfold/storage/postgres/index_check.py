"""Compares a distributed index with the rows, in both directions, and repairs what differs.

An object is missing if a node lacks the last version of an item; stale if it holds another version; resurrected if the
item does not exist. A difference counts only if it remains after a grace time, since the feeder may be working.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from fourfold.errors import IndexUnavailable
from fourfold.storage.engines.adapters import OTHER_NODES_REMEDY, named_otherwise, names_same_nodes
from fourfold.storage.engines.protocol import Engine, Entry
from fourfold.storage.postgres import index_log, namespaces
from fourfold.storage.postgres.database import Database
from fourfold.storage.postgres.index_log import Cursor
from fourfold.storage.postgres.sql import Db

_WINDOW_ITEMS = 2_000
_NAMED_ITEMS = 5
_BEYOND = 1 << 62
_TOLD = {
    "missing": "lacks {} of the items",
    "stale": "has {} outdated versions",
    "resurrected": "has {} deleted items",
    "unlogged": "does not know of {} items",
}


class Drift(NamedTuple):
    node: str
    kind: Literal["missing", "stale", "resurrected", "unlogged"]
    entry: Entry


def problems(database: Database, engine: Engine, grace_seconds: float) -> Iterator[str]:
    """One line for each kind of difference, node and namespace."""
    for ns in database.read(namespaces.everyone):
        if not ns.logged:
            continue
        try:
            found = drift(database, engine, ns.name, grace_seconds)
        except IndexUnavailable as error:
            yield f"namespace {ns.name}: the index cannot be compared ({error.message})"
            continue
        active = ns.generation
        if active is not None and not names_same_nodes(active.engine, engine.shown):
            yield f"namespace {ns.name}: {named_otherwise(active.engine, engine.shown)}. {OTHER_NODES_REMEDY}"
        for (node, kind), count in sorted(Counter((each.node, each.kind) for each in found).items()):
            some = [each.entry.item for each in found if (each.node, each.kind) == (node, kind)][:_NAMED_ITEMS]
            told = _TOLD[kind].format(count)
            yield f"namespace {ns.name}: the index on {node} {told} ({', '.join(map(str, some))})"


def drift(database: Database, engine: Engine, namespace: str, grace_seconds: float) -> list[Drift]:
    """Differences that remain after the grace time."""
    found = {
        each
        for low, high in _windows(database, namespace)
        for each in _compared(database, engine, namespace, low, high)
    }
    if not found:
        return []
    time.sleep(grace_seconds)
    again = {
        each
        for item in {each.entry.item for each in found}
        for each in _compared(database, engine, namespace, item, item + 1)
    }
    return sorted(found & again)


def _windows(database: Database, namespace: str) -> Iterator[tuple[int, int]]:
    """Ranges of ids, from 1 without a gap: an object of an item that does not exist lies in one of them."""
    low = 1
    sql = "SELECT id FROM items WHERE ns = ? AND id >= ? ORDER BY id OFFSET ? LIMIT 1"
    while True:
        ends = database.read(lambda db, low=low: db.column(sql, namespaces.find(db, namespace).id, low, _WINDOW_ITEMS))
        yield low, ends[0] if ends else _BEYOND
        if not ends:
            return
        low = ends[0]


def _compared(database: Database, engine: Engine, namespace: str, low: int, high: int) -> Iterator[Drift]:
    """Compares a range of ids once; concurrent changes of the feeder can look like differences."""
    for node in engine.nodes:
        active = database.read(lambda db: namespaces.find(db, namespace)).generation
        if active is None:
            return
        held = Counter(node.entries(active.collection, low, high))
        cursor, behind, versions, existing, vectors = database.read(lambda db: _listed(db, namespace, low, high))
        cursor = min(cursor, behind.get(node.name, cursor))
        for item in existing - versions.keys():
            yield Drift(node.name, "unlogged", Entry(item, 0))
        for item, known in versions.items():
            last = Entry(item, known[-1])
            if (
                item in existing
                and Cursor(known[-1], item) <= cursor
                and held[last] < engine.objects(vectors.get(item, 0))
            ):
                yield Drift(node.name, "missing", last)
        for entry in held:
            known = versions.get(entry.item, [])
            is_behind = bool(known) and Cursor(known[-1], entry.item) > cursor
            if entry.item not in existing and not is_behind:
                yield Drift(node.name, "resurrected", entry)
            elif entry.item in existing and not _may_hold(entry, known, cursor):
                yield Drift(node.name, "stale", entry)


def _may_hold(entry: Entry, known: Sequence[int], cursor: Cursor) -> bool:
    """The last version, and older ones while the last one was not fed."""
    if not known:
        return True  # reported as unlogged
    return entry.version == known[-1] or (entry.version in known and Cursor(known[-1], entry.item) > cursor)


def _listed(
    db: Db, namespace: str, low: int, high: int
) -> tuple[Cursor, dict[str, Cursor], dict[int, list[int]], set[int], dict[int, int]]:
    """The cursor, those of nodes that are behind, the logged versions, the items that exist, and the number of vectors
    that the index should have of each."""
    ns = namespaces.find(db, namespace)
    cursor, behind = (Cursor(0, 0), {}) if ns.generation is None else (ns.generation.cursor, ns.generation.behind)
    versions: dict[int, list[int]] = {}
    sql = "SELECT item, change FROM index_log WHERE ns = ? AND item >= ? AND item < ? ORDER BY item, change"
    for item, change in db.rows(sql, ns.id, low, high):
        versions.setdefault(item, []).append(change)
    existing = db.column("SELECT id FROM items WHERE ns = ? AND id >= ? AND id < ?", ns.id, low, high)
    sql = "SELECT item, count(*) FROM vectors WHERE ns = ? AND item >= ? AND item < ? GROUP BY item"
    vectors = dict(db.rows(sql, ns.id, low, high)) if _has_vectors(ns) else {}
    return cursor, behind, versions, set(existing), vectors


def _has_vectors(ns: namespaces.Namespace) -> bool:
    return ns.generation is not None and ns.generation.fingerprint == ns.fingerprint


def mend(database: Database, engine: Engine, namespace: str, grace_seconds: float) -> tuple[list[str], set[int]]:
    """Removes surplus objects; returns what was done, and the items that have to be logged again."""
    found = drift(database, engine, namespace, grace_seconds)
    wrong = sorted({each.entry for each in found if each.kind in ("stale", "resurrected")})
    lacking = {each.entry.item for each in found if each.kind in ("missing", "unlogged")}
    active = database.read(lambda db: namespaces.find(db, namespace)).generation
    done: list[str] = []
    if wrong and active is not None:
        engine.remove(active.collection, wrong, active.behind)
        done.append(f"namespace {namespace}: {len(wrong)} objects removed from the index")
    if active is not None and not names_same_nodes(active.engine, engine.shown):
        with database.write() as db:
            index_log.take_over(db, active, engine.shown, [node.name for node in engine.nodes])
        done.append(f"namespace {namespace}: the index belongs to {engine.shown} now")
    if lacking:
        done.append(f"namespace {namespace}: {len(lacking)} items written to the index again")
    return done, lacking


def status(db: Db, ns: namespaces.Namespace) -> dict[str, object]:
    """The progress of the index of a namespace, for `status` and metrics."""
    generations = index_log.every(db, ns.id)
    lag, seconds = (0, 0.0) if ns.generation is None else index_log.lag(db, ns.id, ns.generation.cursor)
    return {
        "collection": None if ns.generation is None else ns.generation.collection,
        "applied_change": None if ns.generation is None else ns.generation.change,
        "lag_changes": lag,
        "lag_seconds": round(seconds, 3),
        "nodes_behind": [] if ns.generation is None else sorted(ns.generation.behind),
        "building": any(each.state in ("filling", "building") for each in generations),
    }
