"""One SQLite file: connections, transactions, and SQLite's errors in Fourfold's words."""

from __future__ import annotations

import errno
import json
import os
import random
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import apsw

from fourfold import owner_only
from fourfold.errors import (
    DamagedStore,
    FourfoldError,
    ReadOnlyStore,
    StorageFull,
    StoreBusy,
    StoreReplaced,
    StoreUnavailable,
)
from fourfold.limits import BUSY_SECONDS
from fourfold.model import Json
from fourfold.stores.globs import matches
from fourfold.stores.sqlite import schema

_SUFFIXES = ("", "-wal", "-shm")
"""Of the files that an open database consists of."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CACHE_KIB = 16 * 1024
"""Of the writer. Readers have the file mapped, and need no copies of its pages."""
_MMAP_BYTES = 0x7FFF0000
"""The most that SQLite maps."""
_LOG_BYTES = 64 * 1024 * 1024
"""A write-ahead log of this length is worth waiting for readers, a moment, for it to begin anew."""
_LOG_SECONDS = 0.25
_LOG_PAUSE = 10.0
"""Where a reader stays for longer, that is tried again after so many seconds."""


_WORLD = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.IOError,
    apsw.ProtocolError,
    apsw.ConnectionClosedError,
    json.JSONDecodeError,
    OSError,
)
"""What the world does to us. Anything else apsw raises is a bug of ours and stays what it is."""


class Job:
    """Reading for somebody who may stop waiting for it."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._db: apsw.Connection | None = None
        self._called_off = False

    @contextmanager
    def on(self, db: apsw.Connection) -> Generator[None]:
        with self._changing:
            if self._called_off:
                raise apsw.InterruptError("called off before it began")
            self._db = db
        try:
            yield
        finally:
            with self._changing:
                self._db = None

    def call_off(self) -> None:
        """SQLite stops at once, with an InterruptError that nobody sees."""
        with self._changing:
            self._called_off = True
            if self._db is not None:
                self._db.interrupt()


class Database:
    """Readers have a connection per thread and never wait; writers take turns and begin IMMEDIATE.

    A commit is on disk when it returns (WAL, synchronous=FULL).
    """

    def __init__(self, path: Path) -> None:
        self.path = path = path.absolute()
        self._files = tuple(str(path) + suffix for suffix in _SUFFIXES)
        self._inodes: list[tuple[int, int]] = []
        """Device and inode of each file, as this process has it open."""
        self._local = threading.local()
        self._open: list[apsw.Connection] = []
        self._writing = threading.Lock()
        self._closing = threading.Lock()
        self._log = path.with_name(f"{path.name}-wal")
        self._log_next = 0.0
        """When it may be shortened next."""
        with translated(path):
            _create(path)
        self._writer = self._connect()
        with translated(path):
            self._writer.pragma("cache_size", -_CACHE_KIB)
            schema.migrate(self._writer, path)
            self._inodes = self._inodes_now()

    def _connect(self) -> apsw.Connection:
        """Where two make a new file at once, SQLite refuses one of them without waiting: it tries again."""
        patience, attempts = _Patience(), 0
        with translated(self.path):
            while True:
                self._require_same_files()
                db = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
                try:
                    self._prepare(db)
                    self._require_same_files()
                    break
                except BaseException as error:
                    db.close()
                    if not isinstance(error, apsw.BusyError) or not patience(attempts):
                        raise
                    attempts += 1
        with self._closing:
            self._open.append(db)
        return db

    def _prepare(self, db: apsw.Connection) -> None:
        db.set_busy_handler(_Patience())
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
        db.pragma("fullfsync", True)  # macOS: otherwise a sync ends in the disk's cache
        db.pragma("foreign_keys", True)
        db.pragma("mmap_size", _MMAP_BYTES)
        db.pragma("temp_store", "memory")
        db.create_scalar_function("regexp", _regexp, 2, deterministic=True)

    @contextmanager
    def read(self, job: Job | None = None) -> Generator[apsw.Connection]:
        """This thread's connection in one snapshot: what is read inside belongs together."""
        db = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = self._connect()
        with translated(self.path):
            if getattr(self._local, "reading", False):
                yield db
                return
            self._require_same_files()
            db.execute("BEGIN")
            self._local.reading = True
            try:
                with (job or Job()).on(db):  # nothing interrupts what begins and ends the transaction
                    yield db
            finally:
                self._local.reading = False
                _roll_back(db)

    @contextmanager
    def write(self) -> Generator[apsw.Connection]:
        """The one writer of this process, in a transaction that is committed at the end or leaves nothing."""
        with self._writing, translated(self.path):
            db = self._writer
            db.execute("BEGIN IMMEDIATE")
            try:
                schema.known_version(db)  # another process may have migrated it since this one opened it
                yield db
                self._require_same_files()
                db.execute("COMMIT")
            except BaseException:
                _roll_back(db)
                raise
            self._shorten_log(db)

    def _require_same_files(self) -> None:
        """Raises StoreReplaced if the store's path leads to other files than those that this process has open.

        SQLite would go on with the open files: what it confirms would be lost with them.
        """
        if self._inodes and self._inodes_now() != self._inodes:
            raise StoreReplaced(
                f"{self.path.parent} was deleted, renamed or replaced while it was open",
                "Nothing was written. Close the store, or restart this process, and open the store that is meant",
            )

    def _inodes_now(self) -> list[tuple[int, int]]:
        try:
            found = map(os.stat, self._files)
            return [(file.st_dev, file.st_ino) for file in found]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _shorten_log(self, db: apsw.Connection) -> None:
        """SQLite begins its log anew only when nobody reads from it as a write begins, which may never be."""
        with suppress(OSError, apsw.Error):  # what was committed is safe in it, however long it is
            if self._log.stat().st_size < _LOG_BYTES or time.monotonic() < self._log_next:
                return
            db.set_busy_handler(_Patience(_LOG_SECONDS))
            try:
                busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
            finally:
                db.set_busy_handler(_Patience())
            self._log_next = time.monotonic() + _LOG_PAUSE if busy else 0.0

    def vacuum(self) -> None:
        """Writes the file anew without what was deleted, and empties the write-ahead log. Nobody may be reading."""
        with self._writing, translated(self.path):
            self._writer.execute("VACUUM")
            busy, *_ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
            if busy:
                raise apsw.BusyError("others are reading")

    def close(self) -> None:
        with self._closing:
            for db in self._open:
                db.close()
            self._open.clear()


