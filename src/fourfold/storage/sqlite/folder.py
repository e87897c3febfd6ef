"""The folder that a store lives in: its contents, copies and backups."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import apsw

from fourfold import owner_only
from fourfold.errors import DamagedStore, ReadOnlyStore, RequestError, StoreNotFound, StoreUnavailable
from fourfold.index.segment_files import sync_folder
from fourfold.model import Json
from fourfold.storage.sql.namespaces import namespace_status
from fourfold.storage.sqlite import schema
from fourfold.storage.sqlite.connection import Connection, translated
from fourfold.storage.sqlite.database import Database
from fourfold.storage.sqlite.namespaces import all_namespaces, namespace_languages
from fourfold.storage.sqlite.schema import copy_to
from fourfold.storage.values import HOW_TO_CREATE

DATABASE = "fourfold.db"
INDEX = "index"
RESTORING = "restoring.db"
"""What an interrupted restore leaves."""
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs"}


def require_store(folder: Path) -> None:
    """StoreNotFound unless the folder holds a store. Creates nothing."""
    if not (folder / DATABASE).exists():
        raise StoreNotFound(f"no store in {folder}", HOW_TO_CREATE)


def prepare_folder(folder: Path) -> None:
    """Makes the folder, for its owner only, and refuses places where SQLite cannot keep its promises."""
    try:
        owner_only.make_folder(folder)
    except PermissionError as error:
        raise ReadOnlyStore(f"{folder} cannot be made ({error.strerror})", "Choose another folder: --store") from error
    except OSError as error:
        raise StoreUnavailable(f"{folder} cannot hold a store ({error.strerror})", "Choose another: --store") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ReadOnlyStore(f"{folder} cannot be written", "Change its permissions, or choose another folder: --store")
    if owner_only.is_loose(folder / INDEX):  # made by an older version
        owner_only.tighten_all(folder / INDEX)
    kind = file_system(folder)
    if kind in _NETWORK:
        raise StoreUnavailable(
            f"{folder} is on a network file system ({kind}), where file locks cannot be trusted",
            "Choose a local folder, or share a store on PostgreSQL",
        )


def require_content(folder: Path, database: Database) -> None:
    """DamagedStore if nothing was ever stored in the database, but indexes of a store lie beside it."""
    with database.read() as db:
        known = db.value("SELECT 1 FROM namespaces LIMIT 1")
    if known is None and any((folder / INDEX).glob("*/*/manifest.json")):
        raise DamagedStore(
            f"{folder / DATABASE} is empty, but {folder / INDEX} has indexes of what was stored in it",
            "Restore a backup into a new folder: fourfold --store FOLDER restore FILE; or remove index and start over",
        )


def old_copies(folder: Path) -> list[Path]:
    """Copies of the database that a migration or an interrupted restore left."""
    return [*folder.glob("before-schema-*.db*"), *folder.glob(f"{RESTORING}*")]


def file_system(folder: Path) -> str | None:
    """The type of the file system, where the system tells (Linux)."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return None
    best, kind = "", None
    for line in mounts.read_text("utf-8", "replace").splitlines():
        point, found = line.split(" ")[1:3]
        point = point.replace("\\040", " ")
        inside = str(folder.resolve()).startswith(point.rstrip("/") + "/") or point == "/"
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def store_identity(database: Database) -> str:
    """A name that no other store has: an index that carries another one is not ours."""
    with database.read() as db:
        known = db.value("SELECT value FROM settings WHERE name = 'store'")
    if known is not None:
        return known
    with database.write() as db:
        db.execute("INSERT OR IGNORE INTO settings VALUES ('store', ?)", (uuid.uuid4().hex,))
        return db.value("SELECT value FROM settings WHERE name = 'store'")


# ---------------------------------------------------------------- contents and copies


_COUNTED_CHANGES = 1_000_000


def store_status(db: Connection, folder: Path, unpublished: Callable[[Connection, int, int], int]) -> dict[str, Json]:
    known = {
        ns.name: {
            **namespace_status(db, ns, namespace_languages(db, ns.id)),
            "unpublished_changes": unpublished(db, ns.id, _COUNTED_CHANGES),
        }
        for ns in all_namespaces(db)
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


def back_up(db: Connection, target: Path) -> None:
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
    prepare_folder(folder)
    target = folder / DATABASE
    if target.exists():
        raise RequestError(f"{folder} holds a store already", "Restore into another folder, or move this one away")
    aside = folder / RESTORING
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
