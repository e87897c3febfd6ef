"""The store for a team: one PostgreSQL server with pgvector. It holds rows and indexes; scores are computed here."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import cached_property
from typing import Self

from psycopg.pq import TransactionStatus

from fourfold import limits
from fourfold.embed.windows import Windows
from fourfold.errors import RequestError, StoreBusy
from fourfold.model import Filters, Json, Vector
from fourfold.ranking.fusion import Expansion
from fourfold.scheduling import Turns
from fourfold.storage.engines.protocol import Engine
from fourfold.storage.postgres import namespaces, vectors
from fourfold.storage.postgres.connection import GRACE_SECONDS, Connection
from fourfold.storage.postgres.database import CONNECTIONS, READ_ONLY, Database, Leases, Tuning, parse_address
from fourfold.storage.postgres.index_feed import Feeder
from fourfold.storage.postgres.index_log import Candidates, Index
from fourfold.storage.postgres.links import PostgresGraph, TagUses
from fourfold.storage.postgres.maintenance import PostgresMaintenance, is_analysed_otherwise, store_status
from fourfold.storage.postgres.namespaces import PostgresTransaction
from fourfold.storage.postgres.postings import Part, Shelf
from fourfold.storage.postgres.vectors import Sample, VectorSearch
from fourfold.storage.postgres.words import KeywordSearch
from fourfold.storage.sql.dialect import Condition
from fourfold.storage.sql.linking import Linker
from fourfold.storage.sql.namespaces import add_receipts
from fourfold.storage.sql.portable import SqlPortable, export_records
from fourfold.storage.sql.reading import Cache, SqlSnapshot, where
from fourfold.storage.values import Deadline, Receipt, Record
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
        self.words, self.vectors = KeywordSearch(self), VectorSearch(self)
        self.graph, self.tags = PostgresGraph(self), TagUses(self)

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
        return KeywordSearch(self).query(text)

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
                add_receipts(db, namespace, supplies, items, now)
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
