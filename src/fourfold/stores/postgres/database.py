"""A pool of connections to one PostgreSQL store, and the server's errors in Fourfold's words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar, cast

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from fourfold import limits
from fourfold.errors import (
    DamagedStore,
    FourfoldError,
    InvalidItem,
    InvalidSetting,
    ReadOnlyStore,
    StorageFull,
    StoreBusy,
    StoreNotFound,
    StoreUnavailable,
    TimedOut,
)
from fourfold.stores.base import HOW_TO_CREATE
from fourfold.stores.postgres import schema
from fourfold.stores.postgres.address import Address
from fourfold.stores.postgres.sql import Db, run, value

T = TypeVar("T")

_CONNECTIONS = 8
_RETRY_SECONDS = 0.1
_KEPT_ALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
SETTINGS = {
    "client_min_messages": "warning",
    "jit": "off",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "220",
    "hnsw.max_scan_tuples": "100000",
}
"""Of every connection. A search in a vector index goes on until enough rows pass the filter."""


class Database:
    """Opened when it is first used. A connection that broke is replaced; reads are asked again, writes are not, unless
    nothing of them was sent."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.has_textsearch = False
        self._path = ""
        self._pool: AsyncConnectionPool[Db] | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    # ------------------------------------------------------------ opening

    async def open(self, *, create: bool = True) -> AsyncConnectionPool[Db]:
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._closed:
                raise self._was_closed()
            if self._pool is None:
                with self.translated():
                    self._pool = await self._opened(create=create)
        return self._pool

    async def _opened(self, *, create: bool) -> AsyncConnectionPool[Db]:
        timeout = max(1, int(limits.BUSY_SECONDS))
        db = await psycopg.AsyncConnection.connect(
            self.address.dsn, autocommit=True, **cast("Any", {"connect_timeout": timeout})
        )
        try:
            if not create and not await schema.exists(db, self.address.schema):
                raise StoreNotFound(f"no store at {self.address.shown}", HOW_TO_CREATE)
            await schema.migrate(db, self.address.schema)
            await self._extend(db)
            self._path = await schema.search_path(db, self.address.schema)
        finally:
            await db.close()
        pool = AsyncConnectionPool(
            make_conninfo(self.address.dsn, connect_timeout=timeout, **_KEPT_ALIVE),
            min_size=1,
            max_size=_CONNECTIONS,
            open=False,
            timeout=limits.BUSY_SECONDS,
            kwargs={"autocommit": True},
            configure=self._configure,
            reconnect_timeout=limits.BUSY_SECONDS,
        )
        await pool.open()
        return cast("AsyncConnectionPool[Db]", pool)

    async def _extend(self, db: Db) -> None:
        """pg_textsearch, where the server offers it and has it loaded."""
        if await value(db, "SELECT current_setting('pg_textsearch.library_version', true)") is None:
            return
        with suppress(errors.InsufficientPrivilege):
            async with db.transaction():
                await schema.extend(db, "pg_textsearch")
        self.has_textsearch = bool(await value(db, "SELECT 1 FROM pg_extension WHERE extname = 'pg_textsearch'"))

    async def _configure(self, db: Db) -> None:
        settings = {
            "search_path": self._path,
            **_timeouts(),
            "idle_in_transaction_session_timeout": str(int(4 * limits.READ_SECONDS * 1000)),
            **SETTINGS,
        }
        await value(db, "SELECT '[1]'::vector IS NULL")  # loads pgvector, whose settings are unknown before
        await _set(db, settings)

    async def close(self) -> None:
        self._closed = True
        if self._pool is not None:
            await self._pool.close()

    # ------------------------------------------------------------ using

    async def read(self, work: Callable[[Db], Awaitable[T]]) -> T:
        """`work(db)` outside of any transaction; again with another connection, if the server went away."""
        until = time.monotonic() + limits.BUSY_SECONDS
        while True:
            db: Db | None = None
            try:
                with self.translated():
                    async with self.connection() as db:
                        return await work(db)
            except StoreUnavailable:
                if self._closed or db is None or not db.closed or time.monotonic() > until:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[Db]:
        """What is read inside belongs together."""
        with self.translated():
            async with self.connection() as db, db.transaction():
                await run(db, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                await run(db, "SET LOCAL statement_timeout = 0")
                yield db

    @asynccontextmanager
    async def unhurried(self) -> AsyncGenerator[Db]:
        """A connection for work that takes long, outside of any transaction."""
        with self.translated():
            async with self.connection() as db:
                await _set(db, dict.fromkeys(_timeouts(), "0"))
                try:
                    yield db
                finally:
                    if not db.closed:
                        await _set(db, _timeouts())

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[Db]:
        """A transaction that is committed at the end or leaves nothing."""
        with self.translated():
            async with self._living() as db, db.transaction():
                yield db

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Db]:
        pool = await self.open()
        try:
            db = await pool.getconn(limits.BUSY_SECONDS)
        except PoolClosed as error:
            raise self._was_closed() from error
        except PoolTimeout as error:
            raise await self._why_no_connection() from error
        try:
            yield db
        finally:
            await pool.putconn(db)

    @asynccontextmanager
    async def _living(self) -> AsyncGenerator[Db]:
        """A connection that answers: one that broke while it was idle is not handed to a write."""
        while True:
            async with self.connection() as db:
                try:
                    await run(db, "SELECT 1")
                except psycopg.OperationalError:
                    if not db.closed:
                        raise
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                yield db
                return

    async def _why_no_connection(self) -> FourfoldError:
        """The pool only knows that it waited; a connection of our own tells the reason."""
        try:
            with self.translated():
                db = await psycopg.AsyncConnection.connect(self.address.dsn, **cast("Any", {"connect_timeout": 2}))
                await db.close()
        except FourfoldError as error:
            return error
        return StoreBusy(f"all {_CONNECTIONS} connections were busy for {limits.BUSY_SECONDS:g} s", "Try again")

    # ------------------------------------------------------------ errors

    @contextmanager
    def translated(self) -> Generator[None]:
        try:
            yield
        except psycopg.Error as error:
            known = translate(error, self.address)
            if known is None:
                raise
            raise known from error
        except OSError as error:
            raise _gone(error, self.address) from error

    def _was_closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self.address.shown} was closed", "Open it again")