def _create(path: Path) -> None:
    """Makes the file if it is missing; SQLite gives the files that it puts beside it the same mode."""
    owner_only.create_file(path)
    for suffix in _SUFFIXES:
        owner_only.tighten(path.with_name(path.name + suffix))


def _roll_back(db: apsw.Connection) -> None:
    while db.in_transaction:  # SQLite may have ended it, on an error of the disk
        with suppress(apsw.InterruptError):  # meant for a statement that had just ended
            db.execute("ROLLBACK")


class _Patience:
    """Waits for another process's lock in short random steps. SQLite's own timeout sleeps longer and longer, while who
    has just written takes the lock again at once: among 8 writers one waited 5 s for its turn, with this 0.1 s."""

    def __init__(self, seconds: float = BUSY_SECONDS) -> None:
        self._seconds = seconds
        self._until = 0.0

    def __call__(self, attempts: int) -> bool:
        if attempts == 0:
            self._until = time.monotonic() + self._seconds
        time.sleep(random.uniform(0.001, 0.004))  # noqa: S311
        return time.monotonic() < self._until


@contextmanager
def translated(path: Path) -> Generator[None]:
    try:
        yield
    except _WORLD as error:
        raise _translate(error, path) from error


def _translate(error: Exception, path: Path) -> FourfoldError:
    what = str(error) or type(error).__name__
    match error:
        case OSError(errno=errno.ENOSPC):
            return StorageFull(f"no space left for {error.filename or path}", "Free some space; what is stored is safe")
        case OSError(errno=errno.EROFS | errno.EACCES | errno.EPERM):
            return ReadOnlyStore(f"{error.filename or path} cannot be written", "Check the permissions of the folder")
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"another process has been using {path} for {BUSY_SECONDS:.0f} s", "Try again")
        case apsw.ConnectionClosedError():
            return StoreUnavailable(f"{path.parent} was closed", "Open it again")
        case apsw.FullError():
            return StorageFull(f"no space left for {path}", "Free some space; what was confirmed is safe")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return ReadOnlyStore(f"{path} cannot be written", "Check the permissions of the folder and its files")
        case apsw.CorruptError() | apsw.NotADBError() | json.JSONDecodeError():
            return DamagedStore(
                f"{path} is damaged ({what})",
                "Restore a backup into a new folder: fourfold --store FOLDER restore FILE",
            )
        case _:
            return StoreUnavailable(
                f"{path} cannot be used ({what})", "Check that the folder exists and can be written"
            )


def rows(db: apsw.Connection, sql: str, *bindings: Any) -> list[Any]:
    """All rows, as tuples."""
    return cast("list[Any]", db.execute(sql, bindings).fetchall())


def value(db: apsw.Connection, sql: str, *bindings: Any) -> Any:
    """The first column of the first row, or None."""
    found = db.execute(sql, bindings).fetchone()
    return found[0] if found else None


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


@lru_cache(64)  # what was stored together has the same
def moment(stamp: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stamp)


def dumps(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _regexp(*arguments: Any) -> bool:
    glob, path = arguments
    return matches(glob, path)
