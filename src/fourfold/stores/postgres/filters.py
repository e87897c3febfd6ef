"""Filters as SQL conditions on a row of `items` (B5). Values are always bound, never part of the SQL text."""

from __future__ import annotations

import json
from typing import Any

from fourfold.model import Filters, Json, MetadataTest
from fourfold.stores.globs import beginning, matches
from fourfold.stores.postgres.sql import Db, rows
from fourfold.stores.sqlite.database import dumps, micros
from fourfold.text.fold import fold

Condition = tuple[str, tuple[Any, ...]]

_LAST = "\U0010ffff"


def facts(metadata: Json) -> str:
    """Metadata as JSON that compares like with like: lists and maps by their text, and no NUL, which jsonb lacks."""
    return dumps({_without_nul(key): _fact(data) for key, data in metadata.items()}).replace("\\u0000", "\ufffd")


def _fact(data: Json) -> Json:
    return [_without_nul(dumps(data))] if isinstance(data, list | dict) else _without_nul(data)


def _without_nul(data: Json) -> Json:
    return data.replace("\x00", "\ufffd") if isinstance(data, str) else data


async def where(db: Db, filters: Filters, ns: int) -> Condition:
    """' AND ...' with its bindings; empty when nothing is asked."""
    parts = list(_tags(filters, ns))
    if filters.created_from is not None:
        parts.append(("items.created_at >= %s", (micros(filters.created_from),)))
    if filters.created_to is not None:
        parts.append(("items.created_at <= %s", (micros(filters.created_to),)))
    for column, wanted in (("kind", filters.kind), ("language", filters.language)):
        if wanted is not None:
            parts.append((f"items.{column} = %s", (wanted,)))
    if filters.path is not None:
        parts.append(("items.path = ANY(%s)", (await _paths(db, ns, filters.path),)))
    parts.extend(_metadata(test) for test in filters.metadata)
    return "".join(f" AND {sql}" for sql, _ in parts), tuple(binding for _, bindings in parts for binding in bindings)


async def _paths(db: Db, ns: int, glob: str) -> list[str]:
    """The paths that match, compared here: a glob means the same on every store."""
    start = beginning(glob)
    sql = "SELECT DISTINCT path FROM items WHERE ns = %s AND path >= %s AND path <= %s"
    return [path for (path,) in await rows(db, sql, ns, start, start + _LAST) if matches(glob, path)]


def _tags(filters: Filters, ns: int) -> list[Condition]:
    folded = sorted({fold(tag) for tag in filters.tags})
    groups = [folded] if filters.any_tag and folded else [[tag] for tag in folded]
    sql = "items.id IN (SELECT item FROM item_tags WHERE ns = %s AND folded = ANY(%s))"
    return [(sql, (ns, group)) for group in groups]


_OPERATORS = {"lt": "<", "gte": ">="}


def _metadata(test: MetadataTest) -> Condition:
    """Compares like with like: numbers with numbers, strings with strings, true with true."""
    key, fact = _without_nul(test.key), _fact(test.value)
    if test.op == "eq" or test.value is None:
        return "items.facts @> %s::jsonb", (facts({test.key: test.value}),)
    kind, found, bound = _compared(test.value)
    holds = f"{found} {_OPERATORS[test.op]} {bound}"
    sql = f"CASE WHEN jsonb_typeof(items.facts -> %s) = '{kind}' THEN {holds} ELSE false END"
    wanted = fact[0] if kind == "array" else json.dumps(fact) if kind != "string" else fact
    return sql, (key, key, wanted)


def _compared(data: Json) -> tuple[str, str, str]:
    """Kind of a fact, and both sides of the comparison."""
    match data:
        case bool():
            return "boolean", "(items.facts -> %s)::boolean", "%s::boolean"
        case int() | float():
            return "number", "(items.facts -> %s)::numeric", "%s::numeric"
        case str():
            return "string", '(items.facts ->> %s) COLLATE "C"', "%s"
        case _:
            return "array", '(items.facts -> %s ->> 0) COLLATE "C"', "%s"
