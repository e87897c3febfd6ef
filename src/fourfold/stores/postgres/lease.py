"""The right to work for everyone on a namespace: an advisory lock, which the server takes back when its holder dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from fourfold.stores.postgres.database import Database
from fourfold.stores.postgres.sql import Db, run, value

_KEY = "hashtextextended(%s, 4)"
_IS_LOCKED = f"""
    SELECT EXISTS (
        SELECT 1 FROM pg_locks, (SELECT {_KEY} AS key) AS wanted
        WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid::bigint << 32) | objid::bigint = key)"""  # noqa: S608  (constants)


@dataclass(slots=True)
class _Held:
    """A connection that has the lock, and how many in this process rely on it."""

    holders: int = 0
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)


class Leases:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[str | None, _Held] = {}
        self._changing = asyncio.Lock()

    @asynccontextmanager
    async def held(self, namespace: str | None) -> AsyncGenerator[bool]:
        """Whether this process has it; it waits for no other one. Tasks of one process have it together.

        None stands for the lease of the embedding worker.
        """
        held = await self._taken(namespace)
        try:
            yield held is not None
        finally:
            if held is not None:
                await self._let_go(namespace, held)

    async def _taken(self, namespace: str | None) -> _Held | None:
        async with self._changing:
            held = self._held.get(namespace) or _Held()
            if not held.holders and not await held.stack.enter_async_context(self._locked(namespace)):
                await held.stack.aclose()
                return None
            held.holders += 1
            self._held[namespace] = held
            return held

    async def _let_go(self, namespace: str | None, held: _Held) -> None:
        async with self._changing:
            held.holders -= 1
            if not held.holders:
                del self._held[namespace]
                await held.stack.aclose()

    @asynccontextmanager
    async def _locked(self, namespace: str | None) -> AsyncGenerator[bool]:
        key = self._key(namespace)
        with self._database.translated():
            async with self._database.connection() as db:
                mine = bool(await value(db, f"SELECT pg_try_advisory_lock({_KEY})", key))
                try:
                    yield mine
                finally:
                    if mine:
                        with suppress(psycopg.OperationalError):  # then the server has taken it back
                            await run(db, f"SELECT pg_advisory_unlock({_KEY})", key)

    async def worker_is_running(self) -> bool:
        """Whether any process, this one included, is the embedding worker. Takes no lock."""

        async def asking(db: Db) -> bool:
            return bool(await value(db, _IS_LOCKED, self._key(None)))

        return await self._database.read(asking)

    def _key(self, namespace: str | None) -> str:
        """A namespace has a name, so that no key of one ends with the slash."""
        return f"{self._database.address.schema}/{namespace or ''}"
