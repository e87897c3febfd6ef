"""Metadata and numbers of filters in SQLite: what differs from `storage.sql.filters`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from fourfold.filters import Test
from fourfold.model import Json
from fourfold.storage.codec import dumps
from fourfold.storage.sql.dialect import Condition
from fourfold.storage.sql.filters import SIGNS, joined


def metadata_test(test: Test) -> Condition:
    """Walks down the keys; the value found, or one of its scalar elements, has to pass."""
    path = test.field.path
    tables = ["json_each(items.metadata) AS k0"]
    tables += [
        f"json_each(CASE k{step - 1}.type WHEN 'object' THEN k{step - 1}.value END) AS k{step}"
        for step in range(1, len(path))
    ]
    keys = " AND ".join(f"k{step}.key = ?" for step in range(len(path)))
    found, bindings = f"SELECT 1 FROM {', '.join(tables)} WHERE {keys}", tuple(path)  # noqa: S608  (our own clauses)
    if test.op == "exists":
        return f"EXISTS ({found})", bindings
    last = f"k{len(path) - 1}"
    whole = _value(test, last, [*_SCALARS, "json"])
    element = _value(test, "element", _SCALARS)
    elements = f"SELECT 1 FROM json_each(CASE {last}.type WHEN 'array' THEN {last}.value END) AS element WHERE"  # noqa: S608  (our own clauses)
    sql = f"EXISTS ({found} AND ({whole[0]} OR EXISTS ({elements} {element[0]})))"
    return sql, (*bindings, *whole[1], *element[1])


_TYPES: Final = {
    "null": "'null'",
    "true": "'true'",
    "false": "'false'",
    "number": "'integer', 'real'",
    "text": "'text'",
    "json": "'array', 'object'",
}
_SCALARS: Final = ("null", "true", "false", "number", "text")


def _value(test: Test, name: str, kinds: Iterable[str]) -> Condition:
    """Compares like with like: numbers with numbers, strings with strings, true with true."""
    wanted: dict[str, list[Any]] = {}
    for value in test.values:
        kind, operand = _operand(value)
        wanted.setdefault(kind, []).append(operand)
    parts: list[Condition] = []
    for kind in kinds:
        if kind not in wanted:
            continue
        operands = () if kind in ("null", "true", "false") else tuple(wanted[kind])
        sign = f"IN ({', '.join('?' * len(operands))})" if test.op == "in" else f"{SIGNS[test.op]} ?"
        compared = f" AND {name}.value {sign}" if operands else ""
        parts.append((f"({name}.type IN ({_TYPES[kind]}){compared})", operands))
    return joined(" OR ", parts or [("0", ())])


def _operand(data: Json) -> tuple[str, Any]:
    match data:
        case None:
            return "null", None
        case bool():
            return "true" if data else "false", None
        case int() | float():
            return "number", number(data)
        case str():
            return "text", data
        case _:
            return "json", dumps(data)


def number(number: int | float) -> int | float:
    """As SQLite has it: a real number beyond 64 bits."""
    if isinstance(number, float) or -(1 << 63) <= number < 1 << 63:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
