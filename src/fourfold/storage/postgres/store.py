"""The store for a team: one PostgreSQL server with pgvector. It holds rows and indexes; scores are computed here."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Self

from psycopg.pq import TransactionStatus

from fourfold import limits
from fourfold.embed.windows import Windows
from fourfold.errors import RequestError, StoreBusy
from fourfold.index.log_tail import Change, TextRow
from fourfold.model import Filters, Json, Vector
from fourfold.ranking.fusion import Expansion
from fourfold.scheduling import Turns
from fourfold.storage.engines.protocol import Engine
from fourfold.storage.postgres import namespaces, postings, schema, vectors
from fourfold.storage.postgres.connection import GRACE_SECONDS, Connection
from fourfold.storage.postgres.database import CONNECTIONS, READ_ONLY, Database, Leases, Tuning, parse_address
from fourfold.storage.postgres.index_feed import Feeder, index_problems, index_status, mend_index
from fourfold.storage.postgres.index_log import Candidates, Index
from fourfold.storage.postgres.links import PostgresGraph, TagUses
from fourfold.storage.postgres.namespaces import Namespace, PostgresLinkRows, PostgresTransaction
from fourfold.storage.postgres.postings import Part, Shelf
from fourfold.storage.postgres.vectors import Sample, VectorSearch
from fourfold.storage.postgres.words import KeywordSearch, count_terms, hash_terms, term_keys, write_texts
from fourfold.storage.sql import linking
from fourfold.storage.sql import namespaces as sql_namespaces
from fourfold.storage.sql.dialect import Condition
from fourfold.storage.sql.linking import Linker
from fourfold.storage.sql.portable import SqlPortable, export_records
from fourfold.storage.sql.reading import Cache, SqlSnapshot, where
from fourfold.storage.sql.rows import TEXT_ROW
from fourfold.storage.values import Deadline, Receipt, Record
from fourfold.text.analysis import ANALYSER_VERSION, analyse_item
from fourfold.text.keyword_query import KeywordQuery

# ---------------------------------------------------------------- reading


class Caches:
    """Caches of the searches of one store, valid until something changes."""

    def __init__(self) -> None:
        self.queries = Cache[KeywordQuery]()
        self.code_shares = Cache[float]()
        """A cache with one entry for each namespace."""
        self.samples = Cache[Sample]()
        self.narrow = Cache[list[int] | None]()
        self.tag_counts = Cache[Mapping[str, int]]()
        self.shelf = Shelf()


class PostgresSnapshot(SqlSnapshot[namespaces.Namespace]):
    """After a failed statement (the server aborts the transaction) or a broken connection, the next read opens another
    transaction: it may then see a later moment."""

    def __init__(
        self,
        database: Database,
        namespace: str,
        seconds: float,
        caches: Caches,
        tuning: Tuning,
        index: Index | None = None,
    ) -> None:
        self._database = database
        self.namespace = namespace
        self._seconds = seconds
        self.deadline = Deadline(seconds)
        self.caches = caches
        self.tuning = tuning
        self._index = index
        self.candidates = Candidates(self, index)

    @property
    def words(self) -> KeywordSearch:
        return KeywordSearch(self)

    @property
    def vectors(self) -> VectorSearch:
        return VectorSearch(self)

    @property
    def graph(self) -> PostgresGraph:
        return PostgresGraph(self)

    @property
    def tags(self) -> TagUses:
        return TagUses(self)

    def _begin(self) -> None:
        limit = f"SET LOCAL statement_timeout = {max(1, int(self._seconds * 1000))}; "
        timeout = "" if self._seconds == limits.READ_SECONDS else limit  # otherwise that of the connection
        sql = f"{READ_ONLY}; {timeout}{namespaces.finding(self.namespace)}"
        self._db, rows = self._database.begin(sql, self.deadline)
        self.read_as(namespaces.in_answer(rows, self.namespace))
        self.has_files = self.ns.has_files

    @property
    def db(self) -> Connection:  # pyright: ignore[reportIncompatibleVariableOverride]  (it is never set)
        if self._db.closed or self._db.pgconn.transaction_status == TransactionStatus.INERROR:
            self.reopen()
        return self._db

    def reopen(self) -> None:
        """Opens a new transaction, which reads the present state."""
        self._database.end(self._db, commit=False)
        self._begin()
        vars(self).pop("parts", None)
        self.candidates = Candidates(self, self._index)

    def __enter__(self) -> Self:
        self.deadline.until = time.monotonic() + self._seconds + GRACE_SECONDS
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        # COMMIT, since psycopg forgets its prepared statements after a ROLLBACK
        self._database.end(self._db, commit=not self._db.closed)

    # ------------------------------------------------------------ reading

    def vectors_of(self, ids: Sequence[int]) -> dict[int, Vector | Windows]:
        return vectors.stored(self.db, self.ns.dimension, ids)

    def expand(self, expansion: Expansion, filters: Filters) -> None:
        return None

    def keyword_query(self, text: str) -> KeywordQuery:
        return self.words.query(text)

    @cached_property
    def parts(self) -> dict[int, Part]:
        """The parts of the namespace's postings that this process has read."""
        return self.caches.shelf.parts(self.ns)

    def narrowed(self, filters: Filters) -> tuple[Condition, Sequence[int] | None]:
        """The filters as a condition, or all items that pass if these are few."""
        most = self.tuning.narrow_items

        def few() -> list[int] | None:
            ids = self.rows.first_ids(filters, most + 1)
            return sorted(ids) if len(ids) <= most else None

        narrow = self.caches.narrow.get(self.ns.id, self.ns.changes, repr(filters), few)
        return (where(self.db, filters, self.ns.id) if narrow is None else ("", ())), narrow


