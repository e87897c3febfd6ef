"""The one open Memory of a server, and which namespaces a caller may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from fourfold.errors import InvalidSetting, RequestError
from fourfold.serve.auth import allowed

if TYPE_CHECKING:
    from fourfold.config import Settings
    from fourfold.memory import Memory
    from fourfold.model import Json


class Sessions:
    """Opens the store with the first call that needs it: a client is greeted before anything heavy is imported."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._opening = asyncio.Lock()
        self._memory: Memory | None = None

    async def memory(self, namespace: str | None = None) -> Memory:
        """On the namespace, which has to be one of the caller's; if none is named, on the server's or the first."""
        memory, permitted = await self._opened(), allowed.get()
        wanted = namespace or _default(memory.namespace, permitted)
        if permitted is not None and wanted not in permitted:
            raise RequestError(f"no access to the namespace {wanted!r}", f"Yours: {', '.join(permitted)}")
        return memory if wanted == memory.namespace else memory.within(wanted)

    async def _opened(self) -> Memory:
        async with self._opening:
            if self._memory is None:
                settings, memory = await asyncio.to_thread(_load, self._settings)
                self._memory = await memory.open(settings.store, namespace=settings.namespace, settings=settings)
        return self._memory

    async def status(self) -> dict[str, Json]:
        """Of what the caller may see: nothing that others do changes it."""
        memory, permitted = await self.memory(), allowed.get()
        status = await memory.status()
        if permitted is None:
            return status
        known = status["namespaces"]
        return {
            "namespace": memory.namespace,
            "embedder": status["embedder"],
            "namespaces": {name: facts for name, facts in known.items() if name in permitted},
        }

    async def ping(self) -> None:
        """Raises what keeps the store from answering."""
        await (await self._opened()).namespaces()

    async def close(self) -> None:
        if self._memory is not None:
            await self._memory.close()


def _default(namespace: str, permitted: tuple[str, ...] | None) -> str:
    return namespace if permitted is None or namespace in permitted else permitted[0]


def _load(settings: Callable[[], Settings]) -> tuple[Settings, type[Memory]]:
    """In a thread: reading the settings and importing the engine take a moment."""
    from fourfold.memory import Memory

    loaded = settings()
    if "," in loaded.namespace:
        raise InvalidSetting(f"{loaded.namespace} are several namespaces", "Serve one; tools may be told another")
    return loaded, Memory
