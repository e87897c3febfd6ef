"""One PostgreSQL store: its address, thresholds, a pool of connections, transactions and leases.

Errors of the server become errors of Fourfold.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from fourfold import addresses, limits
from fourfold.errors import FourfoldError, InvalidSetting, StoreBusy, StoreNotFound, StoreUnavailable
from fourfold.storage.postgres import schema
from fourfold.storage.postgres.connection import GRACE_SECONDS, Connection, NoAnswer, gone, translated
from fourfold.storage.values import HOW_TO_CREATE, Deadline, Pace

# ---------------------------------------------------------------- the address

SCHEMES = ("postgresql", "postgres")
_SCHEMA = "fourfold"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}")


@dataclass(frozen=True, slots=True)
class Address:
    dsn: str = field(repr=False)
    """Parameters for libpq as keywords and values, so that its errors cannot quote the address."""
    schema: str
    shown: str
    """The address without user and password."""


def parse_address(text: str) -> Address:
    """`postgresql://user:password@host:port/database?schema=NAME`; every other parameter is libpq's."""
    url = addresses.parse(text)
    if url.scheme not in SCHEMES:
        raise InvalidSetting(f"{url.scheme}:// is not a PostgreSQL address", "Write postgresql://HOST/DATABASE")
    parameters = dict(url.parameters)
    schema = parameters.pop("schema", _SCHEMA)
    if not _NAME.fullmatch(schema):
        raise InvalidSetting("the schema of the address has no plain name", "Use a-z, 0-9 and _, up to 51 characters")
    if not parameters.keys() <= {option.keyword.decode() for option in pq.Conninfo.get_defaults()}:
        remedy = "Use libpq's names, such as sslmode; the password goes before the @: USER:PASSWORD@HOST"
        raise InvalidSetting("the address has a parameter that PostgreSQL does not know", remedy)
    return Address(make_conninfo(**(_parts(url) | parameters)), schema, url.shown)


def _parts(url: addresses.Url) -> dict[str, str]:
    """The parts of the URL under libpq's names."""
    parts = {
        "user": url.user,
        "password": url.password,
        "host": ",".join(host for host, _ in url.hosts),
        "port": ",".join(port for _, port in url.hosts),
        "dbname": url.path.removeprefix("/"),
    }
    return {name: value for name, value in parts.items() if value and value.strip(",")}


# ---------------------------------------------------------------- tuning


@dataclass(frozen=True, slots=True)
class Tuning:
    pace: Pace = field(default_factory=Pace)
    postings_items: int = 2_000
    """A namespace of this many items gets postings."""
    postings_tail_texts: int = 1_000
    """This many texts that are newer than the postings make a new part."""
    postings_uses: int = 500_000
    """The rarest words of a query that have this many uses together propose; commoner ones only count in the scores."""
    first_stage_uses: int = 1_000
    """Without postings, the rows of this many uses of words are read first, then four times as many, and so on."""
    vector_index_items: int = 2_000
    """A namespace of this many vectors gets an HNSW index; a smaller one is searched exactly."""
    narrow_items: int = 5_000
    """Up to this many items that pass a filter are all scored, without an index."""
    feed_changes: int = 200
    """This many changes that a distributed index lacks are carried there."""
    feed_seconds: float = 10.0
    """Fewer changes are carried there when the first is this old."""
    feed_batch_items: int = 500
    feed_marks: int = 1_000
    """A node that has lost at most this many batches gets them again; with more, the index is rebuilt."""
    feed_turn_seconds: float = 20.0
    """Feeding yields to other work under the lease after this long."""
    tail_items: int = 10_000
    """With more changes that the index lacks, PostgreSQL answers from its own indexes."""
    check_grace_seconds: float = 2.0
    """A difference between index and rows counts if it is still there after this long."""
    server_settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further settings of every connection."""


# ---------------------------------------------------------------- connections

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
                cursor = db.cursor().execute(sql.encode(), prepare=False)
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

    def read(self, work: Callable[[Connection], T]) -> T:
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

    def aside(self, work: Callable[[Connection], T]) -> T:
        """Calls `work(db)` on a connection that is not in the pool: for callers that hold one while they wait."""
        with self._asking, self.translated():
            if self._spare is None or self._spare.closed:
                timeout = max(1, int(limits.BUSY_SECONDS))
                dsn = make_conninfo(self.address.dsn, connect_timeout=timeout, **_KEPT_ALIVE)
                self._spare = Connection.connect(dsn, autocommit=True)
                self._configure(self._spare)
            return work(self._spare)

    @contextmanager
    def write(self) -> Generator[Connection]:
        """A transaction that is committed at the end of the block, or has no effect."""
        with self.translated():
            db, _ = self.begin("BEGIN")
            with self.committed(db):
                yield db

    @contextmanager
    def long_snapshot(self) -> Generator[Connection]:
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
    def long_work(self) -> Generator[Connection]:
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


def _set(db: Connection, settings: Mapping[str, str]) -> None:
    sets = ", ".join(["set_config(?, ?, false)"] * len(settings))
    db.run(f"SELECT {sets}", *(part for setting in settings.items() for part in setting))


# ---------------------------------------------------------------- leases

_KEY = "hashtextextended(?, 4)"
_IS_LOCKED = f"""
    SELECT EXISTS (
        SELECT 1 FROM pg_locks, (SELECT {_KEY} AS key) AS wanted
        WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid::bigint << 32) | objid::bigint = key)"""  # noqa: S608  (constants)


@dataclass(slots=True)
class _Held:
    """A connection that has the lock, and how many threads of this process rely on it."""

    holders: int = 0
    stack: ExitStack = field(default_factory=ExitStack)


class Leases:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[str | None, _Held] = {}
        self._changing = threading.Lock()

    @contextmanager
    def held(self, namespace: str | None) -> Generator[bool]:
        """Whether this process has the lease; it never waits. The threads of one process share it.

        None is the lease of the embedding worker.
        """
        held = self._taken(namespace)
        try:
            yield held is not None
        finally:
            if held is not None:
                with self._changing:
                    held.holders -= 1
                    if not held.holders:
                        del self._held[namespace]
                        held.stack.close()

    def _taken(self, namespace: str | None) -> _Held | None:
        with self._changing:
            held = self._held.get(namespace) or _Held()
            if not held.holders and not held.stack.enter_context(self._locked(namespace)):
                held.stack.close()
                return None
            held.holders += 1
            self._held[namespace] = held
            return held

    @contextmanager
    def _locked(self, namespace: str | None) -> Generator[bool]:
        key = self._key(namespace)
        with self._database.connection() as db:
            locked = bool(db.value(f"SELECT pg_try_advisory_lock({_KEY})", key))
            try:
                yield locked
            finally:
                if locked:
                    with suppress(StoreUnavailable):  # the server has released it
                        db.run(f"SELECT pg_advisory_unlock({_KEY})", key)

    def worker_is_running(self) -> bool:
        """Whether any process, this one included, is the embedding worker. Takes no lock."""
        return self._database.read(lambda db: bool(db.value(_IS_LOCKED, self._key(None))))

    def _key(self, namespace: str | None) -> str:
        """No namespace has an empty name, so the key of the worker is unique."""
        return f"{self._database.address.schema}/{namespace or ''}"
