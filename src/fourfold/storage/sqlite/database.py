"""One SQLite file: connections, transactions, and SQLite's errors in Fourfold's words."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar
from weakref import ref

import apsw

from fourfold import errors, limits, owner_only
from fourfold.filters import Test
from fourfold.index.log_tail import IndexTuning
from fourfold.limits import BUSY_SECONDS
from fourfold.model import Json
from fourfold.native.bindings import Stamps
from fourfold.storage.sql.dialect import Condition, Db, dumps
from fourfold.storage.sql.reading import SIGNS, joined
from fourfold.storage.sqlite import checksums, schema
from fourfold.storage.values import Deadline, Pace
from fourfold.text.globs import matches

# ---------------------------------------------------------------- one connection


WORLD = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.IOError,
    apsw.NoMemError,
    apsw.ProtocolError,
    apsw.ConnectionClosedError,
    json.JSONDecodeError,
    UnicodeDecodeError,
    OSError,
)
"""Errors that are translated. Any other error of apsw is a bug of ours."""
HOW_TO_RESTORE: Final = "Restore a backup into a new folder: fourfold --store FOLDER restore FILE"


@contextmanager
def translated(path: Path) -> Generator[None]:
    try:
        yield
    except WORLD as error:
        raise translate(error, path) from error


def translate(error: Exception, path: Path) -> errors.FourfoldError:
    what = str(error) or type(error).__name__
    match error:
        case OSError(errno=errno.ENOSPC):
            return errors.StorageFull(
                f"no space left for {error.filename or path}", "Free some space; what is stored is safe"
            )
        case OSError(errno=errno.EROFS | errno.EACCES | errno.EPERM):
            return errors.ReadOnlyStore(
                f"{error.filename or path} cannot be written", "Check the permissions of the folder"
            )
        case apsw.BusyError() | apsw.LockedError():
            return errors.StoreBusy(f"another process has been using {path} for {BUSY_SECONDS:.0f} s", "Try again")
        case apsw.ConnectionClosedError():
            return errors.StoreUnavailable(f"{path.parent} was closed", "Open it again")
        case apsw.FullError():
            return errors.StorageFull(f"no space left for {path}", "Free some space; what was confirmed is safe")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return errors.ReadOnlyStore(
                f"{path} cannot be written", "Check the permissions of the folder and its files"
            )
        case apsw.NoMemError():
            return errors.StoreUnavailable(
                f"{path} cannot be used ({what})", "Close other programs, or raise the limit (ulimit -v)"
            )
        case apsw.IOError() if checksums.is_mismatch(error):
            remedy = f"fourfold check tells where. {HOW_TO_RESTORE}; or fourfold repair, which keeps the changed bytes"
            return errors.DamagedStore(f"{path} is damaged (bytes of it were changed)", remedy)
        case apsw.CorruptError() | apsw.NotADBError() | json.JSONDecodeError() | UnicodeDecodeError():
            return errors.DamagedStore(f"{path} is damaged ({what})", HOW_TO_RESTORE)
        case _:
            return errors.StoreUnavailable(
                f"{path} cannot be used ({what})", "Check that the folder exists and can be written"
            )


class Connection(Db, apsw.Connection):
    any_id: ClassVar[str] = "IN (SELECT value FROM json_each(?))"
    any_text: ClassVar[str] = any_id
    any_digest: ClassVar[str] = "IN (SELECT unhex(value) FROM json_each(?))"
    any_tag: ClassVar[str] = f"tag IN (SELECT id FROM tags WHERE ns = ? AND folded {any_text})"  # noqa: S608  (constants)
    looks_up_sparse: ClassVar[bool] = True
    item_tags: ClassVar[str] = "(SELECT group_concat(name, char(0)) FROM item_tags WHERE item = items.id)"
    item_sources: ClassVar[str] = "(SELECT group_concat(raw ORDER BY position) FROM sources WHERE item = items.id)"
    mention_count: ClassVar[str] = "mentioned"
    metadata_keys: ClassVar[str] = "json_each(items.metadata) AS pair"
    ordered_join: ClassVar[str] = "CROSS JOIN"
    name_column: ClassVar[str] = "folded"
    any_name: ClassVar[str] = f"folded {any_text}"
    name_columns: ClassVar[Sequence[str]] = ("folded",)
    id_set = repr
    text_set = json.JSONEncoder(ensure_ascii=False).encode
    digests = json.JSONEncoder(default=bytes.hex).encode

    def operand(self, value: Any, holds: str) -> tuple[str, Any]:
        return "?", number(value) if holds == "number" else value

    def glob_test(self, ns: int, name: str, globs: Sequence[str]) -> Condition:
        return f"({' OR '.join([f'{name} REGEXP ?'] * len(globs))})", tuple(globs)

    def metadata_test(self, test: Test) -> Condition:
        """Walks down the keys; the value found, or one of its scalar elements, has to pass."""
        path = test.field.path
        tables = ["json_each(items.metadata) AS k0"]
        tables += [
            f"json_each(CASE k{step - 1}.type WHEN 'object' THEN k{step - 1}.value END) AS k{step}"
            for step in range(1, len(path))
        ]
        keys = " AND ".join(f"k{step}.key = ?" for step in range(len(path)))
        select, bindings = f"SELECT 1 FROM {', '.join(tables)} WHERE {keys}", tuple(path)  # noqa: S608  (our own clauses)
        if test.op == "exists":
            return f"EXISTS ({select})", bindings
        last = f"k{len(path) - 1}"
        whole = _value(test, last, [*_SCALARS, "json"])
        element = _value(test, "element", _SCALARS)
        elements = f"SELECT 1 FROM json_each(CASE {last}.type WHEN 'array' THEN {last}.value END) AS element WHERE"  # noqa: S608  (our own clauses)
        sql = f"EXISTS ({select} AND ({whole[0]} OR EXISTS ({elements} {element[0]})))"
        return sql, (*bindings, *whole[1], *element[1])


# ---------------------------------------------------------------- filters: what differs from `storage.sql.reading`


_TYPES: Final = {
    "null": "'null'",
    "true": "'true'",
    "false": "'false'",
    "number": "'integer', 'real'",
    "text": "'text'",
    "json": "'array', 'object'",
}
_SCALARS: Final = ("null", "true", "false", "number", "text")


def _value(test: Test, name: str, kinds: Iterable[str]) -> Condition:
    """Compares like with like: numbers with numbers, strings with strings, true with true."""
    wanted: dict[str, list[Any]] = {}
    for value in test.values:
        kind, operand = _operand(value)
        wanted.setdefault(kind, []).append(operand)
    parts: list[Condition] = []
    for kind in kinds:
        if kind not in wanted:
            continue
        operands = () if kind in ("null", "true", "false") else tuple(wanted[kind])
        sign = f"IN ({', '.join('?' * len(operands))})" if test.op == "in" else f"{SIGNS[test.op]} ?"
        compared = f" AND {name}.value {sign}" if operands else ""
        parts.append((f"({name}.type IN ({_TYPES[kind]}){compared})", operands))
    return joined(" OR ", parts or [("0", ())])


def _operand(data: Json) -> tuple[str, Any]:
    match data:
        case None:
            return "null", None
        case bool():
            return "true" if data else "false", None
        case int() | float():
            return "number", number(data)
        case str():
            return "text", data
        case _:
            return "json", dumps(data)


def number(number: int | float) -> int | float:
    """As SQLite has it: a real number beyond 64 bits."""
    if isinstance(number, float) or -(1 << 63) <= number < 1 << 63:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# ---------------------------------------------------------------- the file


@dataclass(frozen=True, slots=True)
class Tuning(IndexTuning):
    pace: Pace = field(default_factory=Pace)
    publish_every_changes: int = 1000
    """Changes in the tail that are worth a publication."""
    rebuild_at_changes: int = 40_000
    """Above this many changes an index is published before it is searched: folding them into a tail costs the same."""
    child_at_changes: int = 10_000
    """Above this many changes a child process publishes."""
    load_at_items: int = 10_000
    """Items written without a pause that count as a bulk load, which is published while it runs."""
    load_every_changes: int = 20_000
    """Changes between two publications of a bulk load."""
    searched_every_changes: int = 5000
    """Replaces the two above while the namespace is searched: a long tail slows searches down."""
    log_kept_changes: int = 10_000
    """Published changes that stay in the log for processes that have not followed yet."""
    look_every_seconds: float = 1.0
    """How often a search with a long tail looks for a newer publication."""
    bulk_items: int = 64
    """A write of this many items folds its changes into searched indexes itself, so that no search has to."""
    inline_vectors: int = 50_000
    """Up to this many vectors are not searched in another thread of Python, which costs more than it saves."""
    columns_after_searches: int = 4
    """Searches of an unchanged namespace after which its names, links and tags are read into memory."""
    columns_pause: float = 20.0
    """They are read again at the earliest after this many times the duration of the last reading."""
    columns_fold_changes: int = 1000
    """Changes of links and tags since the last search that a search folds into them."""
    columns_tail: int = 5000
    """Items, nodes and tags that changed, above which they are read again."""
    max_column_rows: int = 2_000_000
    """A namespace with more rows of names, links and tags is searched in the tables."""
    wal_bytes: int = 64 * 1024 * 1024
    """From this length on, writers wait a moment for readers in order to reset SQLite's write-ahead log."""
    wal_retry_seconds: float = 10.0
    """Time until the next attempt after readers did not finish."""
    busy_seconds: float = BUSY_SECONDS
    """How long a write waits for the lock of another process."""
    durable: bool = True
    """Commits survive a power loss. False for stores that end with the process: opening and writing do not wait for
    the disk."""


