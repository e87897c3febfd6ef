"""Bearer tokens and the namespaces that each of them opens."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

from fourfold.errors import InvalidSetting

if TYPE_CHECKING:
    from fourfold.config import Settings

Tokens = Mapping[str, tuple[str, ...] | None]
"""Namespaces by token; None: all of them. An empty mapping: no token is required."""

allowed: ContextVar[tuple[str, ...] | None] = ContextVar("allowed", default=None)
"""The namespaces of the caller's token; None: all."""


def read_tokens(settings: Settings) -> Tokens:
    """Parses NAMESPACE[+NAMESPACE...]:SECRET; * stands for every namespace."""
    found: dict[str, tuple[str, ...] | None] = {}
    for entry in settings.http_tokens:
        names, _, secret = entry.rpartition(":")
        if secret in found:
            raise InvalidSetting("http_tokens has one secret twice", "Several namespaces for one: A+B:SECRET")
        found[secret] = None if names == "*" else tuple(names.split("+"))
    return found


def known(token: str, tokens: Tokens) -> bool:
    """Compares with every token in constant time."""
    return sum([hmac.compare_digest(token.encode(), each.encode()) for each in tokens]) > 0