# ---------------------------------------------------------------- status, publishing, checks and repairs

_PAGE_TEXTS = 1000

_COUNTERS: tuple[sql_namespaces.Counted, ...] = (
    *sql_namespaces.SHARED_COUNTERS,
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
    yield from sql_namespaces.check_counters(db, _COUNTERS, _MISSHAPEN, export_records(db, None, vectors.stored))
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
        **sql_namespaces.namespace_status(db, ns, ns.languages),
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
        return self._store.database.read(partial(sql_namespaces.queues, replaced=replaced))

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
            done = sql_namespaces.recount(db, _COUNTERS, _MISSHAPEN, vectors.flawed(db))
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


# ---------------------------------------------------------------- export and import


class PostgresPortable(SqlPortable[Connection]):
    def __init__(self, store: PostgresStore) -> None:
        super().__init__(nullcontext())
        self._store = store

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        for each in self._store.namespaces() if namespace is None else (namespace,):
            self._store.maintenance.catch_up(each)
        with self._store.database.long_snapshot() as db:
            for record in export_records(db, namespace, vectors.stored):
                write(record)

    def writing(self) -> AbstractContextManager[Connection]:
        return self._store.database.write()

    def _transaction(self, tx: Connection, namespace: str) -> PostgresTransaction:
        return PostgresTransaction(tx, namespaces.create(tx, namespace), {})

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        remedy = f"Everything is copied. Drop the schema there: DROP SCHEMA {self._store.address.schema} CASCADE"
        raise RequestError("a store on a server is not removed from here", remedy)


# ---------------------------------------------------------------- the store

_DEFAULT = Tuning()
_RECEIPT_MILLISECONDS = 50
"""Receipts wait this long for rows that others write."""


class PostgresStore:
    """As durable as the server's `synchronous_commit`. Any number of processes may have one store open."""

    def __init__(self, dsn: str, tuning: Tuning = _DEFAULT, engine: Engine | None = None) -> None:
        """`engine`: a distributed index of words and vectors, for the namespaces for which it was created."""
        self.address = parse_address(dsn)
        self.tuning = tuning
        self.database = Database(self.address, tuning)
        self.index = None if engine is None else Index(engine, self.database)
        self.feeder = None if engine is None else Feeder(self.database, engine, tuning)
        self.leases = Leases(self.database)
        self.maintenance = PostgresMaintenance(self)
        self.portable = PostgresPortable(self)
        self._caches = Caches()
        self._linkers: dict[int, Linker] = {}
        self._writers: dict[str, Turns] = {}

    def open(self, *, create: bool = True) -> None:
        """Connects and migrates the schema; without `create`, StoreNotFound if there is none."""
        self.database.open(create=create)
        if self.database.read(is_analysed_otherwise):
            self.maintenance.analyse_again()

    @property
    def concurrent_searches(self) -> int:
        return CONNECTIONS

    def snapshot(self, namespace: str, *, seconds: float | None = None) -> PostgresSnapshot:
        """Opens a snapshot; `seconds` is the deadline of all its reads."""
        seconds = seconds or limits.READ_SECONDS
        return PostgresSnapshot(self.database, namespace, seconds, self._caches, self.tuning, self.index)

    @contextmanager
    def transaction(self, namespace: str, *, names: bool = False) -> Generator[PostgresTransaction]:
        writer = self._writers.setdefault(namespace, Turns(1))
        with writer.turn(limits.BUSY_SECONDS) as mine, self.database.translated():
            if not mine:
                raise StoreBusy(f"{namespace} has been written to for {limits.BUSY_SECONDS:g} s", "Try again")
            db, rows = self.database.begin(f"BEGIN; {namespaces.finding(namespace, lock=True)}")
            tx: PostgresTransaction | None = None
            try:
                with self.database.committed(db):
                    ns = namespaces.in_answer(rows, namespace)
                    tx = PostgresTransaction(db, ns if ns.exists else namespaces.awaited(db, ns), self._linkers)
                    yield tx
                    tx.store()
            except BaseException:
                if tx is not None:
                    self._linkers.pop(tx.ns.id, None)  # it may know names that were rolled back
                raise

    def add_receipts(
        self, namespace: str, supplies: Mapping[str, Receipt], items: Mapping[int, int], now: datetime
    ) -> bool:
        try:
            with self.database.write() as db:
                db.run(f"SET LOCAL lock_timeout = {_RECEIPT_MILLISECONDS}")
                sql_namespaces.add_receipts(db, namespace, supplies, items, now)
            return True
        except StoreBusy:
            return False

    def namespaces(self) -> dict[str, int]:
        return {ns.name: ns.items - ns.superseded for ns in self.database.read(namespaces.everyone)}

    def status(self) -> dict[str, Json]:
        facts = self.database.read(store_status)
        return {"store": self.address.shown, **facts, "embedding_worker": self.leases.worker_is_running()}

    def close(self) -> None:
        if self.index is not None:
            self.index.close()
        self.database.close()