DEFAULT = Tuning()


T = TypeVar("T")

_SUFFIXES = ("", "-wal", "-shm")
"""The files of an open database."""
_CACHE_KIB = 16 * 1024
"""Page cache of the writer. Readers have SQLite's default: what a search reads fits into it."""
_PAGE_BYTES = 8192
"""Pages of a new file: five vectors of 384 dimensions fit into one, where 4096 bytes hold two and waste a quarter."""
_MMAP_BYTES = 0x7FFF0000
"""The maximum that SQLite maps."""
_WAL_WAIT_SECONDS = 0.25
"""How long a writer waits for readers in order to reset a write-ahead log that has just become long enough."""
_LONGEST_WAL_WAIT_SECONDS = 2.0
"""The same for one that is many times as long."""
_POLL_SECONDS = 0.005
_STEPS_BETWEEN_CHECKS = 1_000
"""Instructions of SQLite's virtual machine between two checks of the deadline."""


def deadline_in(seconds: float | None = None) -> Deadline:
    given = limits.READ_SECONDS if seconds is None else seconds
    return Deadline(given, time.monotonic() + given)


def exceeded(deadline: Deadline, path: Path) -> errors.TimedOut:
    return errors.TimedOut(f"{path.parent} did not answer within {deadline.seconds:g} s", "Ask for less, or try again")


