"""Whole copies of a database file: consistent, taken while others read and write, there as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import apsw

from fourfold import owner_only
from fourfold.index.segment_files import sync_folder

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
