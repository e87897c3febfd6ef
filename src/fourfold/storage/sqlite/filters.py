"""Filters as SQL conditions on a row of `items`. Values and keys are always bound, never part of the SQL text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from fourfold.filters import Condition, Every, Not, Some, Test
from fourfold.model import Filters, Json
from fourfold.storage.codec import dumps, micros

_Sql = tuple[str, tuple[Any, ...]]

_SIGNS: Final = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def where(filters: Filters, ns: int) -> _Sql:
    """' AND ...' with its bindings; empty when nothing is asked."""
    condition = filters.condition
    if condition is None:
        return "", ()
    sql, bindings = _compiled(condition, ns)
    return f" AND {sql}", bindings


def _compiled(condition: Condition, ns: int) -> _Sql:
    """Holds where the SQL is true. NULL counts as false, also under NOT."""
    match condition:
        case Every():
            return _joined(" AND ", [_compiled(part, ns) for part in condition.parts])
        case Some():
            return _joined(" OR ", [_compiled(part, ns) for part in condition.parts])
        case Not():
            sql, bindings = _compiled(condition.part, ns)
            return f"({sql} IS NOT TRUE)", bindings
        case Test():
            return _test(condition, ns)


def _joined(word: str, parts: Sequence[_Sql]) -> _Sql:
    bindings = tuple(binding for _, bindings in parts for binding in bindings)
    return f"({word.join(sql for sql, _ in parts)})", bindings


def _test(test: Test, ns: int) -> _Sql:
    column = test.field.column
    if column is None:
        return _metadata(test)
    if column.holds == "tags":
        return _tags(test, ns)
    if column.sparse and None not in test.values:
        compared, values = _compared(f"few.{column.name}", test)
        return f"items.id IN (SELECT few.id FROM items AS few WHERE few.ns = ? AND {compared})", (ns, *values)  # noqa: S608  (our own clauses)
    name = f"items.{column.name}"
    if test.op == "exists":
        return f"({name} IS NOT NULL)", ()
    values = tuple(_bound(value) for value in test.values)
    if test.op != "in":
        return f"({name} {_SIGNS[test.op]} ?)", values
    given = tuple(value for value in values if value is not None)
    parts: list[_Sql]
    if column.holds == "glob":
        parts = [(f"{name} REGEXP ?", (glob,)) for glob in given]
    else:
        parts = [(f"{name} IN ({_marks(given)})", given)] if given else []
    if len(given) < len(values):
        parts.append((f"{name} IS NULL", ()))
    return _joined(" OR ", parts)


def _compared(name: str, test: Test) -> _Sql:
    """A test of a column that never holds for a row without a value."""
    if test.op == "exists":
        return f"{name} IS NOT NULL", ()
    values = tuple(_bound(value) for value in test.values)
    sign = f"IN ({_marks(values)})" if test.op == "in" else f"{_SIGNS[test.op]} ?"
    return f"{name} IS NOT NULL AND {name} {sign}", values


def _bound(value: Json) -> Any:
    if isinstance(value, datetime):
        return micros(value)
    return _number(value) if isinstance(value, int | float) else value


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _tags(test: Test, ns: int) -> _Sql:
    if test.op == "exists":
        return "EXISTS (SELECT 1 FROM item_tags WHERE item = items.id)", ()
    given = tuple(sorted({tag for tag in test.values if tag is not None}))
    sql = (
        "items.id IN (SELECT item FROM item_tags WHERE tag IN "  # noqa: S608  (placeholders)
        f"(SELECT id FROM tags WHERE ns = ? AND folded IN ({_marks(given)})))"
    )
    parts: list[_Sql] = [(sql, (ns, *given))] if given else []
    if None in test.values:
        parts.append(("NOT EXISTS (SELECT 1 FROM item_tags WHERE item = items.id)", ()))
    return _joined(" OR ", parts)


# ---------------------------------------------------------------- metadata


def _metadata(test: Test) -> _Sql:
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


def _value(test: Test, name: str, kinds: Iterable[str]) -> _Sql:
    """Compares like with like: numbers with numbers, strings with strings, true with true."""
    wanted: dict[str, list[Any]] = {}
    for value in test.values:
        kind, operand = _operand(value)
        wanted.setdefault(kind, []).append(operand)
    parts: list[_Sql] = []
    for kind in kinds:
        if kind not in wanted:
            continue
        operands = () if kind in ("null", "true", "false") else tuple(wanted[kind])
        sign = f"IN ({_marks(operands)})" if test.op == "in" else f"{_SIGNS[test.op]} ?"
        compared = f" AND {name}.value {sign}" if operands else ""
        parts.append((f"({name}.type IN ({_TYPES[kind]}){compared})", operands))
    return _joined(" OR ", parts or [("0", ())])


def _operand(data: Json) -> tuple[str, Any]:
    match data:
        case None:
            return "null", None
        case bool():
            return "true" if data else "false", None
        case int() | float():
            return "number", _number(data)
        case str():
            return "text", data
        case _:
            return "json", dumps(data)


def _number(number: int | float) -> int | float:
    """As SQLite has it: a real number beyond 64 bits."""
    if isinstance(number, float) or -(1 << 63) <= number < 1 << 63:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
