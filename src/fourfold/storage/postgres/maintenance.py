"""Publishing, checking and repairing a store."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fourfold.errors import RequestError
from fourfold.index.log_tail import Change
from fourfold.storage.postgres import check, index_check, namespaces, postings, vectors
from fourfold.storage.postgres.transaction import PostgresLinkRows
from fourfold.storage.repair import mend, within_limits
from fourfold.storage.sql import linking, queue
from fourfold.storage.sql.rows import load_all, read_items

if TYPE_CHECKING:
    from fourfold.storage.postgres.store import PostgresStore


class PostgresMaintenance:
    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.pace = store.tuning.pace

    def queues(self, replaced: Sequence[str] = ()) -> list[str]:
        return self._store.database.read(partial(queue.queues, replaced=replaced))

    def lease(self, namespace: str | None) -> AbstractContextManager[bool]:
        return self._store.leases.held(namespace)

    # ------------------------------------------------------------ publishing

    def publish(self, namespace: str, *, everything: bool = False, amid_writes: bool = False) -> bool:
        database, tuning = self._store.database, self._store.tuning
        if not self._is_due(namespace, everything=everything, amid_writes=amid_writes):
            return True
        with self.lease(namespace) as mine:
            if mine:
                if not amid_writes:
                    self.catch_up(namespace)
                if (feeder := self._store.feeder) is not None:
                    feeder.feed(namespace, everything=everything)
                if not self._has_index(namespace):
                    if not amid_writes:  # adding 1,000 vectors to an index takes seconds, for which all writers wait
                        vectors.index(database, namespace, tuning)
                    postings.build(database, namespace, tuning, everything=everything)
            return mine

    def _has_index(self, namespace: str) -> bool:
        """Whether a distributed index answers, so that PostgreSQL needs none of its own."""
        return self._store.database.read(lambda db: namespaces.find(db, namespace).generation) is not None

    def _is_due(self, namespace: str, *, everything: bool, amid_writes: bool) -> bool:
        with self._store.snapshot(namespace) as at:
            feeder, due = self._store.feeder, not amid_writes and bool(PostgresLinkRows(at.db, at.ns).postponed())
            due = due or (feeder is not None and feeder.is_due(at.db, at.ns, everything=everything))
            if at.ns.generation is not None:
                return due
            due = due or postings.is_due(at.db, at.ns, at.tuning, everything=everything)
            return due or (not amid_writes and vectors.lacks_index(at.db, at.ns, at.tuning))

    def catch_up(self, namespace: str) -> None:
        """Searches older items for the names of postponed nodes."""

        @contextmanager
        def reading() -> Generator[PostgresLinkRows]:
            with self._store.snapshot(namespace) as at:
                yield PostgresLinkRows(at.db, at.ns)

        @contextmanager
        def writing() -> Generator[PostgresLinkRows]:
            with self._store.transaction(namespace) as tx:
                tx.stored()
                yield tx.link_rows

        def may_mention(name: str) -> list[int]:
            with reading() as rows:
                return rows.may_mention(name)

        linking.catch_up(reading, writing, may_mention)

    # ------------------------------------------------------------ checking and repairing

    def check(self) -> list[str]:
        with self._store.database.long_snapshot() as db:
            problems = list(check.check(db))
        return problems + self.check_index()

    def check_index(self) -> list[str]:
        """Lists where distributed indexes differ from the rows."""
        if (feeder := self._store.feeder) is None:
            return []
        grace = self._store.tuning.check_grace_seconds
        return list(index_check.problems(self._store.database, feeder.engine, grace))

    def repair(self, *, purge: bool = False) -> list[str]:
        with self._store.database.write() as db:
            done = check.recount(db)
        for name in self._store.namespaces():
            if broken := self._breaking_limits(name):
                with self._store.transaction(name) as tx:
                    tx.stored()
                    done += mend(read_items(tx.db, name, tx.ns.id, broken).values(), tx.raw.add, tx.rewrite)
        done += [f"namespace {name}: texts analysed again" for name in self.analyse_again()]
        done += [line for name in self._store.namespaces() for line in self.mend_index(name)]
        if purge:
            with self._store.database.long_work() as db:
                check.vacuum(db)
            done.append("tables rewritten without what was forgotten")
        return done

    def mend_index(self, namespace: str) -> list[str]:
        """What the index lacks is logged once more, and fed."""
        feeder, store = self._store.feeder, self._store
        if feeder is None:
            return []
        done, lacking = index_check.mend(store.database, feeder.engine, namespace, store.tuning.check_grace_seconds)
        if lacking:
            with store.transaction(namespace) as tx:
                tx.stored().touch(lacking, Change.TEXT)
            self.publish(namespace, everything=True)
        return done

    def _breaking_limits(self, namespace: str) -> list[int]:
        """Items that break a rule."""
        with self._store.database.long_snapshot() as db:
            every = load_all(db, namespaces.find(db, namespace).id)
            return [row.id for row in every if within_limits(row.as_item(namespace))]

    def analyse_again(self) -> Sequence[str]:
        """Rebuilds everything that depends on the analyser; returns the namespaces."""
        names = list(self._store.namespaces())
        for name in names:
            with self._store.transaction(name) as tx:
                ns = tx.stored()
                postings.drop(tx.db, ns)
                check.analyse_again(tx.db, ns)
        with self._store.database.write() as db:
            check.note_analyser(db)
        return names

    def backup(self, target: Path) -> None:
        raise RequestError(
            "a PostgreSQL store is backed up by its server", "Use pg_dump, or fourfold export FILE (docs/postgres.md)"
        )
