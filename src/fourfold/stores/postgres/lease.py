"""The right to work for everyone on a namespace: an advisory lock, which the server takes back when its holder dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from fourfold.stores.postgres.database import Database
from fourfold.stores.postgres.sql import run, value

_KEY = "hashtextextended(%s, 4)"


@dataclass(slots=True)
class _Held:
    """A connection that has the lock, and how many in this process rely on it."""

    holders: int = 0
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)


class Leases:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[str, _Held] = {}
        self._changing = asyncio.Lock()

    @asynccontextmanager
    async def held(self, namespace: str) -> AsyncGenerator[bool]:
        """Whether this process has it; it waits for no other one. Tasks of one process have it together."""
        held = await self._taken(namespace)
        try:
            yield held is not None
        finally:
            if held is not None:
                await self._let_go(namespace, held)

    async def _taken(self, namespace: str) -> _Held | None:
        async with self._changing:
            held = self._held.get(namespace) or _Held()
            if not held.holders and not await held.stack.enter_async_context(self._locked(namespace)):
                await held.stack.aclose()
                return None
            held.holders += 1
            self._held[namespace] = held
            return held

    async def _let_go(self, namespace: str, held: _Held) -> None:
        async with self._changing:
            held.holders -= 1
            if not held.holders:
                del self._held[namespace]
                await held.stack.aclose()

    @asynccontextmanager
    async def _locked(self, namespace: str) -> AsyncGenerator[bool]:
        key = f"{self._database.address.schema}/{namespace}"
        with self._database.translated():
            async with self._database.connection() as db:
                mine = bool(await value(db, f"SELECT pg_try_advisory_lock({_KEY})", key))
                try:
                    yield mine
                finally:
                    if mine:
                        with suppress(psycopg.OperationalError):  # then the server has taken it back
                            await run(db, f"SELECT pg_advisory_unlock({_KEY})", key)