def _timeouts() -> dict[str, str]:
    return {
        "statement_timeout": str(int(limits.READ_SECONDS * 1000)),
        "lock_timeout": str(int(limits.BUSY_SECONDS * 1000)),
    }


async def _set(db: Db, settings: Mapping[str, str]) -> None:
    sets = ", ".join(["set_config(%s, %s, false)"] * len(settings))
    await run(db, f"SELECT {sets}", *(part for setting in settings.items() for part in setting))


def translate(error: psycopg.Error, address: Address) -> FourfoldError | None:
    """The server's error in Fourfold's words; None for what can only be a bug of ours."""
    where, what = address.shown, str(error).strip().partition("\n")[0]
    match error:
        case errors.DiskFull() | errors.OutOfMemory():
            return StorageFull(f"the server of {where} has no space left", "Free some; what was confirmed is safe")
        case errors.QueryCanceled():
            return TimedOut(f"{where} did not answer within {limits.READ_SECONDS:g} s", "Ask for less, or try again")
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return StoreBusy(f"another client has been writing to {where} for too long", "Try again")
        case errors.TooManyConnections() | errors.ConfigurationLimitExceeded():
            return StoreBusy(f"{where} takes no more connections", "Close other clients, or raise max_connections")
        case errors.ReadOnlySqlTransaction() | errors.InsufficientPrivilege():
            return ReadOnlyStore(f"{where} cannot be written ({what})", "Grant the rights that docs/postgres.md lists")
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification() | errors.InvalidCatalogName():
            return StoreUnavailable(f"{where} lets nobody in ({what})", "Check user, password and database")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return DamagedStore(f"{where} is damaged ({what})", "Restore a backup of the server")
        case errors.ProgramLimitExceeded():
            return InvalidItem(f"the server cannot index that ({what})", "Shorten names and tags")
        case errors.UndefinedFile() | errors.UndefinedObject() | errors.FeatureNotSupported():
            return InvalidSetting(f"the server of {where} lacks something ({what})", "It needs pgvector 0.8 or newer")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return _operational(error, address, what)
        case _:
            return None


def _operational(error: psycopg.Error, address: Address, what: str) -> FourfoldError:
    if "too many clients" in what or "remaining connection slots" in what or "too many connections" in what:
        return StoreBusy(f"{address.shown} takes no more connections", "Close other clients, or raise max_connections")
    return _gone(error, address)


def _gone(error: Exception, address: Address) -> StoreUnavailable:
    what = str(error).strip().partition("\n")[0] or type(error).__name__
    return StoreUnavailable(
        f"{address.shown} cannot be reached ({what})",
        "Check that the server runs; what was not confirmed may or may not be stored, and can be stored again",
    )
