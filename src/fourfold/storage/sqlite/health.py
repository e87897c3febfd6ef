"""Contents and copies of a store; `check` has its consistency checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import apsw

from fourfold.errors import DamagedStore, RequestError
from fourfold.index.segment_files import sync_folder
from fourfold.model import Json
from fourfold.storage.sql.namespaces import status as namespace_status
from fourfold.storage.sqlite import folder as folders
from fourfold.storage.sqlite import namespaces, schema
from fourfold.storage.sqlite.connection import Connection, translated
from fourfold.storage.sqlite.copies import copy_to

_COUNTED_CHANGES = 1_000_000


def status(db: Connection, folder: Path, unpublished: Callable[[Connection, int, int], int]) -> dict[str, Json]:
    known = {
        ns.name: {
            **namespace_status(db, ns, namespaces.languages(db, ns.id)),
            "unpublished_changes": unpublished(db, ns.id, _COUNTED_CHANGES),
        }
        for ns in namespaces.everyone(db)
    }
    return {
        "store": str(folder),
        "schema": schema.VERSION,
        "database_bytes": _bytes(folder.glob("fourfold.db*")),
        "index_bytes": _bytes((folder / "index").rglob("*")),
        "namespaces": known,
    }


def _bytes(paths: Iterable[Path]) -> int:
    """On disk: a file that two generations share counts once."""
    sizes = {(entry.st_ino, entry.st_size) for entry in (path.lstat() for path in paths)}
    return sum(size for _, size in sizes)


def backup(db: Connection, target: Path) -> None:
    """A consistent copy of the database, taken while others read and write. Indexes are rebuilt from it."""
    if target.exists():
        raise RequestError(f"{target} exists", "Choose another name; a backup never replaces a file")
    with translated(target):
        copy_to(db, target)


def restore(source: Path, folder: Path) -> None:
    """Puts a backup into a folder that has no store yet."""
    with translated(source):
        if not source.exists():
            raise RequestError(f"no backup {source}", "Name a file that `fourfold backup` wrote")
    folders.prepare(folder)
    target = folder / folders.DATABASE
    if target.exists():
        raise RequestError(f"{folder} holds a store already", "Restore into another folder, or move this one away")
    aside = folder / folders.RESTORING
    with translated(source):
        origin = Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            if origin.value("PRAGMA integrity_check") != "ok" or not origin.table_exists(None, "items"):
                raise DamagedStore(f"{source} is not an intact backup of a store", "Try an older backup")
            copy_to(origin, aside)
        finally:
            origin.close()
    with translated(aside):
        copy = apsw.Connection(str(aside))
        try:
            copy.execute("DELETE FROM settings WHERE name = 'store'")  # a store of its own: no index here is of it
        finally:
            copy.close()
        aside.replace(target)
        sync_folder(folder)
