"""Status, publishing, checks and repairs of a store."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fourfold.errors import RequestError
from fourfold.index.log_tail import Change, TextRow
from fourfold.model import Json
from fourfold.storage.postgres import namespaces, postings, schema, vectors
from fourfold.storage.postgres.connection import Connection
from fourfold.storage.postgres.index_feed import index_problems, index_status, mend_index
from fourfold.storage.postgres.namespaces import Namespace, PostgresLinkRows
from fourfold.storage.postgres.words import count_terms, hash_terms, term_keys, write_texts
from fourfold.storage.sql import linking
from fourfold.storage.sql.namespaces import SHARED_COUNTERS, Counted, check_counters, namespace_status, queues, recount
from fourfold.storage.sql.portable import export_records
from fourfold.storage.sql.rows import TEXT_ROW
from fourfold.text.analysis import ANALYSER_VERSION, analyse_item

if TYPE_CHECKING:
    from fourfold.storage.postgres.store import PostgresStore

_PAGE_TEXTS = 1000

_COUNTERS: tuple[Counted, ...] = (
    *SHARED_COUNTERS,
    ("namespaces", "vectors", "SELECT count(DISTINCT item) FROM vectors WHERE ns = namespaces.id"),
    ("namespaces", "windows", "SELECT count(*) FROM vectors WHERE ns = namespaces.id AND part > 0"),
    ("namespaces", "tokens", "SELECT coalesce(sum(tokens), 0) FROM texts WHERE ns = namespaces.id"),
)
_MISSHAPEN = (
    "SELECT item FROM vectors JOIN namespaces ON namespaces.id = ns "
    "WHERE dimension IS NULL OR vector_dims(v) <> dimension"
)


def check_store(db: Connection) -> Iterator[str]:
    """Problems, one line each; in one snapshot."""
    yield from check_counters(db, _COUNTERS, _MISSHAPEN, export_records(db, None, vectors.stored))
    for ns in namespaces.everyone(db):
        for problem in _drift(db, ns):
            yield f"namespace {ns.name}: {problem}"


def _texts(db: Connection, ns: int) -> Iterator[list[TextRow]]:
    after, sql = 0, f"SELECT {TEXT_ROW} FROM items WHERE ns = ? AND id > ? ORDER BY id LIMIT ?"  # noqa: S608  (constants)
    while page := db.rows(sql, ns, after, _PAGE_TEXTS):
        yield page
        after = page[-1][0]


def _drift(db: Connection, ns: Namespace) -> Iterator[str]:
    """Differences between the keyword index and the texts."""
    terms: dict[str, list[int]] = {}
    wrong = 0
    for page in _texts(db, ns.id):
        sql = "SELECT item, hashes, keys FROM texts WHERE item = ANY(?::bigint[])"
        stored = {item: (hashes, keys) for item, hashes, keys in db.rows(sql, [item for item, *_ in page])}
        for item, title, text, language in page:
            expected = analyse_item(title, text, language)
            hashes = hash_terms(expected)
            wrong += stored.get(item) != (hashes.tobytes(), term_keys(ns.id, hashes))
            count_terms(terms, expected, language)
    if wrong:
        yield f"keyword search differs from the text of {wrong} items"
    counted = {term: counts for term, *counts in db.rows("SELECT term, items, german FROM terms WHERE ns = ?", ns.id)}
    if counted != terms:
        yield "keyword search has a wrong count of a term"
    if not postings.is_sound(db, ns):
        yield "the postings differ from the texts"


def analyse_again(db: Connection, ns: Namespace) -> None:
    """Derives everything that keyword search needs from the texts again; the caller has the namespace locked."""
    db.run("DELETE FROM terms WHERE ns = ?", ns.id)
    db.run("DELETE FROM texts WHERE ns = ?", ns.id)
    ns.tokens = 0
    for page in _texts(db, ns.id):
        write_texts(db, ns, [], page)
        ns.touch((item for item, *_ in page), Change.TEXT)
    ns.text_changes += 1
    ns.vector_changes += 1


def is_analysed_otherwise(db: Connection) -> bool:
    """Whether the texts were analysed by another version of the analyser."""
    return db.value("SELECT value FROM settings WHERE name = 'analyser'") != ANALYSER_VERSION


_OURS = "FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
_EXTENSIONS = "SELECT extname, extversion FROM pg_extension WHERE extname = 'vector'"


def store_status(db: Connection) -> dict[str, Json]:
    size = f"SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint {_OURS}"
    versions = dict(db.rows(_EXTENSIONS))
    return {
        "schema": schema.VERSION,
        "server": db.value("SELECT current_setting('server_version')"),
        "extensions": versions,
        "database_bytes": db.value(size),
        "namespaces": {ns.name: _namespace(db, ns) for ns in namespaces.everyone(db)},
    }


def _namespace(db: Connection, ns: Namespace) -> dict[str, Json]:
    return {
        **namespace_status(db, ns, ns.languages),
        "keyword_index": "postings" if ns.parts else "gin",
        **({"index": index_status(db, ns)} if ns.logged else {}),
    }


def vacuum(db: Connection) -> None:
    """Rewrites tables and statistics without what was deleted. (The server's log and backups are not ours.)"""
    texts = (
        "SELECT attname, atttypid::regtype::text, coalesce('COLLATE ' || quote_ident(collname), '') "
        "FROM pg_attribute LEFT JOIN pg_collation ON pg_collation.oid = attcollation "
        "WHERE attrelid = ?::regclass AND attnum > 0 AND NOT attisdropped AND atttypid::regtype::text = ANY(?)"
    )
    for table in db.column(f"SELECT oid::regclass::text {_OURS}"):
        db.run(f"VACUUM (FULL, ANALYZE) {table}")
        if not db.value(f"SELECT 1 FROM {table} LIMIT 1"):  # noqa: S608  (our own tables)
            for column, kind, collation in db.rows(texts, table, ["text", "bytea", "json", "jsonb"]):
                # drops the statistics of the column, which an empty table keeps
                db.run(f"ALTER TABLE {table} ALTER {column} TYPE {kind} {collation}")


class PostgresMaintenance:
    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.pace = store.tuning.pace

    def queues(self, replaced: Sequence[str] = ()) -> list[str]:
        return self._store.database.read(partial(queues, replaced=replaced))

    def lease(self, namespace: str | None) -> AbstractContextManager[bool]:
        return self._store.leases.held(namespace)

    # ------------------------------------------------------------ publishing

    def publish(self, namespace: str, *, everything: bool = False, amid_writes: bool = False) -> bool:
        database, tuning = self._store.database, self._store.tuning
        if not self._is_due(namespace, everything=everything, amid_writes=amid_writes):
            return True
        with self.lease(namespace) as mine:
            if mine:
                if not amid_writes:
                    self.catch_up(namespace)
                if (feeder := self._store.feeder) is not None:
                    feeder.feed(namespace, everything=everything)
                if not (self._store.database.read(lambda db: namespaces.find(db, namespace).generation) is not None):
                    if not amid_writes:  # adding 1,000 vectors to an index takes seconds, for which all writers wait
                        self._index_vectors(namespace)
                    read = partial(namespaces.find, namespace=namespace)
                    postings.build(database, read, tuning, everything=everything)
            return mine

    def _index_vectors(self, namespace: str) -> None:
        with self._store.database.long_work() as db:
            ns = namespaces.find(db, namespace)
            if vectors.lacks_index(db, ns, self._store.tuning):
                vectors.build_index(db, ns)

    def _is_due(self, namespace: str, *, everything: bool, amid_writes: bool) -> bool:
        with self._store.snapshot(namespace) as at:
            feeder, due = self._store.feeder, not amid_writes and bool(PostgresLinkRows(at.db, at.ns).postponed())
            due = due or (feeder is not None and feeder.is_due(at.db, at.ns, everything=everything))
            if at.ns.generation is not None:
                return due
            due = due or postings.is_due(at.db, at.ns, at.tuning, everything=everything)
            return due or (not amid_writes and vectors.lacks_index(at.db, at.ns, at.tuning))

    def catch_up(self, namespace: str) -> None:
        """Searches older items for the names of postponed nodes."""

        @contextmanager
        def reading() -> Generator[PostgresLinkRows]:
            with self._store.snapshot(namespace) as at:
                yield PostgresLinkRows(at.db, at.ns)

        @contextmanager
        def writing() -> Generator[PostgresLinkRows]:
            with self._store.transaction(namespace) as tx:
                tx.stored()
                yield tx.link_rows

        def may_mention(name: str) -> list[int]:
            with reading() as rows:
                return rows.may_mention(name)

        linking.catch_up(reading, writing, may_mention)

    # ------------------------------------------------------------ checking and repairing

    def check(self) -> list[str]:
        with self._store.database.long_snapshot() as db:
            problems = list(check_store(db))
        return problems + self.check_index()

    def check_index(self) -> list[str]:
        """Lists where distributed indexes differ from the rows."""
        if (feeder := self._store.feeder) is None:
            return []
        grace = self._store.tuning.check_grace_seconds
        return list(index_problems(self._store.database, feeder.engine, grace))

    def repair(self, *, purge: bool = False) -> list[str]:
        with self._store.database.write() as db:
            db.run("SELECT 1 FROM namespaces ORDER BY id FOR NO KEY UPDATE")  # no counter changes after this
            done = recount(db, _COUNTERS, _MISSHAPEN, vectors.flawed(db))
        done += [f"namespace {name}: texts analysed again" for name in self.analyse_again()]
        done += [line for name in self._store.namespaces() for line in self.mend_index(name)]
        if purge:
            with self._store.database.long_work() as db:
                vacuum(db)
            done.append("tables rewritten without what was forgotten")
        return done

    def mend_index(self, namespace: str) -> list[str]:
        """What the index lacks is logged once more, and fed."""
        feeder, store = self._store.feeder, self._store
        if feeder is None:
            return []
        done, lacking = mend_index(store.database, feeder.engine, namespace, store.tuning.check_grace_seconds)
        if lacking:
            with store.transaction(namespace) as tx:
                tx.stored().touch(lacking, Change.TEXT)
            self.publish(namespace, everything=True)
        return done

    def analyse_again(self) -> Sequence[str]:
        """Rebuilds everything that depends on the analyser; returns the namespaces."""
        names = list(self._store.namespaces())
        for name in names:
            with self._store.transaction(name) as tx:
                ns = tx.stored()
                postings.drop(tx.db, ns)
                analyse_again(tx.db, ns)
        with self._store.database.write() as db:
            db.run("UPDATE settings SET value = ? WHERE name = 'analyser'", ANALYSER_VERSION)
        return names

    def backup(self, target: Path) -> None:
        remedy = "Use pg_dump, or fourfold export FILE (docs/postgres.md)"
        raise RequestError("a PostgreSQL store is backed up by its server", remedy)
