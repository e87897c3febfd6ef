"""The embedded store: a folder with one SQLite file, and indexes that can be rebuilt from it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from fourfold import limits, scheduling
from fourfold.errors import StoreBusy, TimedOut
from fourfold.index import text_index
from fourfold.model import Json
from fourfold.storage.sql.linking import Linker, name_terms
from fourfold.storage.sqlite.database import DEFAULT, Database, Deadline, Tuning
from fourfold.storage.sqlite.folder import (
    DATABASE,
    INDEX,
    prepare_folder,
    require_content,
    require_store,
    store_identity,
    store_status,
)
from fourfold.storage.sqlite.indexes import HiddenChanges, Indexes, IndexOpening
from fourfold.storage.sqlite.maintenance import SqliteMaintenance
from fourfold.storage.sqlite.namespaces import all_ids, last_change
from fourfold.storage.sqlite.snapshot import Caches, SqliteSnapshot
from fourfold.storage.sqlite.transaction import SqlitePortable, SqliteTransaction

_TEMPORARY: Final = Tuning(durable=False)


class SqliteStore:
    """Durable through power loss when a write returns. Many processes may have one folder open."""

    concurrent_searches = 2
    """GIL contention: 8 concurrent searches reach two thirds of the throughput of 2."""

    def __init__(self, folder: Path, *, create: bool = True, tuning: Tuning = DEFAULT) -> None:
        if not create:
            require_store(folder)
        prepare_folder(folder)
        self.folder = folder
        self._tuning = tuning
        self._db = Database(folder / DATABASE, tuning)
        try:
            require_content(folder, self._db)
        except BaseException:
            self._db.close()
            raise
        self._indexes = Indexes(folder / INDEX, store_identity(self._db), self._db, tuning)
        self._caches = Caches(self._db, self._indexes)
        self._linkers: dict[int, Linker] = {}
        self._writing = threading.Lock()
        self.maintenance = SqliteMaintenance(
            folder, self._db, self._indexes, self.transaction, self._may_mention, tuning.pace
        )
        self.portable = SqlitePortable(folder, self._db, self._writing, self.maintenance.catch_up)

    def snapshot(self, namespace: str, *, seconds: float | None = None) -> AbstractContextManager[SqliteSnapshot]:
        deadline = Deadline(limits.READ_SECONDS if seconds is None else seconds)
        return self._db.reading(lambda db: SqliteSnapshot(db, namespace, self._caches, deadline), deadline)

    @contextmanager
    def transaction(self, namespace: str, *, names: bool = False) -> Generator[SqliteTransaction]:
        """`names`: opens the index in which new names are looked up before the transaction blocks other writers."""
        if names:
            self._open_texts(namespace)
        with self._writing, scheduling.in_bulk():
            try:
                with self._db.write() as db:
                    tx = SqliteTransaction(db, namespace, self._linkers, self._may_mention)
                    yield tx
                    tx.store()
                    if tx.items_put >= self._tuning.bulk_items:
                        hidden = HiddenChanges(tx.ns.id, tx.first_change, last_change(db, tx.ns.id))
                        self._indexes.hide(hidden)
                self._indexes.fold_in()
            except BaseException:
                self._linkers.clear()  # they may hold names that were rolled back
                raise
            finally:
                self._indexes.confirm()
        if tx.items_put:
            self._indexes.note_write(tx.ns.id, tx.items_put)

    def _open_texts(self, namespace: str) -> None:
        with suppress(StoreBusy, TimedOut), self.snapshot(namespace, seconds=limits.RETRIEVER_SECONDS) as at:
            if at.exists:
                self._indexes.read_texts(at, lambda _: None)

    def _may_mention(self, ns: int, name: str) -> Sequence[int] | None:
        """Items of earlier transactions that may contain all words of a name; None if the index cannot be read now."""
        deadline = Deadline(limits.READ_SECONDS)
        with self._db.read(deadline) as db:  # not the writer's connection: indexes must not see uncommitted changes
            at = SqliteSnapshot(db, ns, self._caches, deadline)
            if not at.last_change:
                return []
            groups = name_terms(name, tuple(at.languages))
            if not groups:
                return all_ids(db, at.ns)
            try:
                return self._indexes.read_open_texts(at, lambda state: text_index.containing(state, groups))
            except IndexOpening:
                return None

    def namespaces(self) -> dict[str, int]:
        with self._db.read(Deadline(limits.READ_SECONDS)) as db:
            return dict(db.rows("SELECT name, items - superseded FROM namespaces ORDER BY name"))

    def status(self) -> dict[str, Json]:
        with self._db.read(Deadline(limits.READ_SECONDS)) as db:
            facts = store_status(db, self.folder, self._indexes.publisher.unpublished)
        with self.maintenance.lease(None) as free:
            return {**facts, "embedding_worker": not free}

    def close(self) -> None:
        """Waits for reads, the write and the publication that are running."""
        with self._writing:
            self._indexes.publisher.close()
        self._caches.links.close()
        self._db.close()  # before the indexes: a search that is running could open their files again
        self._caches.vector_threads.close()
        self._indexes.close()


class TemporaryStore(SqliteStore):
    """A store in a new folder, which is removed when the store is closed, at the latest when the process exits.

    A process that is killed leaves the folder in the system's folder for temporary files.
    """

    def __init__(self, tuning: Tuning = _TEMPORARY) -> None:
        folder = Path(tempfile.mkdtemp(prefix="fourfold-"))
        try:
            super().__init__(folder, tuning=tuning)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._process = os.getpid()
        atexit.register(self._close_at_exit)

    def close(self) -> None:
        try:
            super().close()
        finally:
            atexit.unregister(self._close_at_exit)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _close_at_exit(self) -> None:
        """Closes the store, unless this is a forked child: the folder belongs to the parent."""
        if os.getpid() == self._process:
            self.close()
