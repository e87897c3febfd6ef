"""The tables of the embedded store, and how an older file becomes a current one."""

from __future__ import annotations

from pathlib import Path

import apsw

from fourfold import owner_only
from fourfold.errors import DamagedStore, NewerSchema
from fourfold.index.segment_files import sync_folder
from fourfold.storage.sql import dialect as shared

_TYPES = shared.Types(
    int="INTEGER",
    id="INTEGER",
    text="TEXT",
    key="TEXT",
    hash="BLOB",
    flag="INTEGER",
    true="1",
    real="REAL",
    first_id="INTEGER PRIMARY KEY AUTOINCREMENT",
    name_type="TEXT",
    name_column="folded",
    rowless=" WITHOUT ROWID",
)
_OWN = shared.read_tables(Path(__file__).parent)
_STEPS = (
    _OWN["namespaces"] + _TYPES.ddl(shared.ITEMS) + _OWN["tables"] + _TYPES.ddl(shared.ROWS) + _OWN["links"],
    _OWN["pruned"],
    _TYPES.ddl(shared.FILES) + _OWN["chunks"],
    _OWN["blocks"] + _TYPES.ddl(shared.IDS),
    _TYPES.ddl(shared.FACTS) + _OWN["hidden"],
    _OWN["windows"],
    _TYPES.ddl(shared.VERSIONS),
    _TYPES.ddl(shared.REQUESTS),
    "",  # new files have checksums, which older versions would not update
    shared.RAW_SESSIONS,
    _TYPES.ddl(shared.SYNCED),
    _TYPES.ddl(shared.RECEIPTS),
)
"""_STEPS[n] turns schema n into n + 1."""
VERSION = len(_STEPS)


def version(db: apsw.Connection) -> int:
    return int(db.pragma("user_version"))


def migrate(db: apsw.Connection, path: Path) -> None:
    """Brings the file to VERSION in one transaction, after a backup; does nothing when it is there already."""
    _require_ours(db, path)
    if known_version(db) == VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        version = known_version(db)  # another process may have been quicker
        if 0 < version < VERSION:
            # The migration's own connection holds the write lock, so this one reads what was there before.
            source = apsw.Connection(str(path))
            try:
                copy_to(source, backup_path(path, version))
            finally:
                source.close()
        for step in range(version, VERSION):
            db.execute(_STEPS[step])
        db.pragma("user_version", VERSION)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _require_ours(db: apsw.Connection, path: Path) -> None:
    """Leaves databases of other programs alone. One statement: another process may be making the tables."""
    sql = (
        "SELECT count(*), total(name = 'namespaces'), (SELECT user_version FROM pragma_user_version) FROM sqlite_master"
    )
    ((tables, ours, version),) = db.execute(sql)
    if not (ours if version else not tables):
        raise DamagedStore(f"{path} is not a database of Fourfold", "Put the right file back, or restore a backup")


def known_version(db: apsw.Connection) -> int:
    """The schema that the database has; NewerSchema if this version does not know it."""
    number = version(db)
    if number > VERSION:
        raise NewerSchema(
            f"this store has schema {number}, this Fourfold knows up to {VERSION}",
            "Upgrade it: pip install -U fourfold",
        )
    return number


def backup_path(path: Path, schema: int) -> Path:
    """Where the database of an older schema is kept."""
    return path.with_name(f"before-schema-{schema + 1}.db")


# ---------------------------------------------------------------- whole copies of a database file


_PAGES = 1000


def copy_to(source: apsw.Connection, target: Path) -> None:
    """The snapshot that the connection's read transaction sees, as one file for its owner only."""
    aside = target.with_name(target.name + ".part")
    _remove(aside)
    try:
        owner_only.create_file(aside)
        copy = apsw.Connection(str(aside))
        try:
            with copy.backup("main", source, "main") as work:
                while not work.done:
                    work.step(_PAGES)
            copy.pragma("journal_mode", "delete")
        finally:
            copy.close()
        aside.replace(target)
    except BaseException:
        _remove(aside)
        raise
    sync_folder(target.parent)


def _remove(database: Path) -> None:
    """Removes a database file and the files that SQLite creates next to it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
