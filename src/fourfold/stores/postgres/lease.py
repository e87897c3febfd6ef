"""The right to work for everyone on a namespace: an advisory lock, which the server takes back when its holder dies."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from fourfold.stores.postgres.database import Database
from fourfold.stores.postgres.sql import run, value

_KEY = "hashtextextended(%s, 4)"


@dataclass(slots=True)
class _Held:
    """A connection that has the lock, and how many in this process rely on it."""

    mine: bool = False
    holders: int = 0
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)


class Leases:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[str, _Held] = {}

    @asynccontextmanager
    async def held(self, namespace: str) -> AsyncGenerator[bool]:
        """Whether this process has it; it never waits. Tasks of one process have it together."""
        known = self._held.get(namespace)
        if known is None:
            known = self._held[namespace] = _Held()
            try:
                known.mine = await known.stack.enter_async_context(self._locked(namespace))
            except BaseException:
                del self._held[namespace]
                raise
            if not known.mine:
                del self._held[namespace]
        known.holders += 1
        try:
            yield known.mine
        finally:
            known.holders -= 1
            if not known.holders:
                if self._held.get(namespace) is known:
                    del self._held[namespace]
                await known.stack.aclose()

    @asynccontextmanager
    async def _locked(self, namespace: str) -> AsyncGenerator[bool]:
        key = f"{self._database.address.schema}/{namespace}"
        with self._database.translated():
            async with self._database.connection() as db:
                mine = bool(await value(db, f"SELECT pg_try_advisory_lock({_KEY})", key))
                try:
                    yield mine
                finally:
                    if mine and not db.closed:
                        await run(db, f"SELECT pg_advisory_unlock({_KEY})", key)

    async def close(self) -> None:
        for held in list(self._held.values()):
            await held.stack.aclose()
        self._held.clear()
