"""Leases, publication, checks, repairs and backups of the embedded store."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from fourfold import limits, scheduling
from fourfold.storage.repair import mend, within_limits
from fourfold.storage.sql import queue
from fourfold.storage.sql.rows import load_all, read_items
from fourfold.storage.sqlite import check, health, namespaces, repair
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database, Deadline
from fourfold.storage.sqlite.indexes import Indexes
from fourfold.storage.sqlite.publish_worker import NoChildProcess, link_in_child
from fourfold.storage.sqlite.transaction import Lookup, SqliteTransaction, catch_up, is_behind, is_long
from fourfold.storage.values import Pace


class SqliteMaintenance:
    def __init__(
        self,
        folder: Path,
        database: Database,
        indexes: Indexes,
        transaction: Callable[[str], AbstractContextManager[SqliteTransaction]],
        may_mention: Lookup,
        pace: Pace,
    ) -> None:
        self.pace = pace
        self._folder = folder
        self._db = database
        self._indexes = indexes
        self._publisher = indexes.publisher
        self._transaction = transaction
        self._may_mention = may_mention

    def queues(self, replaced: Sequence[str] = ()) -> list[str]:
        with self._db.read(Deadline(limits.READ_SECONDS)) as db:
            return queue.queues(db, replaced)

    @contextmanager
    def lease(self, namespace: str | None) -> Generator[bool]:
        ns = None if namespace is None else self._number(namespace)
        if namespace is not None and ns is None:
            yield True
            return
        with ExitStack() as held:
            try:
                lease = self._publisher.worker_lease if ns is None else self._publisher.lease(ns)
                mine = held.enter_context(lease.held())
            except OSError:  # the lock file cannot be written: better to work twice than not at all
                mine = True
            yield mine

    def publish(self, namespace: str, *, everything: bool = False, amid_writes: bool = False) -> bool:
        ns = self._number(namespace)
        if ns is None:
            return True
        if amid_writes and self._publisher.is_loading(ns):
            return False
        self.catch_up(ns)
        with self._publisher.turn():
            return self._publisher.publish_if_due(ns, everything=everything)

    def catch_up(self, ns: int) -> None:
        """Links older items to names whose announcement was postponed."""
        with self._db.read() as db:
            if not is_behind(db, ns):
                return
            takes_long = is_long(db, ns, self._indexes.tuning.child_at_changes)
        with self._publisher.turn():
            if takes_long:
                with suppress(NoChildProcess):  # then this process does it
                    link_in_child(self._db.path, ns)
                    return
            catch_up(self._db, ns, self._may_mention)

    def check(self) -> list[str]:
        with scheduling.in_bulk():
            return check.check(self._db, self._indexes)

    def repair(self, *, purge: bool = False) -> list[str]:
        with self._publisher.turn():
            done = repair.repair(self._db, self._publisher, purge=purge)
        with self._db.read() as db:
            broken = {name: _breaking_limits(db, ns) for name, ns in db.rows("SELECT name, id FROM namespaces")}
        for namespace, ids in broken.items():
            done += self._bring_within_limits(namespace, ids) if ids else []
        if purge:
            with self._publisher.turn():
                done += repair.purge(self._db, self._folder)
        return done

    def _bring_within_limits(self, namespace: str, ids: Sequence[int]) -> list[str]:
        with self._transaction(namespace) as tx:
            return mend(read_items(tx.db, namespace, tx.ns.id, ids).values(), tx.raw.add, tx.rewrite)

    def backup(self, target: Path) -> None:
        with self._db.read() as db:
            health.backup(db, target)

    def _number(self, namespace: str) -> int | None:
        with self._db.read(Deadline(limits.READ_SECONDS)) as db:
            return namespaces.find(db, namespace).id or None


def _breaking_limits(db: Connection, ns: int) -> list[int]:
    """Items that break a limit."""
    return [row.id for row in load_all(db, ns) if within_limits(row.as_item(""))]
