"""Looking after a store: what it holds, whether it is sound, backups."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import apsw

from fourfold.errors import DamagedStore, RequestError
from fourfold.model import Json
from fourfold.stores.sqlite import items, schema, spaces
from fourfold.stores.sqlite.database import Database, rows, translated, value
from fourfold.stores.sqlite.indexes import Indexes


def status(database: Database, folder: Path) -> dict[str, Json]:
    with database.read() as db:
        found = rows(db, "SELECT id, name, items, vectors, fingerprint, dimension FROM namespaces ORDER BY name")
        namespaces = {
            name: {
                "items": count,
                "vectors": vectors,
                "pending_vectors": count - vectors,
                "languages": list(spaces.languages(db, ns)),
                "embedder": fingerprint,
                "dimension": dimension,
                "nodes": value(db, "SELECT count(*) FROM nodes WHERE ns = ?", ns),
                "edges": value(db, "SELECT count(*) FROM edges JOIN nodes ON id = source WHERE ns = ?", ns),
            }
            for ns, name, count, vectors, fingerprint, dimension in found
        }
    return {
        "store": str(folder),
        "schema": schema.VERSION,
        "database_bytes": _bytes(folder.glob("fourfold.db*")),
        "index_bytes": _bytes((folder / "index").rglob("*")),
        "namespaces": namespaces,
    }


def _bytes(paths: Iterable[Path]) -> int:
    """On disk: a file that two generations share counts once."""
    sizes = {(entry.st_ino, entry.st_size) for entry in (path.lstat() for path in paths)}
    return sum(size for _, size in sizes)


def check(database: Database, indexes: Indexes) -> list[str]:
    """Problems, a line each."""
    with database.read() as db:
        problems = [f"database: {line}" for line in _broken(db)]
        if problems:  # what is read from such a file says nothing
            return problems
        problems += [f"{table}: a row points nowhere" for table, *_ in rows(db, "PRAGMA foreign_key_check")]
        for ns, name in rows(db, "SELECT id, name FROM namespaces"):
            problems += [f"namespace {name}: {problem}" for problem in _disagreements(db, indexes, ns)]
    return problems


def _broken(db: apsw.Connection) -> list[str]:
    try:
        return [line for (line,) in rows(db, "PRAGMA integrity_check") if line != "ok"]
    except apsw.CorruptError as error:  # too broken even to be looked through
        return [str(error)]


def _disagreements(db: apsw.Connection, indexes: Indexes, ns: int) -> list[str]:
    """Where counters or indexes differ from the rows."""
    stored = set(items.all_ids(db, ns))
    space = spaces.space(db, ns)
    embedded = {item for (item,) in rows(db, "SELECT item FROM vectors JOIN items ON id = item WHERE ns = ?", ns)}
    size = spaces.size(db, ns)
    problems = [] if (size.items, size.vectors) == (len(stored), len(embedded)) else ["its counters are wrong"]
    texts = indexes.texts(db, ns)
    found = {int(item) for part in (texts.published, texts.tail) for item in part.ids[part.live]}
    problems += _difference("keyword index", stored, found)
    if space is not None:
        vectors = indexes.vectors(db, ns, space)
        found = {int(item) for part in (vectors.published, vectors.tail) for item in part.ids[part.live]}
        problems += _difference("vector index", embedded, found)
    return problems


def _difference(name: str, rows_: set[int], found: set[int]) -> list[str]:
    missing, surplus = len(rows_ - found), len(found - rows_)
    return [f"its {name} lacks {missing} items and has {surplus} too many"] if missing or surplus else []


def repair(database: Database, indexes: Indexes) -> list[str]:
    """Counts anew and builds all indexes anew, from the rows."""
    done: list[str] = []
    with database.write() as db:
        broken = _broken(db)
        if broken:
            raise DamagedStore(
                f"the database itself is damaged: {broken[0]}",
                "Restore a backup into a new folder: fourfold --store FOLDER restore FILE",
            )
        db.execute(
            "UPDATE namespaces SET items = (SELECT count(*) FROM items WHERE ns = namespaces.id), "
            "vectors = (SELECT count(*) FROM vectors JOIN items ON items.id = item WHERE ns = namespaces.id)"
        )
        db.execute("INSERT OR IGNORE INTO waiting SELECT ns, id FROM items WHERE id NOT IN (SELECT item FROM vectors)")
    with database.read() as db:
        for ns, name in rows(db, "SELECT id, name FROM namespaces"):
            indexes.rebuild(db, ns)
            done.append(f"namespace {name}: counters and indexes made anew")
    return done


def backup(database: Database, target: Path) -> None:
    """A consistent copy of the database, taken while others read and write. Indexes are rebuilt from it."""
    if target.exists():
        raise RequestError(f"{target} exists", "Choose another name; a backup never replaces a file")
    aside = target.with_name(target.name + ".part")
    with translated(target):
        copy = apsw.Connection(str(aside))
        try:
            with database.read() as db, copy.backup("main", db, "main") as work:
                while not work.done:
                    work.step(1000)
            copy.pragma("journal_mode", "delete")
        finally:
            copy.close()
        os.chmod(aside, 0o600)  # noqa: PTH101
        aside.replace(target)


def restore(source: Path, folder: Path) -> None:
    """Puts a backup into a folder that has no store yet."""
    from fourfold.stores.sqlite import folder as folders

    if not source.exists():
        raise RequestError(f"no backup {source}", "Name a file that `fourfold backup` wrote")
    folders.prepare(folder)
    target = folder / folders.DATABASE
    if target.exists():
        raise RequestError(f"{folder} holds a store already", "Restore into another folder, or move this one away")
    aside = folder / "restoring.db"
    aside.unlink(missing_ok=True)
    with translated(source):
        origin = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
        copy = apsw.Connection(str(aside))
        try:
            if value(origin, "PRAGMA integrity_check") != "ok" or not origin.table_exists(None, "items"):
                raise DamagedStore(f"{source} is no sound backup of a store", "Try an older backup")
            with copy.backup("main", origin, "main") as work:
                work.step()
            copy.execute("DELETE FROM settings WHERE name = 'store'")  # a store of its own: no index here is of it
        except BaseException:
            copy.close()
            aside.unlink(missing_ok=True)
            raise
        finally:
            copy.close()
            origin.close()
    aside.replace(target)
