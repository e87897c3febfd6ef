"""The lease of a namespace: an advisory lock, which the server releases when its holder dies."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from fourfold.errors import StoreUnavailable
from fourfold.storage.postgres.database import Database

_KEY = "hashtextextended(?, 4)"
_IS_LOCKED = f"""
    SELECT EXISTS (
        SELECT 1 FROM pg_locks, (SELECT {_KEY} AS key) AS wanted
        WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid::bigint << 32) | objid::bigint = key)"""  # noqa: S608  (constants)


@dataclass(slots=True)
class _Held:
    """A connection that has the lock, and how many threads of this process rely on it."""

    holders: int = 0
    stack: ExitStack = field(default_factory=ExitStack)


class Leases:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[str | None, _Held] = {}
        self._changing = threading.Lock()

    @contextmanager
    def held(self, namespace: str | None) -> Generator[bool]:
        """Whether this process has the lease; it never waits. The threads of one process share it.

        None is the lease of the embedding worker.
        """
        held = self._taken(namespace)
        try:
            yield held is not None
        finally:
            if held is not None:
                self._let_go(namespace, held)

    def _taken(self, namespace: str | None) -> _Held | None:
        with self._changing:
            held = self._held.get(namespace) or _Held()
            if not held.holders and not held.stack.enter_context(self._locked(namespace)):
                held.stack.close()
                return None
            held.holders += 1
            self._held[namespace] = held
            return held

    def _let_go(self, namespace: str | None, held: _Held) -> None:
        with self._changing:
            held.holders -= 1
            if not held.holders:
                del self._held[namespace]
                held.stack.close()

    @contextmanager
    def _locked(self, namespace: str | None) -> Generator[bool]:
        key = self._key(namespace)
        with self._database.connection() as db:
            locked = bool(db.value(f"SELECT pg_try_advisory_lock({_KEY})", key))
            try:
                yield locked
            finally:
                if locked:
                    with suppress(StoreUnavailable):  # the server has released it
                        db.run(f"SELECT pg_advisory_unlock({_KEY})", key)

    def worker_is_running(self) -> bool:
        """Whether any process, this one included, is the embedding worker. Takes no lock."""
        return self._database.read(lambda db: bool(db.value(_IS_LOCKED, self._key(None))))

    def _key(self, namespace: str | None) -> str:
        """No namespace has an empty name, so the key of the worker is unique."""
        return f"{self._database.address.schema}/{namespace or ''}"
