"""Rebuilds counters, the queue and indexes from the rows; removes every trace of forgotten items."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import apsw

from fourfold.errors import DamagedStore, StoreBusy
from fourfold.index import segment_files
from fourfold.index.log_tail import Change
from fourfold.limits import LEASE_SECONDS
from fourfold.storage.sql import counters
from fourfold.storage.sqlite import changes, vectors
from fourfold.storage.sqlite.check import COUNTERS, MISSHAPEN, broken
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database
from fourfold.storage.sqlite.folder import old_copies
from fourfold.storage.sqlite.publishing import Publisher

_RETRY_SECONDS = 0.2


def repair(database: Database, publisher: Publisher, *, purge: bool = False) -> list[str]:
    """Rebuilds from the rows, and lists what was wrong. `purge`: also removes older index files."""
    _mend_file(database)
    done: list[str] = []
    with database.write() as db:
        done += _without_orphans(db)
        done += counters.recount(db, COUNTERS, MISSHAPEN, vectors.flawed(db))
        namespaces = db.rows("SELECT id, name FROM namespaces")
        for ns, _ in namespaces:
            _begin_log(db, ns)
    for ns, name in namespaces:
        _publish(publisher, ns, purge=purge)
        done.append(f"namespace {name}: indexes rebuilt")
    return done


def _mend_file(database: Database) -> None:
    """Rebuilds the indexes of the database itself; damaged rows need a backup."""
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


def _without_orphans(db: Connection) -> list[str]:
    """Removes rows that refer to missing rows; rows that lost their namespace get one."""
    lost = {table for table, *_ in db.rows("PRAGMA foreign_key_check")}
    for table in ("items", "raw", "nodes", "tags"):
        db.execute(
            f"INSERT INTO namespaces (id, name) SELECT DISTINCT ns, 'recovered-' || ns FROM {table} "  # noqa: S608  (our own clauses)
            "WHERE ns NOT IN (SELECT id FROM namespaces)"
        )
    for _ in range(len(lost) + 1):  # what goes may leave others behind
        for table, _, parent, _ in db.rows("PRAGMA foreign_key_check"):
            for _, _, target, column, *_ in db.rows(f"PRAGMA foreign_key_list({table})"):
                if target == parent:
                    db.execute(f"DELETE FROM {table} WHERE {column} NOT IN (SELECT id FROM {parent})")  # noqa: S608  (our own clauses)
    return [f"repaired: {table} had rows that refer to missing rows" for table in sorted(lost)]


def _begin_log(db: Connection, ns: int) -> None:
    """Two entries, and none before them: every process has to open the indexes again."""
    changes.log(db, ns, [(0, Change.LABELS)])
    last = changes.last_change(db, ns)
    changes.log(db, ns, [(0, Change.LABELS)])
    changes.prune(db, ns, last)


def _publish(publisher: Publisher, ns: int, *, purge: bool) -> None:
    """Rebuilds the indexes from the rows; waits while another process publishes or embeds."""
    deadline = time.monotonic() + LEASE_SECONDS
    while True:
        if publisher.publish(ns, rebuild=True, purge=purge):
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
    segment_files.sync_folder(folder)
    removed = [f"removed {path.name}, which held what was stored then" for path in copies]
    return ["forgotten text removed from the database, its log and the indexes", *removed]
