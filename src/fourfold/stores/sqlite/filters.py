"""Filters as SQL conditions on a row of `items` (B5). Values are always bound, never part of the SQL text."""

from __future__ import annotations

import math
from typing import Any

from fourfold.model import Filters, MetadataTest
from fourfold.stores.sqlite.database import dumps, micros
from fourfold.text.fold import fold

_Condition = tuple[str, tuple[Any, ...]]


def where(filters: Filters, ns: int) -> _Condition:
    """' AND ...' with its bindings; empty when nothing is asked."""
    parts = list(_tags(filters, ns))
    if filters.created_from is not None:
        parts.append(("items.created_at >= ?", (micros(filters.created_from),)))
    if filters.created_to is not None:
        parts.append(("items.created_at <= ?", (micros(filters.created_to),)))
    for column, wanted in (("kind", filters.kind), ("language", filters.language)):
        if wanted is not None:
            parts.append((f"items.{column} = ?", (wanted,)))
    if filters.path is not None:
        parts.append(("items.path REGEXP ?", (filters.path,)))
    parts.extend(_metadata(test) for test in filters.metadata)
    return "".join(f" AND {sql}" for sql, _ in parts), tuple(binding for _, bindings in parts for binding in bindings)


def _tags(filters: Filters, ns: int) -> list[_Condition]:
    folded = sorted({fold(tag) for tag in filters.tags})
    groups = [folded] if filters.any_tag and folded else [[tag] for tag in folded]
    return [
        (
            "items.id IN (SELECT item FROM item_tags WHERE tag IN "
            f"(SELECT id FROM tags WHERE ns = ? AND folded IN ({', '.join('?' * len(group))})))",
            (ns, *group),
        )
        for group in groups
    ]


_OPERATORS = {"eq": "=", "lt": "<", "gte": ">="}


def _metadata(test: MetadataTest) -> _Condition:
    """Compares like with like: numbers with numbers, strings with strings, true with true."""
    kinds, operand = _json_kind(test.value)
    inside = ", ".join(f"'{kind}'" for kind in kinds)
    compare = "" if test.value is None else f" AND value {_OPERATORS[test.op]} ?"
    bindings = (test.key,) if test.value is None else (test.key, operand)
    return f"EXISTS (SELECT 1 FROM json_each(items.metadata) WHERE key = ? AND type IN ({inside}){compare})", bindings


def _json_kind(data: Any) -> tuple[tuple[str, ...], Any]:
    match data:
        case None:
            return ("null",), None
        case bool():
            return ("true", "false"), int(data)
        case int() | float():
            return ("integer", "real"), _number(data)
        case str():
            return ("text",), data
        case _:
            return ("array", "object"), dumps(data)


def _number(number: int | float) -> int | float:
    """As SQLite has it: a real number beyond 64 bits."""
    if isinstance(number, float) or -(1 << 63) <= number < 1 << 63:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
