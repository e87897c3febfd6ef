"""A row of `namespaces` with its counters and vector space, items that wait for a vector, receipts, checks, repairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from fourfold.index.log_tail import Change
from fourfold.limits import VECTOR_DIMENSIONS
from fourfold.model import Json, Space, Stats, Supply
from fourfold.storage.sql.dialect import Db, micros, moment, possible
from fourfold.storage.sql.records import rule_problems
from fourfold.storage.values import PendingText, Receipt, Record, other_space

COLUMNS = "id, name, items, vectors, windows, names, fingerprint, dimension, superseded, expiring"
"""The first fields of a `Namespace`, in their order."""


@dataclass(slots=True)
class Namespace:
    """A writer counts here, and stores the row at the end of its transaction.

    The id 0 is that of a namespace that does not exist: no row refers to it.
    """

    id: int
    name: str
    items: int = 0
    vectors: int = 0
    windows: int = 0
    """Vectors beyond the first of each item."""
    names: int = 0
    """Changes with every name of a node that comes or goes."""
    fingerprint: str | None = None
    dimension: int | None = None
    superseded: int = 0
    """The number of superseded items, counted by triggers."""
    expiring: int = 0
    touched: dict[int, int] = field(default_factory=dict[int, int], kw_only=True)
    """Items that this transaction has changed or removed, and what changed (`Change`)."""
    relinked: set[int] = field(default_factory=set[int], kw_only=True)
    """Items whose links it has changed."""
    renamed_nodes: set[int] = field(default_factory=set[int], kw_only=True)
    """Nodes whose names or edges it has changed."""
    spoken: Counter[str] = field(default_factory=Counter[str], kw_only=True)
    """The change of the number of items in each language."""

    @property
    def exists(self) -> bool:
        return self.id > 0

    @property
    def space(self) -> Space | None:
        return None if self.fingerprint is None else Space(self.fingerprint, self.dimension or 0)

    @space.setter
    def space(self, space: Space) -> None:
        self.fingerprint, self.dimension = space.fingerprint, space.dimension

    def fix_space(self, wanted: Space) -> None:
        """Gives a namespace without a space this one. SpaceMismatch if it has another one."""
        space = self.space
        if space is None:
            self.space = wanted
        elif space != wanted:
            raise other_space(space, wanted)

    def count_language(self, language: str, items: int) -> None:
        self.spoken[language] += items

    def touch(self, items: Iterable[int], change: Change) -> None:
        for item in items:
            self.touched[item] = self.touched.get(item, 0) | change.value


def store_languages(db: Db, ns: Namespace) -> None:
    db.run_many(
        "INSERT INTO languages VALUES (?, ?, ?) ON CONFLICT (ns, language) "
        "DO UPDATE SET items = languages.items + excluded.items",
        [(ns.id, language, count) for language, count in sorted(ns.spoken.items()) if count],
    )
    ns.spoken.clear()


def namespace_status(db: Db, ns: Namespace, languages: Iterable[str]) -> dict[str, Json]:
    """What `status` reports about a namespace of any store."""

    def counted(rows: str) -> int:
        return db.value(f"SELECT count(*) FROM {rows}", ns.id)  # noqa: S608  (our own clauses)

    return {
        "items": ns.items - ns.superseded,
        "vectors": ns.vectors,
        "windows": ns.windows,
        "pending_vectors": ns.items - ns.vectors,
        "embedding_seconds": _embedding_seconds(db, ns.id),
        "refused_by_embedder": counted("waiting WHERE ns = ? AND refused IS NOT NULL"),
        "languages": list(languages),
        "embedder": ns.fingerprint,
        "dimension": ns.dimension,
        "nodes": counted("nodes WHERE ns = ?"),
        "edges": counted("edges JOIN nodes ON id = source WHERE ns = ?"),
        "mentions": counted("mentions JOIN nodes ON id = node WHERE ns = ?"),
    }


# ---------------------------------------------------------------- the queue of items that wait for a vector


def queues(db: Db, replaced: Sequence[str] = ()) -> list[str]:
    """Namespaces in which items wait for a vector, or whose space has a fingerprint that begins with `replaced`."""
    sql = (
        "SELECT name FROM namespaces WHERE EXISTS "  # noqa: S608  (question marks only)
        "(SELECT 1 FROM waiting WHERE ns = namespaces.id AND refused IS NULL)"
        f"{' OR substr(fingerprint, 1, length(?)) = ?' * len(replaced)} ORDER BY name"
    )
    return db.column(sql, *(name for name in replaced for _ in range(2)))


_NEWEST: Final = 2048
"""Items among which the shortest are chosen: reading the lengths of all that wait would take longer than embedding."""


def pending_texts(db: Db, ns: int, limit: int, among: Sequence[int] | None = None) -> list[PendingText]:
    """Items that wait for a vector: all but the rejected ones, or those of `among`, rejected or not.

    What was stored last and is short comes first: it is asked for soonest, and texts of one length embed fastest.
    """
    sql = (
        "SELECT id, title, text "
        "FROM (SELECT item FROM waiting WHERE ns = ? AND {} ORDER BY item DESC LIMIT ?) AS newest "
        "JOIN items ON id = item ORDER BY length(title) + length(text), id DESC LIMIT ?"
    )
    most = max(limit, _NEWEST)
    if among is None:
        return db.rows(sql.format("refused IS NULL"), ns, most, limit)
    return db.rows(sql.format(f"item {db.any_id}"), ns, db.ids(among), most, limit)


# The time that embedding took for each character is kept by namespace, because other processes show how long it still
# takes.

_PACE: Final = "embedding_pace/{}"
_TIMED_ITEMS: Final = 8
"""Fewer take longer for each character than a long queue."""
_NEW_SHARE: Final = 0.25
"""Of the latest batch in the average."""


def store_pace(db: Db, ns: int, texts: Sequence[tuple[str, str]], seconds: float) -> None:
    """Counts a batch, of titles and texts, that took this long."""
    characters = sum(len(title) + len(text) for title, text in texts)
    if len(texts) < _TIMED_ITEMS or not characters or seconds <= 0:
        return
    pace, before = seconds / characters, _pace(db, ns)
    average = pace if before is None else before + _NEW_SHARE * (pace - before)
    sql = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    db.run(sql, _PACE.format(ns), repr(average))


def _pace(db: Db, ns: int) -> float | None:
    """Seconds for each character."""
    text: str | None = db.value("SELECT value FROM settings WHERE name = ?", _PACE.format(ns))
    return None if text is None else float(text)


def _embedding_seconds(db: Db, ns: int) -> float | None:
    """How long the items that wait will take; None as long as no batch was timed."""
    pace = _pace(db, ns)
    if pace is None:
        return None
    sql = (
        "SELECT coalesce(sum(length(title) + length(text)), 0) FROM waiting JOIN items ON id = item "
        "WHERE waiting.ns = ? AND refused IS NULL"
    )
    return round(pace * int(db.value(sql, ns)), 1)


# ---------------------------------------------------------------- receipts

_PRESENT = "FROM items WHERE ns = ? AND superseded_at IS NULL"


def add_receipts(
    db: Db, namespace: str, supplies: Mapping[str, Receipt], items: Mapping[int, int], now: datetime
) -> None:
    """Adds to the receipts of a namespace. `items`: how often each was given; those that are gone are left out."""
    ns = db.value("SELECT id FROM namespaces WHERE name = ?", namespace)
    if ns is None:
        return
    moment_ = micros(now)
    db.run_many(
        "INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (ns, via) DO UPDATE SET "
        "asked = receipts.asked + excluded.asked, answered = receipts.answered + excluded.answered, "
        "items = receipts.items + excluded.items",
        [(ns, via, *receipt, moment_) for via, receipt in sorted(supplies.items())],
    )
    db.run_many(
        "INSERT INTO retrievals SELECT id, ?, ? FROM items WHERE id = ? AND ns = ? ON CONFLICT (item) DO UPDATE SET "
        "times = retrievals.times + excluded.times, last_at = excluded.last_at",
        [(items[id], moment_, id, ns) for id in sorted(possible(items))],
    )


def read_stats(db: Db, ns: int, limit: int) -> Stats:
    """`limit`: how many of the items that nobody was given are named, the oldest first."""
    supplies = db.rows("SELECT via, asked, answered, items, since FROM receipts WHERE ns = ? ORDER BY via", ns)
    total = db.value(f"SELECT count(*) {_PRESENT}", ns)
    unused = "AND NOT EXISTS (SELECT 1 FROM retrievals WHERE item = items.id)"
    return Stats(
        since=moment(min(row[-1] for row in supplies)) if supplies else None,
        supplies=tuple(
            Supply(via, asked, answered, asked - answered, given) for via, asked, answered, given, _ in supplies
        ),
        items=total,
        never_retrieved=db.value(f"SELECT count(*) {_PRESENT} {unused}", ns),
        oldest_unused=tuple(db.column(f"SELECT id {_PRESENT} {unused} ORDER BY created_at, id LIMIT ?", ns, limit)),
    )


# ---------------------------------------------------------------- checks and repairs: counters, the queue, references

LOADING = "loading"
"""The setting in which a store keeps the mark of an unfinished load and the number of its records."""
Counted = tuple[str, str, str]
"""Table, column, and the SQL of the right value."""
SHARED_COUNTERS: tuple[Counted, ...] = (
    ("namespaces", "items", "SELECT count(*) FROM items WHERE ns = namespaces.id"),
    ("namespaces", "superseded", "SELECT count(*) FROM items WHERE ns = namespaces.id AND superseded_at IS NOT NULL"),
    ("namespaces", "expiring", "SELECT count(*) FROM items WHERE ns = namespaces.id AND expires_at IS NOT NULL"),
    ("nodes", "holders", "SELECT count(*) FROM node_items WHERE node = nodes.id"),
    ("nodes", "degree", "SELECT count(*) FROM edges WHERE source = nodes.id OR target = nodes.id"),
)
"""Those that both databases have."""
_LANGUAGES = "SELECT ns, language, count(*) FROM items GROUP BY ns, language"
_WAITING = "SELECT ns, id FROM items WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE item = id)"
_STRANGERS = {
    "node_items: items of another namespace": "DELETE FROM node_items WHERE EXISTS (SELECT 1 FROM nodes, items "
    "WHERE nodes.id = node AND items.id = item AND nodes.ns <> items.ns)",
    "mentions: nodes of another namespace": "DELETE FROM mentions WHERE EXISTS (SELECT 1 FROM nodes, items "
    "WHERE nodes.id = node AND items.id = item AND nodes.ns <> items.ns)",
    "edges: nodes of two namespaces": "DELETE FROM edges WHERE EXISTS (SELECT 1 FROM nodes AS a, nodes AS b "
    "WHERE a.id = source AND b.id = target AND a.ns <> b.ns)",
    "sources: raw records of another namespace": "DELETE FROM sources WHERE EXISTS (SELECT 1 FROM items, raw AS r "
    "WHERE items.id = item AND r.id = sources.raw AND items.ns <> r.ns)",
    "edges: weights out of range": "UPDATE edges SET weight = 1 WHERE NOT (weight > 0 AND weight <= 1)",
    "namespaces: dimensions out of range": "UPDATE namespaces SET fingerprint = NULL, dimension = NULL "  # noqa: S608  (constants)
    f"WHERE dimension NOT BETWEEN 1 AND {VECTOR_DIMENSIONS} OR (fingerprint IS NULL) <> (dimension IS NULL)",
}
"""Rows that a crafted export could leave in an older version, and the statement that removes them."""


def check_counters(db: Db, counters: Sequence[Counted], misshapen: str, records: Iterable[Record]) -> list[str]:
    """Problems of the rows, one line each. Examines `records`, those of the whole store, if the counters are right.

    `misshapen`: the SQL of the items whose vectors do not have the dimension of their namespace.
    """
    problems = list(_miscounted(db, counters, misshapen))
    if db.value("SELECT 1 FROM settings WHERE name = ?", LOADING):
        problems.append("a move into this store was interrupted: run it again")
    return problems or rule_problems(records)


def recount(db: Db, counters: Sequence[Counted], misshapen: str, unfit: Sequence[int]) -> list[str]:
    """Corrects counters, references and the queue, and lists what was wrong.

    `unfit`: items whose windows belong to another text.
    """
    done = [what for what, sql in _STRANGERS.items() if db.run(sql)]
    done += _miscounted(db, counters, misshapen)
    done += [f"item {item} had windows of another text" for item in unfit]
    db.run(f"DELETE FROM vectors WHERE item IN ({misshapen}) OR item {db.any_id}", db.ids(unfit))  # noqa: S608  (our own clauses)
    for table, column, truth in counters:
        db.run(f"UPDATE {table} SET {column} = ({truth}) WHERE {column} <> ({truth})")  # noqa: S608  (our own clauses)
    db.run("DELETE FROM languages")
    db.run(f"INSERT INTO languages {_LANGUAGES}")
    db.run("DELETE FROM waiting WHERE item IN (SELECT item FROM vectors)")
    db.run(f"INSERT INTO waiting (ns, item) {_WAITING} ON CONFLICT DO NOTHING")
    db.run("UPDATE waiting SET refused = NULL WHERE refused IS NOT NULL")
    return [f"repaired: {problem}" for problem in done]


def _miscounted(db: Db, counters: Sequence[Counted], misshapen: str) -> Iterator[str]:
    for table, column, truth in counters:
        if wrong := db.value(f"SELECT count(*) FROM {table} WHERE {column} <> ({truth})"):  # noqa: S608  (our own clauses)
            yield f"{table}: {wrong} rows have a wrong number of {column}"
    languages, queue = "SELECT ns, language, items FROM languages WHERE items <> 0", "SELECT ns, item FROM waiting"

    def differ(some: str, others: str) -> bool:
        return bool(db.value(f"SELECT 1 FROM ({some} EXCEPT {others}) AS wrong LIMIT 1"))  # noqa: S608  (our own clauses)

    if differ(languages, _LANGUAGES) or differ(_LANGUAGES, languages):
        yield "languages: their counters are wrong"
    if differ(_WAITING, queue):
        yield "waiting: an item without a vector is not in the queue"
    if differ(queue, _WAITING):
        yield "waiting: an item in the queue has a vector"
    if db.value(f"{misshapen} LIMIT 1"):
        yield "vectors: one does not have the dimension of its namespace"