class Database:
    """Each reader has its own connection and never waits; writers take turns and begin IMMEDIATE.

    A commit is on disk when it returns (WAL, synchronous=FULL), unless the tuning says that it need not be.
    """

    def __init__(self, path: Path, tuning: Tuning = DEFAULT) -> None:
        self.path = path = path.absolute()
        self._tuning = tuning
        self._files = tuple(str(path) + suffix for suffix in _SUFFIXES)
        self._inodes: list[tuple[int, int]] = []
        """Device and inode of each file, as this process has it open."""
        self._opened = Stamps((), ())
        """The same."""
        self._readers: list[ref[Connection]] = []
        """Connections for reading. Weak: one that Ctrl-C kept from being given back counts until its frame is gone."""
        self._idle: list[Connection] = []
        """Those that nobody uses."""
        self._closed = False
        self._guard = threading.Lock()
        """Guards the three above."""
        self._writing = threading.Lock()
        self._wal = path.with_name(f"{path.name}-wal")
        self._wal_retry_at = 0.0
        with translated(path):
            _require_log(path)
            _create(path)
        self._writer = self._connect()
        with translated(path):
            if not checksums.can_be_kept(self._writer):
                raise errors.StoreUnavailable(
                    f"{path} has checksums, which this build of apsw cannot keep",
                    "Install its present wheel: pip install -U --only-binary apsw apsw",
                )
            if checksums.log_ends_early(self._writer, self._wal):
                self._writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # it would remove the log
                self._writer.close()
                raise errors.DamagedStore(
                    f"{self._wal} is damaged: bytes were changed before commits that it holds",
                    "Restore a backup into a new folder, or what was stored before the damage: "
                    f"fourfold --store FOLDER restore {path}",
                )
            self._writer.pragma("cache_size", -_CACHE_KIB)
            schema.migrate(self._writer, path)
            self._inodes = self._inodes_now()
            self._opened = Stamps(self._files, self._inodes)

    def _connect(self) -> Connection:
        """Retries: when two processes create a file at once, SQLite refuses one of them without waiting."""
        patience, attempts = _Patience(self._tuning.busy_seconds), 0
        with translated(self.path):
            while True:
                self._require_same_files()
                db = Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
                try:
                    self._prepare(db)
                    self._require_same_files()
                    break
                except BaseException as error:
                    db.close()
                    if not isinstance(error, apsw.BusyError) or not patience(attempts):
                        raise
                    attempts += 1
        return db

    def _prepare(self, db: Connection) -> None:
        db.set_busy_handler(_Patience(self._tuning.busy_seconds))
        db.pragma("page_size", _PAGE_BYTES)
        checksums.begin(db)
        db.pragma("synchronous", "full" if self._tuning.durable else "off")  # before a new file is written to
        db.pragma("journal_mode", "wal")
        db.pragma("fullfsync", True)  # macOS: otherwise a sync ends in the disk's cache
        db.pragma("foreign_keys", True)
        db.pragma("mmap_size", _MMAP_BYTES)
        db.pragma("temp_store", "memory")
        db.create_scalar_function("regexp", _regexp, 2, deterministic=True)

    def read(self, deadline: Deadline | None = None) -> AbstractContextManager[Connection]:
        """A connection in one read transaction. Raises TimedOut after the deadline."""
        return self.reading(_as_it_is, deadline)

    @contextmanager
    def reading(self, make: Callable[[Connection], T], deadline: Deadline | None = None) -> Generator[T]:
        """What `make` returns for such a connection. One generator, because every search enters it."""
        db: Connection | None = None
        try:
            try:
                with self._guard:
                    if self._closed:
                        raise self._was_closed()
                    db = self._idle.pop() if self._idle else None
                db = db or self._new_reader()
                self._require_same_files()
                _roll_back(db)  # Ctrl-C may have kept the last reader from it
                is_over = None if deadline is None else lambda: time.monotonic() > deadline.until
                db.set_progress_handler(is_over, _STEPS_BETWEEN_CHECKS)
                db.execute("BEGIN")
                yield make(db)
            finally:
                if db is not None:
                    try:
                        _roll_back(db)
                    finally:
                        with self._guard:
                            self._idle.append(db)
        except WORLD as error:
            raise translate(error, self.path) from error
        except apsw.InterruptError as error:
            if deadline is None:
                raise
            raise exceeded(deadline, self.path) from error

    def _new_reader(self) -> Connection:
        db = self._connect()
        with self._guard:
            if self._closed:
                db.close()
                raise self._was_closed()
            self._readers = [each for each in self._readers if each() is not None] + [ref(db)]
        return db

    def has_readers(self) -> bool:
        return sum(each() is not None for each in self._readers) > len(self._idle)

    @contextmanager
    def write(self, *, waits: bool = True) -> Generator[Connection]:
        """The writing connection of this process, in a transaction: committed, or rolled back after an error.

        Without `waits`, StoreBusy if another process writes.
        """
        with self._writing, translated(self.path):
            if self._closed:
                raise self._was_closed()
            db = self._writer
            _roll_back(db)  # Ctrl-C may have kept the last write from it
            _check_rows(db, True)
            try:
                db.set_busy_handler(_Patience(self._tuning.busy_seconds if waits else 0))
                db.execute("BEGIN IMMEDIATE")
                if db.pragma("user_version") != schema.VERSION:  # another process has migrated it meanwhile
                    schema.known_version(db)
                yield db
                self._require_same_files()
                db.execute("COMMIT")
            except BaseException:
                _roll_back(db)
                raise
            self._shorten_wal(db)

    def _require_same_files(self) -> None:
        """Raises StoreReplaced if the store's path leads to other files than those that this process has open.

        SQLite would keep using the open files, and everything it commits would be lost with them.
        """
        if not self._opened.hold() and self._inodes and self._inodes_now() != self._inodes:
            raise errors.StoreReplaced(
                f"{self.path.parent} was deleted, renamed or replaced while it was open",
                "Nothing was written. Close the store, or restart this process, and open the store that is meant",
            )

    def _inodes_now(self) -> list[tuple[int, int]]:
        try:
            statuses = map(os.stat, self._files)
            return [(file.st_dev, file.st_ino) for file in statuses]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _shorten_wal(self, db: Connection) -> None:
        """Resets a long write-ahead log. SQLite itself does so only if no reader is active when a write begins."""
        with suppress(OSError, apsw.Error):  # commits in the log are safe, however long it is
            times = self._wal.stat().st_size / self._tuning.wal_bytes
            if times < 1 or time.monotonic() < self._wal_retry_at:
                return
            db.set_busy_handler(_Patience(min(times * _WAL_WAIT_SECONDS, _LONGEST_WAL_WAIT_SECONDS)))
            try:
                busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
            finally:
                db.set_busy_handler(_Patience(self._tuning.busy_seconds))
            self._wal_retry_at = time.monotonic() + self._tuning.wal_retry_seconds if busy else 0.0

    def rewrite(self) -> None:
        """Gives every page the checksum of its present bytes."""
        with self._writing, translated(self.path), checksums.unverified(self._writer):
            self._writer.execute("VACUUM")

    def vacuum(self) -> None:
        """Rewrites the file without deleted content, and empties the write-ahead log. Nothing may be reading."""
        with self._writing, translated(self.path):
            self._writer.execute("VACUUM")
            busy, *_ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
            if busy:
                raise apsw.BusyError("others are reading")

    def close(self) -> None:
        """Waits for readers and the writer to finish."""
        with self._guard:
            self._closed = True
        until = time.monotonic() + BUSY_SECONDS
        while self.has_readers() and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        with self._guard:
            for db in self._idle:
                db.close()
            self._idle.clear()
            self._readers.clear()
        with self._writing:
            self._writer.close()

    def _was_closed(self) -> errors.StoreUnavailable:
        return errors.StoreUnavailable(f"{self.path.parent} was closed", "Open it again")


