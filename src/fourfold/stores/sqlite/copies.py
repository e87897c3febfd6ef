"""Whole copies of a database file: consistent, taken while others read and write, there as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import apsw

from fourfold import owner_only
from fourfold.stores.sqlite.files import sync_folder

_PAGES = 1000


def copy_to(source: apsw.Connection, target: Path) -> None:
    """The snapshot that the connection's read transaction sees, as one file for its owner only."""
    aside = target.with_name(target.name + ".part")
    aside.unlink(missing_ok=True)
    owner_only.create_file(aside)
    try:
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
        aside.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
