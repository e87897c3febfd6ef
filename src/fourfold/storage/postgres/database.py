"""A pool of connections to one PostgreSQL store, which turns errors of the server into errors of Fourfold."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from fourfold import limits
from fourfold.errors import FourfoldError, StoreBusy, StoreNotFound, StoreUnavailable
from fourfold.storage.postgres import schema
from fourfold.storage.postgres.address import Address
from fourfold.storage.postgres.connection import GRACE_SECONDS, Connection, NoAnswer, gone, translated
from fourfold.storage.postgres.sql import Db
from fourfold.storage.postgres.tuning import Tuning
from fourfold.storage.values import HOW_TO_CREATE, Deadline

T = TypeVar("T")

CONNECTIONS = 8
LONG_SECONDS = 3600.0
"""Timeout of one statement that may take long, such as building an index."""
_RETRY_SECONDS = 0.1
_KEPT_ALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_SETTINGS = {
    "client_min_messages": "warning",
    "jit": "off",
    "hnsw.iterative_scan": "relaxed_order",  # searches on until enough rows pass the filter
    "hnsw.ef_search": "220",
    "hnsw.max_scan_tuples": "100000",
}


class Database:
    """Opened by its first use. A broken connection is replaced. Nothing is sent twice, except what opens a transaction
    and what `read` does."""

    def __init__(self, address: Address, tuning: Tuning) -> None:
        self.address = address
        self._tuning = tuning
        self._path = ""
        self._pool: ConnectionPool[Connection] | None = None
        self._opening = threading.Lock()
        self._asking = threading.Lock()
        self._spare: Connection | None = None
        self._closed = False

    # ------------------------------------------------------------ opening

    def open(self, *, create: bool = True) -> ConnectionPool[Connection]:
        if self._pool is not None:
            return self._pool
        with self._opening:
            if self._closed:
                raise self._was_closed()
            if self._pool is None:
                with self.translated():
                    self._pool = self._opened(create=create)
        return self._pool

    def _opened(self, *, create: bool) -> ConnectionPool[Connection]:
        timeout = max(1, int(limits.BUSY_SECONDS))
        with Connection.connect(self.address.dsn, autocommit=True, connect_timeout=timeout) as db:
            db.shown, db.wait_seconds = self.address.shown, LONG_SECONDS  # a migration rewrites tables
            if not create and not schema.exists(db, self.address.schema):
                raise StoreNotFound(f"no store at {self.address.shown}", HOW_TO_CREATE)
            schema.migrate(db, self.address.schema)
            self._path = schema.search_path(db, self.address.schema)
        pool = ConnectionPool(
            make_conninfo(self.address.dsn, connect_timeout=timeout, **_KEPT_ALIVE),
            connection_class=Connection,
            min_size=1,
            max_size=CONNECTIONS,
            open=False,
            timeout=limits.BUSY_SECONDS,
            kwargs={"autocommit": True},
            configure=self._configure,
            reconnect_timeout=limits.BUSY_SECONDS,
        )
        pool.open()
        return pool

    def _configure(self, db: Connection) -> None:
        db.shown = self.address.shown
        idle = str(int(4 * limits.READ_SECONDS * 1000))
        settings = {"search_path": self._path, **_timeouts(), "idle_in_transaction_session_timeout": idle, **_SETTINGS}
        db.value("SELECT '[1]'::vector IS NULL")  # loads pgvector, whose settings are unknown before
        _set(db, {**settings, **self._tuning.server_settings})

    def close(self) -> None:
        self._closed = True
        if self._spare is not None:
            self._spare.close()
        if self._pool is not None:
            self._pool.close()

    # ------------------------------------------------------------ connections

    def _take(self, until: float = math.inf) -> Connection:
        seconds = max(0.1, min(limits.BUSY_SECONDS, until - time.monotonic()))
        try:
            return self.open().getconn(seconds)
        except PoolClosed as error:
            raise self._was_closed() from error
        except PoolTimeout as error:
            raise self._why_no_connection() from error

    def release(self, db: Connection) -> None:
        """Returns a connection to the pool, which replaces a broken one."""
        db.deadline, db.wait_seconds = Deadline(), None
        self.open().putconn(db)

    def begin(self, sql: str, deadline: Deadline | None = None) -> tuple[Connection, list[Any]]:
        """Opens a transaction with its first statement, in one round trip; returns that statement's rows.

        A connection that broke while it was idle is replaced: nothing was done on it yet.
        """
        until = time.monotonic() + limits.BUSY_SECONDS
        while True:
            db = self._take(math.inf if deadline is None else deadline.until)
            db.deadline = deadline or Deadline()
            try:
                cursor = db.execute(sql.encode(), prepare=False)
                while cursor.nextset():
                    pass
                return db, cursor.fetchall() if cursor.description else []
            except BaseException as error:
                broken = isinstance(error, psycopg.OperationalError) and db.closed and not isinstance(error, NoAnswer)
                failure = db.failure(error) if isinstance(error, psycopg.Error) else error
                self.end(db, commit=False)
                if not broken or self._closed or time.monotonic() > until:
                    raise failure from error
            time.sleep(_RETRY_SECONDS)

    def end(self, db: Connection, *, commit: bool = True) -> None:
        """Ends a transaction and releases its connection."""
        try:
            if commit:
                db.commit()
            elif not db.closed:
                with suppress(psycopg.Error):
                    db.rollback()
        except psycopg.Error as error:
            raise db.failure(error) from error
        finally:
            self.release(db)

    @contextmanager
    def connection(self) -> Generator[Connection]:
        db = self._take()
        try:
            yield db
        finally:
            self.release(db)

    def read(self, work: Callable[[Db], T]) -> T:
        """Calls `work(db)` outside of a transaction, and retries it on another connection if the connection broke."""
        until = time.monotonic() + limits.BUSY_SECONDS
        while True:
            db: Connection | None = None
            try:
                with self.translated(), self.connection() as db:
                    db.deadline = Deadline(until=time.monotonic() + limits.READ_SECONDS + GRACE_SECONDS)
                    return work(db)
            except StoreUnavailable:
                if self._closed or db is None or not db.closed or time.monotonic() > until:
                    raise
                time.sleep(_RETRY_SECONDS)

    def aside(self, work: Callable[[Db], T]) -> T:
        """Calls `work(db)` on a connection that is not in the pool: for callers that hold one while they wait."""
        with self._asking, self.translated():
            if self._spare is None or self._spare.closed:
                timeout = max(1, int(limits.BUSY_SECONDS))
                dsn = make_conninfo(self.address.dsn, connect_timeout=timeout, **_KEPT_ALIVE)
                self._spare = Connection.connect(dsn, autocommit=True)
                self._configure(self._spare)
            return work(self._spare)

    @contextmanager
    def write(self) -> Generator[Db]:
        """A transaction that is committed at the end of the block, or has no effect."""
        with self.translated():
            db, _ = self.begin("BEGIN")
            with self.committed(db):
                yield db

    @contextmanager
    def long_snapshot(self) -> Generator[Db]:
        """One snapshot of all namespaces, for work that may take long."""
        with self.translated():
            db, _ = self.begin(f"{READ_ONLY}; SET LOCAL statement_timeout = 0")
            db.wait_seconds = LONG_SECONDS
            with self.committed(db):
                yield db

    @contextmanager
    def committed(self, db: Connection) -> Generator[None]:
        """Ends the transaction that `begin` opened."""
        try:
            yield
        except BaseException:
            self.end(db, commit=False)
            raise
        self.end(db)

    @contextmanager
    def long_work(self) -> Generator[Db]:
        """A connection for statements that may take long, outside of a transaction."""
        with self.translated(), self.connection() as db:
            db.wait_seconds = LONG_SECONDS
            _set(db, dict.fromkeys(_timeouts(), "0"))
            try:
                yield db
            finally:
                if not db.closed:
                    _set(db, _timeouts())

    def _why_no_connection(self) -> FourfoldError:
        """The pool only knows that it waited; connecting without it tells the reason."""
        try:
            with self.translated():
                Connection.connect(self.address.dsn, connect_timeout=2).close()
        except FourfoldError as error:
            return error
        return StoreBusy(f"all {CONNECTIONS} connections were busy for {limits.BUSY_SECONDS:g} s", "Try again")

    # ------------------------------------------------------------ errors

    @contextmanager
    def translated(self) -> Generator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise (translated(error, self.address.shown) or error) from error
        except OSError as error:
            raise gone(error, self.address.shown) from error

    def _was_closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self.address.shown} was closed", "Open it again")


READ_ONLY = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def _timeouts() -> dict[str, str]:
    return {
        "statement_timeout": str(int(limits.READ_SECONDS * 1000)),
        "lock_timeout": str(int(limits.BUSY_SECONDS * 1000)),
    }


def _set(db: Db, settings: Mapping[str, str]) -> None:
    sets = ", ".join(["set_config(?, ?, false)"] * len(settings))
    db.run(f"SELECT {sets}", *(part for setting in settings.items() for part in setting))
