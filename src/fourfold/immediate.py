"""Running a coroutine that never waits, in a thread that has no event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NotImmediate(Exception):
    """It would have had to wait."""


def immediately(call: Coroutine[Any, Any, T]) -> T:
    """What it returns or raises; NotImmediate if it waits for anything."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value
    call.close()
    raise NotImmediate
