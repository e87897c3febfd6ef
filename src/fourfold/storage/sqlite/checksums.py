"""Changed bytes of a database. Its pages have checksums, which SQLite's extension `cksumvfs` writes and verifies.

A file has them from its creation on: 8 bytes of each page are reserved for them, as its header says. Pages that were
read stay in the cache of a connection; files without checksums (of schema 8 and older) are mapped into memory instead.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct, unpack
from typing import Final

import apsw

from fourfold.bounded import open_regular
from fourfold.storage.sql.dialect import Db

_RESERVED_BYTES: Final = 8
"""By these the extension knows a file whose pages have checksums."""


def _register() -> bool:
    """Lets SQLite open all files through the extension; False if this build of apsw has none."""
    db = apsw.Connection(":memory:")
    try:
        db.enable_load_extension(True)
        db.load_extension(str(Path(apsw.__file__).parent / "sqlite_extra_binaries" / "cksumvfs"))
    except (apsw.ExtensionLoadingError, AttributeError):  # AttributeError: built without loading of extensions
        return False
    finally:
        db.close()
    return True


_IS_REGISTERED: Final = _register()
MISMATCH: Final = f"error code={apsw.SQLITE_IOERR_DATA}"
"""In a line of `PRAGMA integrity_check`: a page has a wrong checksum."""


def begin(db: apsw.Connection) -> None:
    """Lets the pages of a new, empty file have checksums."""
    if _IS_REGISTERED and not db.pragma("page_count"):
        db.reserve_bytes(reserve=_RESERVED_BYTES)


def can_be_kept(db: apsw.Connection) -> bool:
    """False if the file has checksums that would not be updated when it is written."""
    return _IS_REGISTERED or db.reserve_bytes() != _RESERVED_BYTES


@contextmanager
def unverified(db: Db) -> Generator[None]:
    """Reads pages as they are. None of them stays in the cache of the connection."""
    db.execute("PRAGMA checksum_verification = off")
    try:
        yield
    finally:
        db.execute("PRAGMA checksum_verification = on")
        db.execute("PRAGMA shrink_memory")


def is_mismatch(error: BaseException) -> bool:
    return isinstance(error, apsw.IOError) and getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_DATA


def changed_rows(db: Db) -> list[str]:
    """The tables with pages whose bytes were changed by something else than SQLite, and their rows, a line each."""
    lines: list[str] = []
    sql = "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
    with unverified(db):
        tables = db.rows(sql)
    for table, has_no_rowid in tables:
        with unverified(db):
            columns = db.column("SELECT name FROM pragma_table_info(?)", table)
        bytes_read = " + ".join(f'length(hex("{column}"))' for column in columns)
        reading = f'SELECT total({bytes_read}) FROM "{table}" NOT INDEXED'  # noqa: S608  (names from the schema)
        if _is_readable(db, reading):
            continue
        ids: list[int] = []
        with unverified(db), suppress(apsw.CorruptError):  # then the rows cannot be told
            if not has_no_rowid:
                ids = db.column(f'SELECT rowid FROM "{table}"')  # noqa: S608  (a name from the schema)
        changed = [id for id in ids if not _is_readable(db, f"{reading} WHERE rowid = {id}")]
        places = f" in or beside the rows {_ranges(changed)}" if changed else ""
        lines.append(f"the table {table} has changed bytes{places}")
    return lines or ["an index of the database has changed bytes"]


def _is_readable(db: Db, sql: str) -> bool:
    """Whether all pages that the statement reads have the right checksum."""
    try:
        db.rows(sql)
    except apsw.IOError as error:
        if is_mismatch(error):
            return False
        raise
    return True


def _ranges(ids: Sequence[int]) -> str:
    """Ascending ids with those that follow each other as one range."""
    starts = [id for id, before in zip(ids, [None, *ids], strict=False) if before is None or id != before + 1]
    ends = [id for id, after in zip(ids, [*ids[1:], None], strict=True) if after is None or id != after - 1]
    return ", ".join(
        str(start) if start == end else f"{start} to {end}" for start, end in zip(starts, ends, strict=True)
    )


# ---------------------------------------------------------------- the write-ahead log
#
# SQLite reads the log up to the first frame with a wrong checksum: a power loss may tear the last commit, which was not
# confirmed. Bytes that changed end the log before commits that were confirmed, and the next write would overwrite them.
# Each frame's checksum continues that of the one before. So a frame that continues a commit proves that this commit was
# complete before the frame was written.

_HEADER = Struct(">8I")
"""Of the log: kind, version, page size, number, two salts, checksum."""
_FRAME = Struct(">6I")
"""Before the page of a frame: page number, length of the database after a commit (else 0), two salts, checksum."""
_BIG_ENDIAN: Final = 1
"""The bit of the kind that says in which order checksums read the bytes of a number."""


def log_ends_early(db: apsw.Connection, log: Path) -> bool:
    """Whether the log has complete commits after the end that SQLite sees, which reads it before."""
    page_bytes: int = db.pragma("page_size")
    while _continues_commit(log, page_bytes, end := _end(db)):
        if end == _end(db):  # otherwise another process has written meanwhile
            return True
    return False


def _end(db: apsw.Connection) -> int:
    """Frames that SQLite sees."""
    return max(0, db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0])


def _continues_commit(log: Path, page_bytes: int, end: int) -> bool:
    """Whether a frame after this many continues a commit there."""
    size, commit, changed = _FRAME.size + page_bytes, None, 0
    try:
        file = open_regular(log)
    except FileNotFoundError:
        return False
    with file:
        start = file.read(_HEADER.size).ljust(_HEADER.size, b"\0")
        kind, *_, salt, other_salt, first, second = _HEADER.unpack(start)
        order, salts = ">" if kind & _BIG_ENDIAN else "<", (salt, other_salt)
        if _sum((0, 0), start[:24], order) != (first, second):  # then the frames know
            order, salts = ">" if sys.byteorder == "big" else "<", None
        file.seek(_HEADER.size + end * size)
        while len(frame := file.read(size)) == size and changed <= 1:
            _, is_commit, salt, other_salt, first, second = _FRAME.unpack(frame[: _FRAME.size])
            salts = salts or (salt, other_salt)
            if salts != (salt, other_salt):  # of an earlier log, or changed
                changed, commit = changed + 1, None
                continue
            if commit is not None and _sum(commit, frame[:8] + frame[_FRAME.size :], order) == (first, second):
                return True
            commit = (first, second) if is_commit else None
    return False


def _sum(before: tuple[int, int], content: bytes, order: str) -> tuple[int, int]:
    """SQLite's checksum of the log."""
    words = unpack(f"{order}{len(content) // 4}I", content)
    first, second = before
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = first + one + second & 0xFFFFFFFF
        second = second + other + first & 0xFFFFFFFF
    return first, second
