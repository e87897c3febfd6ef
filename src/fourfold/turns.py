"""A few at a time, and the others in the order in which they came; but nobody waits for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Turns:
    """What is done inside by more than `number` at once goes slower for all of them."""

    def __init__(self, number: int, patience: float) -> None:
        """`patience`: seconds after which one goes on beside those that take so long."""
        self._free = asyncio.Semaphore(number)
        self._patience = patience

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        taken = await self._taken()
        try:
            yield
        finally:
            if taken:
                self._free.release()

    async def _taken(self) -> bool:
        if not self._free.locked():
            return await self._free.acquire()
        try:
            async with asyncio.timeout(self._patience):
                return await self._free.acquire()
        except TimeoutError:
            return False
