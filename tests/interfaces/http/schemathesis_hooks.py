"""Tells schemathesis how to send JSON Lines, and gives three of four requests ids and names that exist.

Purely generated names, times and ids would nearly always be unknown, so that few requests would get far.
"""

from typing import Any
from zlib import crc32

import schemathesis

KNOWN = {"item": 1, "ids": [1], "created_at": "2026-11-15T10:00:00Z", "language": "en", "cursor": None, "where": None}
"""Values that replace generated ones; None leaves the parameter out."""
REFERRING = (
    "source_ids", "chunk_index", "path", "vector", "namespaces", "filters", "kind", "metadata", "created_after",
)  # fmt: skip


@schemathesis.serializer("application/jsonl")
def jsonl(_: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


def is_led(value: Any) -> bool:
    return bool(crc32(repr(value).encode("utf-8", "replace")) % 4)


@schemathesis.hook
def map_path_parameters(_: Any, parameters: Any) -> Any:
    if not isinstance(parameters, dict) or "namespace" not in parameters or not is_led(parameters):
        return parameters
    return {**parameters, "namespace": "default"}


@schemathesis.hook
def map_body(_: Any, body: Any) -> Any:
    return led(body) if is_led(body) else body


@schemathesis.hook
def map_query(_: Any, query: Any) -> Any:
    return led(query) if is_led(query) else query


def led(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {name: KNOWN.get(name, given) for name, given in value.items() if name not in REFERRING}
    return {
        name: [*map(led, given)] if isinstance(given, list) else given
        for name, given in kept.items()
        if given is not None
    }
