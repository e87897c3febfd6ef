"""Bearer tokens: the namespaces that each of them opens, what it may do there, and how often."""

from __future__ import annotations

import hmac
import math
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fourfold.errors import InvalidSetting
from fourfold.operations import SCOPES, Scope

if TYPE_CHECKING:
    from fourfold.config import Settings


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
    found: dict[str, Grant] = {}
    for entry in settings.http_tokens:
        rest, _, secret = entry.rpartition(":")
        names, _, scope = rest.partition(":")
        if secret in found:
            raise InvalidSetting("http_tokens has one secret twice", "Several namespaces for one: A+B:SECRET")
        if scope and scope not in SCOPES:
            raise InvalidSetting(f"http_tokens has the scope {scope!r}", f"A scope is one of {', '.join(SCOPES)}")
        found[secret] = Grant(None if names == "*" else tuple(names.split("+")), scope or "admin")
    return found


def known(token: str, tokens: Tokens) -> bool:
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
