"""The outbox of a distributed index, and its generations.

Every transaction that changes items of a logged namespace writes a row (change, item) for each, numbered by the counter
of the namespace. That counter is a row which the transaction holds locked, so numbers are in the order of commits. The
last row of an item stays as long as the item; that of a deleted item is its tombstone. Superseded rows and tombstones
stay as long as any node of the engine may have to be fed from before them. A generation is a collection of the engine
with a cursor in this log: it holds every row up to there. A rebuild is a new generation with its cursor at the
beginning. The pointer to the generation that answers searches is in PostgreSQL.

A search gets candidates of the index together with the items that changed since: the exact tail. The engine proposes;
rows of the snapshot decide. A candidate that was deleted has no row, one that was changed gets the score of its present
text, and what the engine does not hold yet is in the tail. If no node can answer, or the tail is too long, PostgreSQL
answers from its own indexes, and a note says why.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from fourfold.errors import IndexUnavailable
from fourfold.index.rows import term_hash
from fourfold.model import Filters, Vector
from fourfold.storage.engines.protocol import Engine, Entry, Node, Nodes, named_otherwise, names_same_nodes, required
from fourfold.storage.postgres.connection import Connection, array
from fourfold.text.analysis import ANALYSER_VERSION
from fourfold.text.keyword_query import KeywordQuery

if TYPE_CHECKING:
    from fourfold.storage.postgres.database import Database
    from fourfold.storage.postgres.store import PostgresSnapshot

_BEHIND = (
    "(SELECT json_object_agg(b.node, json_build_array(b.change, b.item)) FROM index_nodes_behind b "
    "WHERE b.generation = g.id)"
)
_FIELDS = f"g.id, engine, collection, state, analyser, fingerprint, dimension, change, item, {_BEHIND}"
_RETIRE = "UPDATE index_generations SET state = 'retired', retired_at = now() WHERE"
ACTIVE = f"(SELECT json_build_array({_FIELDS}) FROM index_generations g WHERE g.id = namespaces.generation)"  # noqa: S608  (constants)


class Cursor(NamedTuple):
    change: int
    item: int


@dataclass(frozen=True, slots=True)
class Generation:
    id: int
    engine: str
    """The address that it was made with."""
    collection: str
    state: str
    analyser: str
    fingerprint: str | None
    dimension: int | None
    change: int
    item: int
    _behind: Mapping[str, Sequence[int]] | None = None

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.change, self.item)

    @property
    def behind(self) -> dict[str, Cursor]:
        """The nodes that lack batches, with what they hold."""
        return {node: Cursor(*end) for node, end in (self._behind or {}).items()}


def record(db: Connection, ns: int, change: int, items: Iterable[int]) -> None:
    """Logs the items that a transaction has changed or removed."""
    changed = array(sorted(items))
    db.run("INSERT INTO index_log SELECT ?, ?, unnest(?::bigint[]) ON CONFLICT DO NOTHING", ns, change, changed)


# ---------------------------------------------------------------- generations


def begin(db: Connection, ns: int, engine: str, analyser: str, fingerprint: str | None, dimension: int | None) -> None:
    """Adds a generation that is to be filled, and logs every change from now on; locks the namespace for that."""
    db.run("UPDATE namespaces SET logged = true WHERE id = ?", ns)
    name = f"Fourfold_{secrets.token_hex(8)}"
    sql = (
        "INSERT INTO index_generations (ns, engine, collection, state, analyser, fingerprint, dimension) "
        "VALUES (?, ?, ?, 'filling', ?, ?, ?) RETURNING id"
    )
    generation = db.value(sql, ns, engine, name, analyser, fingerprint, dimension)
    _insert_mark(db, generation, secrets.token_hex(8), Cursor(0, 0))


def every(db: Connection, ns: int) -> list[Generation]:
    """Oldest first."""
    sql = f"SELECT {_FIELDS} FROM index_generations g WHERE ns = ? ORDER BY g.id"  # noqa: S608  (constants)
    return [Generation(*row) for row in db.rows(sql, ns)]


def find(db: Connection, generation: int) -> Generation | None:
    rows = db.rows(f"SELECT {_FIELDS} FROM index_generations g WHERE g.id = ?", generation)  # noqa: S608  (constants)
    return Generation(*rows[0]) if rows else None


def cursor(db: Connection, generation: int) -> Cursor:
    """The present cursor; the beginning of the log if the generation does not exist."""
    rows = db.rows("SELECT change, item FROM index_generations WHERE id = ?", generation)
    return Cursor(*rows[0]) if rows else Cursor(0, 0)


def fill(db: Connection, ns: int, after: int, limit: int) -> int | None:
    """Logs a page of items that were stored before the log began; returns the last one, None at the end."""
    page = db.column("SELECT id FROM items WHERE ns = ? AND id > ? ORDER BY id LIMIT ?", ns, after, limit)
    sql = (
        "INSERT INTO index_log SELECT ?, 0, id FROM unnest(?::bigint[]) AS id "
        "WHERE NOT EXISTS (SELECT 1 FROM index_log WHERE item = id) ON CONFLICT DO NOTHING"
    )
    if page:
        db.run(sql, ns, array(page))
    return page[-1] if page else None


def set_state(db: Connection, generation: int, state: str) -> None:
    db.run("UPDATE index_generations SET state = ? WHERE id = ?", state, generation)


def activate(db: Connection, ns: int, generation: int) -> None:
    """Moves the pointer, unless the generation was retired during its build.

    Searches that began before may use the old generation until it is dropped.
    """
    if db.value("SELECT 1 FROM index_generations WHERE id = ? AND state = 'building' FOR UPDATE", generation):
        with _pruned(db, ns):
            db.run(f"{_RETIRE} ns = ? AND state = 'active'", ns)
            set_state(db, generation, "active")
            db.run("UPDATE namespaces SET generation = ? WHERE id = ?", generation, ns)


def retire(db: Connection, ns: int, generations: Sequence[int]) -> None:
    with _pruned(db, ns):
        db.run(f"{_RETIRE} id = ANY(?::int[]) AND state <> 'retired'", list(generations))


def droppable(db: Connection, ns: int, seconds: float) -> list[Generation]:
    """Generations that were retired so long ago that no search uses them."""
    sql = (
        f"SELECT {_FIELDS} FROM index_generations g WHERE ns = ? AND state = 'retired' "  # noqa: S608  (constants)
        "AND retired_at <= now() - ? * interval '1 second'"
    )
    return [Generation(*row) for row in db.rows(sql, ns, seconds)]


def remove(db: Connection, generation: int) -> None:
    db.run("DELETE FROM index_generations WHERE id = ?", generation)


def stop(db: Connection, ns: int) -> None:
    """Ends the log of a namespace without generations."""
    db.run("UPDATE namespaces SET logged = false, generation = NULL WHERE id = ?", ns)
    db.run("DELETE FROM index_log WHERE ns = ?", ns)


def adopt_space(db: Connection, generation: int, fingerprint: str, dimension: int) -> None:
    sql = "UPDATE index_generations SET fingerprint = ?, dimension = ? WHERE id = ?"
    db.run(sql, fingerprint, dimension, generation)


def take_over(db: Connection, generation: Generation, engine: str, nodes: Sequence[str]) -> None:
    """Notes that the cluster has other nodes now, which hold all of the generation."""
    db.run("UPDATE index_generations SET engine = ? WHERE id = ?", engine, generation.id)
    sql = "DELETE FROM index_nodes_behind WHERE generation = ? AND node <> ALL(?::text[])"
    db.run(sql, generation.id, list(nodes))


# ---------------------------------------------------------------- marks


def add_mark(db: Connection, ns: int, generation: int, mark: str, end: Cursor, kept: int) -> None:
    """Records that a batch begins, and removes the oldest marks and the rows kept for them."""
    old = (
        "DELETE FROM index_marks WHERE generation = ? AND number <= "
        "(SELECT number FROM index_marks WHERE generation = ? ORDER BY number DESC OFFSET ? LIMIT 1)"
    )
    with _pruned(db, ns):
        _insert_mark(db, generation, mark, end)
        db.run(old, generation, generation, kept)


def _insert_mark(db: Connection, generation: int, mark: str, end: Cursor) -> None:
    sql = "INSERT INTO index_marks (generation, mark, change, item) VALUES (?, ?, ?, ?)"
    db.run(sql, generation, mark, *end)


def mark_end(db: Connection, generation: int, mark: str) -> Cursor | None:
    """The end of the batch of a mark; None if this database never began it."""
    sql = "SELECT change, item FROM index_marks WHERE generation = ? AND mark = ?"
    rows = db.rows(sql, generation, mark)
    return Cursor(*rows[0]) if rows else None


def first_mark(db: Connection, generation: int) -> str:
    return db.value("SELECT mark FROM index_marks WHERE generation = ? ORDER BY number LIMIT 1", generation)


# ---------------------------------------------------------------- nodes that are behind


def fall_behind(db: Connection, generation: int, node: str, end: Cursor) -> None:
    """Records the row up to which a node holds everything."""
    sql = (
        "INSERT INTO index_nodes_behind VALUES (?, ?, ?, ?) "
        "ON CONFLICT (generation, node) DO UPDATE SET change = excluded.change, item = excluded.item"
    )
    db.run(sql, generation, node, *end)


def is_logged_after(db: Connection, generation: int, end: Cursor) -> bool:
    """Whether everything that came after this row is still in the log: the marks of a generation keep it there."""
    sql = "SELECT 1 FROM index_marks WHERE generation = ? AND (change, item) <= (?, ?) LIMIT 1"
    return db.value(sql, generation, *end) is not None


def caught_up(db: Connection, generation: int, node: str) -> None:
    db.run("DELETE FROM index_nodes_behind WHERE generation = ? AND node = ?", generation, node)


def last_held(db: Connection, ns: int, end: Cursor, limit: int) -> list[Entry]:
    """The latest objects that a node holds which was fed up to this row, and that should still exist."""
    sql = (
        "SELECT item, change FROM index_log held WHERE ns = ? AND (change, item) <= (?, ?) "
        "AND EXISTS (SELECT 1 FROM items WHERE id = item) AND NOT EXISTS "
        "(SELECT 1 FROM index_log newer WHERE newer.item = held.item AND newer.change > held.change) "
        "ORDER BY change DESC, item DESC LIMIT ?"
    )
    return [Entry(*row) for row in db.rows(sql, ns, *end, limit)]


# ---------------------------------------------------------------- the log


def newer(db: Connection, ns: int, cursor: Cursor, limit: int) -> list[tuple[int, int]]:
    """The first rows after a cursor: (change, item)."""
    sql = "SELECT change, item FROM index_log WHERE ns = ? AND (change, item) > (?, ?) ORDER BY change, item LIMIT ?"
    return db.rows(sql, ns, *cursor, limit)


def lag(db: Connection, ns: int, cursor: Cursor) -> tuple[int, float]:
    """The number of rows after a cursor, and the seconds since the first of them."""
    sql = (
        "SELECT count(*), coalesce(extract(epoch FROM now() - min(at)), 0)::float8 FROM index_log "
        "WHERE ns = ? AND (change, item) > (?, ?)"
    )
    return db.rows(sql, ns, *cursor)[0]


def versions(db: Connection, items: Collection[int], cursor: Cursor) -> dict[int, list[int]]:
    """The logged versions of items, oldest first: all that an engine which was fed up to the cursor may hold.

    A batch holds the last version of each of its items, even if that is logged after the end of the batch.
    """
    sql = (
        "SELECT asked, change FROM unnest(?::bigint[]) AS asked, LATERAL (SELECT change FROM index_log "
        "WHERE item = asked AND change >= coalesce((SELECT max(change) FROM index_log "
        "WHERE item = asked AND (change, item) <= (?, ?)), 0)) AS logged ORDER BY asked, change"
    )
    versions_of: dict[int, list[int]] = {}
    for item, change in db.rows(sql, array(items), *cursor):
        versions_of.setdefault(item, []).append(change)
    return versions_of


def superseded(db: Connection, ns: int, cursor: Cursor) -> list[Entry]:
    """The objects that were replaced or removed up to the cursor, as far as they are still in the log."""
    recent = "SELECT item FROM index_log WHERE ns = ? AND (change, item) > (?, ?) AND (change, item) <= (?, ?)"
    sql = (
        f"SELECT item, change FROM index_log old WHERE item IN ({recent}) AND EXISTS (SELECT 1 FROM index_log newer "  # noqa: S608  (constants)
        "WHERE newer.item = old.item AND newer.change > old.change AND (newer.change, newer.item) <= (?, ?))"
    )
    return [Entry(*row) for row in db.rows(sql, ns, *_needed_from(db, ns), *cursor, *cursor)]


def advance(db: Connection, generation: Generation, to: Cursor) -> bool:
    """Moves the cursor; False if another process has moved it since."""
    sql = "UPDATE index_generations SET change = ?, item = ? WHERE id = ? AND (change, item) = (?, ?)"
    return db.run(sql, *to, generation.id, *generation.cursor) == 1


@contextmanager
def _pruned(db: Connection, ns: int) -> Generator[None]:
    """Removes the superseded rows and tombstones that nothing needs any more after the block, but did before."""
    before = _needed_from(db, ns)
    yield
    after = _needed_from(db, ns)
    if after <= before:
        return
    passed = "ns = ? AND (change, item) > (?, ?) AND (change, item) <= (?, ?)"
    superseded = (
        "DELETE FROM index_log old USING (SELECT item AS newer, max(change) AS version FROM index_log "  # noqa: S608  (constants)
        f"WHERE {passed} GROUP BY item) AS passed WHERE item = newer AND change < version"
    )
    db.run(superseded, ns, *before, *after)
    tombstones = (
        f"DELETE FROM index_log old WHERE {passed} AND NOT EXISTS (SELECT 1 FROM items WHERE id = item) "  # noqa: S608  (constants)
        "AND NOT EXISTS (SELECT 1 FROM index_log newer WHERE newer.item = old.item AND newer.change > old.change)"
    )
    db.run(tombstones, ns, *before, *after)


def _needed_from(db: Connection, ns: int) -> Cursor:
    """The row after which a generation may have to be fed: its cursor, or the mark of a node that has lost writes."""
    sql = (
        "SELECT g.change, g.item FROM index_generations g WHERE ns = ? AND state <> 'retired' UNION ALL "
        "SELECT m.change, m.item FROM index_marks m JOIN index_generations g ON g.id = generation "
        "WHERE ns = ? AND state <> 'retired' ORDER BY 1, 2 LIMIT 1"
    )
    rows = db.rows(sql, ns, ns)
    return Cursor(*rows[0]) if rows else Cursor(0, 0)


# ---------------------------------------------------------------- searching

MOST_CANDIDATES = 10_000
"""Maximum number of candidates that engines return for one query."""
_THREADS = 8


class Index:
    """The engine of a store, for its searches."""

    def __init__(self, engine: Engine, database: Database) -> None:
        self.engine = engine
        self._database = database
        self._nodes = Nodes[Cursor](engine.nodes)
        self._threads = ThreadPoolExecutor(_THREADS, "fourfold-index")

    def propose(self, generation: Generation, call: Callable[[Node, float], list[int]]) -> list[int]:
        def find_end(mark: str) -> Cursor | None:
            return self._database.aside(lambda db: mark_end(db, generation.id, mark))

        return self._nodes.ask(generation.collection, generation.cursor, generation.behind, find_end, call)

    def begin(self, generation: Generation, call: Callable[[Node, float], list[int]]) -> Future[list[int]]:
        """Runs the call in a thread, while PostgreSQL answers other queries."""
        return self._threads.submit(self.propose, generation, call)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self.engine.close()


class Candidates:
    """Candidates of the index for the searches of one snapshot; None if PostgreSQL has to answer."""

    def __init__(self, at: PostgresSnapshot, index: Index | None) -> None:
        self._at = at
        self._index = index
        self.note: str | None = None
        """The reason why PostgreSQL has to answer although there is an index."""

    @property
    def exists(self) -> bool:
        return self._index is not None and self._at.ns.generation is not None

    @cached_property
    def tail(self) -> list[int] | None:
        """The items that the index lacks; None if these are too many."""
        generation, most = self._at.ns.generation, self._at.tuning.tail_items
        if generation is None:
            return None
        changes = newer(self._at.db, self._at.ns.id, generation.cursor, most + 1)
        if len(changes) > most:
            self.note = f"the index at {self._shown} is more than {most:,} changes behind"
            return None
        return sorted({item for _, item in changes})

    @property
    def _shown(self) -> str:
        return "" if self._index is None else self._index.engine.shown

    def _usable(self) -> Generation | None:
        """The generation to ask; None, perhaps with a note, if PostgreSQL has to answer."""
        generation = self._at.ns.generation
        if self._index is None or generation is None:
            return None
        if not names_same_nodes(generation.engine, self._shown):
            self.note = named_otherwise(generation.engine, self._shown)
            return None
        return None if self.tail is None else generation

    def match(self, query: KeywordQuery, limit: int, filters: Filters) -> list[int] | None:
        generation = self._usable()
        if self._index is None or generation is None:
            return None
        if generation.analyser != ANALYSER_VERSION:
            self.note = "the index is being rebuilt for another version of the analyser"
            return None
        weights, groups = _weights(query), required(filters.condition)

        def call(node: Node, seconds: float) -> list[int]:
            return node.match(generation.collection, weights, limit, groups, seconds)

        try:
            return self._index.propose(generation, call)
        except IndexUnavailable as error:
            self.note = f"the index did not answer: {error.message}"
            return None

    def begin_nearest(self, vector: Vector, limit: int, filters: Filters) -> Callable[[], list[int] | None]:
        ns, index = self._at.ns, self._index
        generation = self._usable()
        if index is None or generation is None:
            return lambda: None
        if generation.fingerprint != ns.fingerprint:
            is_empty = generation.fingerprint is None  # every vector is newer than the index
            self.note = None if is_empty else "the index is being rebuilt for another model"
            return (lambda: []) if is_empty else (lambda: None)
        groups = required(filters.condition)

        def call(node: Node, seconds: float) -> list[int]:
            return node.nearest(generation.collection, vector, limit, groups, seconds)

        begun = index.begin(generation, call)

        def finish() -> list[int] | None:
            try:
                return begun.result()
            except IndexUnavailable as error:
                self.note = f"the index did not answer: {error.message}"
                return None

        return finish


def _weights(query: KeywordQuery) -> Mapping[int, float]:
    weights: dict[int, float] = {}
    for word in query.words:
        for term, weight in zip(word.terms, word.values, strict=True):
            hashed = term_hash(term)
            weights[hashed] = max(weight, weights.get(hashed, 0.0))
    return weights
