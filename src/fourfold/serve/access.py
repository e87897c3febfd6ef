"""Who may do what on a server: tokens with their namespaces, scopes and rates, and the open memory behind them."""

from __future__ import annotations

import asyncio
import hmac
import math
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from fourfold.errors import InvalidSetting, NoAccess
from fourfold.operations import SCOPES, Scope

if TYPE_CHECKING:
    from fourfold.aio import AsyncMemory
    from fourfold.config import Settings
    from fourfold.memory import Memory
    from fourfold.model import Json


# ---------------------------------------------------------------- tokens


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a caller."""

    namespaces: tuple[str, ...] | None = None
    """The permitted namespaces; None: all."""
    scope: Scope = "admin"

    def allows(self, scope: Scope) -> bool:
        return SCOPES.index(scope) <= SCOPES.index(self.scope)


Tokens = Mapping[str, Grant]
"""Grants by token. An empty mapping: no token is required."""
granted: ContextVar[Grant] = ContextVar("granted")
"""The grant of the caller's token. A server over pipes, which has no tokens, leaves it unset."""


def grant() -> Grant:
    """The rights of the caller of the current request."""
    return granted.get(Grant())


def read_tokens(settings: Settings) -> Tokens:
    """Parses NAMESPACE[+NAMESPACE...][:SCOPE]:SECRET; * stands for every namespace, the default scope is admin."""
    tokens: dict[str, Grant] = {}
    for entry in settings.http_tokens:
        rest, _, secret = entry.rpartition(":")
        names, _, scope = rest.partition(":")
        if secret in tokens:
            raise InvalidSetting("http_tokens has one secret twice", "Several namespaces for one: A+B:SECRET")
        if scope and scope not in SCOPES:
            raise InvalidSetting(f"http_tokens has the scope {scope!r}", f"A scope is one of {', '.join(SCOPES)}")
        tokens[secret] = Grant(None if names == "*" else tuple(names.split("+")), scope or "admin")
    return tokens


def is_known(token: str, tokens: Tokens) -> bool:
    """Compares with every token in constant time."""
    return sum([hmac.compare_digest(token.encode(), each.encode()) for each in tokens]) > 0


class RequestRate:
    """Limits the requests per minute of each token; bursts of up to a minute's quota are allowed."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = per_minute
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait_seconds(self, token: str) -> int:
        """Counts the request and returns 0 if it may run; otherwise returns the seconds until a retry."""
        now = self._clock()
        left, since = self._left.get(token, (float(self._most), now))
        left = min(self._most, left + (now - since) * self._most / 60)
        allowed = left >= 1
        self._left[token] = (left - 1 if allowed else left, now)
        return 0 if allowed else max(1, math.ceil((1 - left) * 60 / self._most))


# ---------------------------------------------------------------- the open memory


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
        default = memory.namespace if permitted is None or memory.namespace in permitted else permitted[0]
        wanted = namespace or default
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
    namespaces = status["namespaces"]
    return {
        "namespace": memory.namespace,
        "embedder": status["embedder"],
        "namespaces": {name: facts for name, facts in namespaces.items() if name in permitted},
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


def _open(settings: Callable[[], Settings]) -> Memory:
    """Reads the settings, imports the engine and opens the store; in a thread, since all of this blocks."""
    from fourfold.memory import Memory

    loaded = settings()
    if "," in loaded.namespace:
        raise InvalidSetting(f"{loaded.namespace!r} names several namespaces", "Set one; a tool may name another")
    return Memory.open(loaded.store, namespace=loaded.namespace, settings=loaded)
