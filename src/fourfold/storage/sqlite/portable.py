"""Export and import of a SQLite store: what differs from `storage.sql.portable`."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from fourfold.errors import RequestError, StoreReplaced
from fourfold.storage.sql import portable
from fourfold.storage.sql.portable import SqlPortable
from fourfold.storage.sqlite import folder as folders
from fourfold.storage.sqlite import vectors
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database
from fourfold.storage.sqlite.transaction import SqliteTransaction
from fourfold.storage.values import Record


def records(db: Connection, namespace: str | None = None) -> Iterator[Record]:
    """All records, or those of one namespace, in an order that depends on the content alone."""
    return portable.records(db, namespace, vectors.stored)


class SqlitePortable(SqlPortable[Connection]):
    def __init__(
        self, folder: Path, database: Database, writing: threading.Lock, catch_up: Callable[[int], None]
    ) -> None:
        """`catch_up`: completes the links of a namespace (by its number), which an export contains."""
        super().__init__(writing)
        self._folder = folder
        self._db = database
        self._catch_up = catch_up

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        with self._db.read() as db:
            namespaces = db.rows("SELECT id, name FROM namespaces ORDER BY name")
        for ns, name in namespaces:
            if namespace in (None, name):
                self._catch_up(ns)
        with self._db.read() as db:
            for record in records(db, namespace):
                write(record)

    def writing(self) -> AbstractContextManager[Connection]:
        return self._db.write()

    def _transaction(self, tx: Connection, namespace: str) -> SqliteTransaction:
        return SqliteTransaction(tx, namespace, {})

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        """Deletes the files of the store while no other process can write to it.

        Processes that have it open get a StoreReplaced with their next call: nothing is confirmed and lost.
        """
        with self._turn, suppress(StoreReplaced), self._db.write() as db:
            if not is_copied(records(db)):
                raise RequestError("the store changed after it was copied", "Nothing was removed. Repeat the command")
            for file in (*self._folder.glob(f"{folders.DATABASE}*"), *folders.old_copies(self._folder)):
                file.unlink(missing_ok=True)
        shutil.rmtree(self._folder / folders.INDEX, ignore_errors=True)
        with suppress(OSError):
            self._folder.rmdir()
