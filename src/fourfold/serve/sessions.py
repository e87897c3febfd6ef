"""The open memory of a server, and the namespaces that a caller may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from fourfold.errors import InvalidSetting, NoAccess
from fourfold.serve.auth import Scope, grant

if TYPE_CHECKING:
    from fourfold.aio import AsyncMemory
    from fourfold.config import Settings
    from fourfold.memory import Memory
    from fourfold.model import Json


class Sessions:
    """Opens the store with the first call that needs it, so that the server starts without heavy imports."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._opening = asyncio.Lock()
        self._store: Memory | None = None
        self._memory: AsyncMemory | None = None

    async def memory(self, namespace: str | None = None, scope: Scope = "read") -> AsyncMemory:
        """The memory of a namespace that the caller may use; by default that of the server, or the caller's first."""
        memory, permitted = await self._opened(), grant().namespaces
        require(scope)
        wanted = namespace or _default(memory.namespace, permitted)
        require_namespace(wanted)
        return memory if wanted == memory.namespace else memory.within(wanted)

    async def blocking(self, namespace: str | None, scope: Scope) -> Memory:
        """The same memory, for a caller in a thread of its own."""
        wanted = (await self.memory(namespace, scope)).namespace
        return cast("Memory", self._store).within(wanted)

    async def _opened(self) -> AsyncMemory:
        async with self._opening:
            if self._memory is None:
                from fourfold.aio import AsyncMemory

                self._store = await asyncio.to_thread(_open, self._settings)
                self._memory = AsyncMemory(self._store)
        return self._memory

    async def status(self) -> dict[str, Json]:
        """The status of the namespaces that the caller may use; other namespaces do not show in it."""
        return await (await self.memory()).run(visible_status)

    async def ping(self) -> None:
        """Raises the error that prevents the store from answering."""
        await (await self._opened()).namespaces()

    async def close(self) -> None:
        if self._memory is not None:
            await self._memory.close()


def visible_status(memory: Memory) -> dict[str, Json]:
    """The status of the namespaces that the caller may use; other namespaces do not show in it."""
    status, permitted = memory.status(), grant().namespaces
    if permitted is None:
        return status
    known = status["namespaces"]
    return {
        "namespace": memory.namespace,
        "embedder": status["embedder"],
        "namespaces": {name: facts for name, facts in known.items() if name in permitted},
    }


def require_namespace(name: str) -> None:
    """NoAccess unless the caller may use this namespace."""
    permitted = grant().namespaces
    if permitted is not None and name not in permitted:
        raise NoAccess(f"no access to the namespace {name!r}", f"Yours: {', '.join(permitted)}")


def require(scope: Scope) -> None:
    """NoAccess unless the caller's token has this scope."""
    if not grant().allows(scope):
        raise NoAccess(f"this needs a token with the scope {scope}", f"Yours has the scope {grant().scope}")


def _default(namespace: str, permitted: tuple[str, ...] | None) -> str:
    return namespace if permitted is None or namespace in permitted else permitted[0]


def _open(settings: Callable[[], Settings]) -> Memory:
    """Reads the settings, imports the engine and opens the store; in a thread, since all of this blocks."""
    from fourfold.memory import Memory

    loaded = settings()
    if "," in loaded.namespace:
        raise InvalidSetting(f"{loaded.namespace!r} names several namespaces", "Set one; a tool may name another")
    return Memory.open(loaded.store, namespace=loaded.namespace, settings=loaded)