def _create(path: Path) -> None:
    """Creates the file if it is missing. SQLite gives its companion files the same mode."""
    owner_only.create_file(path)
    for suffix in _SUFFIXES:
        owner_only.tighten(path.with_name(path.name + suffix))


def _require_log(path: Path) -> None:
    """DamagedStore if somebody removed the write-ahead log of a process that was killed.

    SQLite makes the log before its index (-shm), and removes it after that one.
    """
    log, index = (path.with_name(path.name + suffix) for suffix in _SUFFIXES[1:])
    for _ in range(2):  # another process may close the store, and a third one open it
        if not index.exists() or log.exists():
            return
    raise errors.DamagedStore(
        f"{log} is missing: what was stored last was in it",
        f"Put it back, or restore a backup. Without {index.name} the store opens with what is left",
    )


def _roll_back(db: Connection) -> None:
    if db.in_transaction:  # after a disk error SQLite may have ended it
        db.execute("ROLLBACK")


@contextmanager
def unchecked(db: Connection) -> Generator[None]:
    """Inserts without foreign keys and triggers: for new rows whose parents exist, which the caller counts itself.

    Statements are compiled again afterwards, so this pays for many rows only.
    """
    try:
        _check_rows(db, False)
        yield
    finally:
        _check_rows(db, True)


def _check_rows(db: Connection, on: bool) -> None:
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, int(on))
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, int(on))


class _Patience:
    """Busy handler: polls the lock of another process at short random intervals.

    SQLite's own timeout sleeps longer and longer, while a process that has just written takes the lock again at once:
    with 8 writers one waited 5 s, and waits 0.1 s with this handler.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = 0.0

    def __call__(self, attempts: int) -> bool:
        if attempts == 0:
            self._until = time.monotonic() + self._seconds
        time.sleep(random.uniform(0.001, 0.004))  # noqa: S311
        return time.monotonic() < self._until


def _as_it_is(db: Connection) -> Connection:
    return db


def _regexp(*arguments: Any) -> bool:
    glob, path = arguments
    return matches(glob, path)
