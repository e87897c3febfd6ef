"""The store for a team: one PostgreSQL server with pgvector. It holds rows and indexes; scores are computed here."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from fourfold import limits
from fourfold.errors import StoreBusy
from fourfold.model import Json
from fourfold.scheduling import Turns
from fourfold.storage.engines.protocol import Engine
from fourfold.storage.postgres import namespaces
from fourfold.storage.postgres.database import CONNECTIONS, Database, Leases, Tuning, parse_address
from fourfold.storage.postgres.index_feed import Feeder
from fourfold.storage.postgres.index_search import Index
from fourfold.storage.postgres.maintenance import PostgresMaintenance, is_analysed_otherwise, store_status
from fourfold.storage.postgres.snapshot import Caches, PostgresSnapshot
from fourfold.storage.postgres.transaction import PostgresPortable, PostgresTransaction
from fourfold.storage.sql.linking import Linker

_DEFAULT = Tuning()


class PostgresStore:
    """As durable as the server's `synchronous_commit`. Any number of processes may have one store open."""

    def __init__(self, dsn: str, tuning: Tuning = _DEFAULT, engine: Engine | None = None) -> None:
        """`engine`: a distributed index of words and vectors, for the namespaces for which it was created."""
        self.address = parse_address(dsn)
        self.tuning = tuning
        self.database = Database(self.address, tuning)
        self.index = None if engine is None else Index(engine, self.database)
        self.feeder = None if engine is None else Feeder(self.database, engine, tuning)
        self.leases = Leases(self.database)
        self.maintenance = PostgresMaintenance(self)
        self.portable = PostgresPortable(self)
        self._caches = Caches()
        self._linkers: dict[int, Linker] = {}
        self._writers: dict[str, Turns] = {}

    def open(self, *, create: bool = True) -> None:
        """Connects and migrates the schema; without `create`, StoreNotFound if there is none."""
        self.database.open(create=create)
        if self.database.read(is_analysed_otherwise):
            self.maintenance.analyse_again()

    @property
    def concurrent_searches(self) -> int:
        return CONNECTIONS

    def snapshot(self, namespace: str, *, seconds: float | None = None) -> PostgresSnapshot:
        """Opens a snapshot; `seconds` is the deadline of all its reads."""
        seconds = seconds or limits.READ_SECONDS
        return PostgresSnapshot(self.database, namespace, seconds, self._caches, self.tuning, self.index)

    @contextmanager
    def transaction(self, namespace: str, *, names: bool = False) -> Generator[PostgresTransaction]:
        writer = self._writers.setdefault(namespace, Turns(1))
        with writer.turn(limits.BUSY_SECONDS) as mine, self.database.translated():
            if not mine:
                raise StoreBusy(f"{namespace} has been written to for {limits.BUSY_SECONDS:g} s", "Try again")
            db, found = self.database.begin(f"BEGIN; {namespaces.finding(namespace, lock=True)}")
            tx: PostgresTransaction | None = None
            try:
                with self.database.committed(db):
                    tx = PostgresTransaction(db, namespaces.found(found, namespace), self._linkers)
                    yield tx
                    tx.store()
            except BaseException:
                if tx is not None:
                    self._linkers.pop(tx.ns.id, None)  # it may know names that were rolled back
                raise

    def namespaces(self) -> dict[str, int]:
        return {ns.name: ns.items - ns.superseded for ns in self.database.read(namespaces.everyone)}

    def status(self) -> dict[str, Json]:
        facts = self.database.read(store_status)
        return {"store": self.address.shown, **facts, "embedding_worker": self.leases.worker_is_running()}

    def close(self) -> None:
        if self.index is not None:
            self.index.close()
        self.database.close()
