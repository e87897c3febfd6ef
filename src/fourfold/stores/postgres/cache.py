"""What was asked of the server and holds until something changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_KEPT = 64


class Cache(Generic[T]):
    """Answers for a namespace, each good for one number of changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[int, T]] = {}

    async def get(self, ns: int, change: int, what: str, fresh: Callable[[], Awaitable[T]]) -> T:
        known = self._known.get((ns, what))
        if known is not None and known[0] == change:
            return known[1]
        found = await fresh()
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[ns, what] = (change, found)
        return found

    def known(self, ns: int, change: int, what: str) -> T | None:
        known = self._known.get((ns, what))
        return known[1] if known is not None and known[0] == change else None

    def clear(self) -> None:
        self._known.clear()
