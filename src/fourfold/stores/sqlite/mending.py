"""Making anew what can be made from the rows: counters, the queue, indexes; and leaving nothing of the forgotten."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import apsw

from fourfold.errors import DamagedStore, StoreBusy
from fourfold.limits import LEASE_SECONDS, VECTOR_DIMENSIONS
from fourfold.stores.sqlite import files, items
from fourfold.stores.sqlite.database import Database, rows
from fourfold.stores.sqlite.folder import old_copies
from fourfold.stores.sqlite.indexes import Indexes
from fourfold.stores.sqlite.items import Change
from fourfold.stores.sqlite.soundness import COUNTERS, LANGUAGES, MISSHAPEN, WAITING, broken, miscounted

_RETRY_SECONDS = 0.2


def repair(database: Database, indexes: Indexes, *, purge: bool = False) -> list[str]:
    """Makes anew what can be made from the rows, and says what was wrong. `purge`: older index files go at once."""
    _mend_file(database)
    done: list[str] = []
    with database.write() as db:
        done += _without_orphans(db)
        done += _without_strangers(db)
        misshapen = [item for (item,) in rows(db, MISSHAPEN)]
        db.executemany("DELETE FROM vectors WHERE item = ?", ((item,) for item in misshapen))
        done += [f"mended: {problem}" for problem in miscounted(db)]
        for table, column, truth in COUNTERS:
            db.execute(f"UPDATE {table} SET {column} = ({truth}) WHERE {column} <> ({truth})")  # noqa: S608  (our own clauses)
        db.execute("DELETE FROM languages")
        db.execute(f"INSERT INTO languages {LANGUAGES}")
        db.execute("DELETE FROM waiting WHERE item IN (SELECT item FROM vectors)")
        db.execute(f"INSERT OR IGNORE INTO waiting (ns, item) {WAITING}")
        db.execute("UPDATE waiting SET refused = NULL")
        namespaces = rows(db, "SELECT id, name FROM namespaces")
        for ns, _ in namespaces:
            _begin_log(db, ns)
    for ns, name in namespaces:
        _publish(indexes, ns, purge=purge)
        done.append(f"namespace {name}: indexes made anew")
    return done


def _mend_file(database: Database) -> None:
    """Indexes of the database itself can be made anew; where rows are damaged, only a backup helps."""
    with database.read() as db:
        if not broken(db):
            return
    with database.write() as db:
        with suppress(apsw.Error):
            db.execute("REINDEX")
        left = broken(db)
        if left:
            raise DamagedStore(
                f"the database itself is damaged: {left[0]}",
                "Restore a backup into a new folder: fourfold --store FOLDER restore FILE",
            )


def _without_orphans(db: apsw.Connection) -> list[str]:
    """Takes away rows that point nowhere; what lost its namespace gets one."""
    lost = {table for table, *_ in rows(db, "PRAGMA foreign_key_check")}
    for table in ("items", "raw", "nodes", "tags"):
        db.execute(
            f"INSERT INTO namespaces (id, name) SELECT DISTINCT ns, 'recovered-' || ns FROM {table} "  # noqa: S608  (our own clauses)
            "WHERE ns NOT IN (SELECT id FROM namespaces)"
        )
    for _ in range(len(lost) + 1):  # what goes may leave others behind
        for table, _, parent, _ in rows(db, "PRAGMA foreign_key_check"):
            for _, _, target, column, *_ in rows(db, f"PRAGMA foreign_key_list({table})"):
                if target == parent:
                    db.execute(f"DELETE FROM {table} WHERE {column} NOT IN (SELECT id FROM {parent})")  # noqa: S608  (our own clauses)
    return [f"mended: {table} had rows that pointed nowhere" for table in sorted(lost)]


_STRANGERS = {
    "node_items: items of another namespace": "DELETE FROM node_items WHERE (SELECT ns FROM items WHERE id = item) "
    "<> (SELECT ns FROM nodes WHERE id = node)",
    "mentions: nodes of another namespace": "DELETE FROM mentions WHERE (SELECT ns FROM items WHERE id = item) "
    "<> (SELECT ns FROM nodes WHERE id = node)",
    "edges: nodes of two namespaces": "DELETE FROM edges WHERE (SELECT ns FROM nodes WHERE id = source) "
    "<> (SELECT ns FROM nodes WHERE id = target)",
    "sources: raw records of another namespace": "DELETE FROM sources WHERE (SELECT ns FROM items WHERE id = item) "
    "<> (SELECT ns FROM raw WHERE raw.id = sources.raw)",
    "edges: weights out of range": "UPDATE edges SET weight = 1 WHERE NOT (weight > 0 AND weight <= 1)",
    "namespaces: dimensions out of range": "UPDATE namespaces SET fingerprint = NULL, dimension = NULL "  # noqa: S608  (constants)
    f"WHERE dimension < 1 OR dimension > {VECTOR_DIMENSIONS} OR (fingerprint IS NULL) <> (dimension IS NULL)",
}
"""What an import of a crafted export could leave in an older version, and what takes it away."""


def _without_strangers(db: apsw.Connection) -> list[str]:
    done: list[str] = []
    for what, sql in _STRANGERS.items():
        db.execute(sql)
        if db.changes():
            done.append(f"mended: {what}")
    return done


def _begin_log(db: apsw.Connection, ns: int) -> None:
    """Two entries, and none before them: every process opens the indexes anew, whatever it has heard of."""
    items.log(db, ns, [(0, Change.LABELS)])
    last = items.last_change(db, ns)
    items.log(db, ns, [(0, Change.LABELS)])
    items.prune(db, ns, last)


def _publish(indexes: Indexes, ns: int, *, purge: bool) -> None:
    """From the rows alone. Another process may be publishing or embedding: that takes a moment."""
    deadline = time.monotonic() + LEASE_SECONDS
    while True:
        if indexes.publish(ns, anew=True, purge=purge):
            return
        if time.monotonic() > deadline:
            raise StoreBusy(
                "another process has been working on the indexes for too long", "Close other clients, and repair again"
            )
        time.sleep(_RETRY_SECONDS)


def purge(database: Database, folder: Path) -> list[str]:
    """After a repair: nothing that was forgotten is left in any file of the store. Backups elsewhere stay."""
    with database.write() as db:
        db.execute("DELETE FROM tags WHERE uses = 0")
    database.vacuum()
    copies = old_copies(folder)
    for path in copies:
        path.unlink()
    files.sync_folder(folder)
    removed = [f"removed {path.name}, which held what was stored then" for path in copies]
    return ["forgotten text removed from the database, its log and the indexes", *removed]
