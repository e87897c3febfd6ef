"""Filters as a predicate, which the other stores must agree with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from operator import ge, gt, le, lt
from typing import Any, Final, cast

from fourfold.fields import Column
from fourfold.filters import Condition, Every, Field, Not, Some, Test
from fourfold.model import Filters, Item, Json
from fourfold.text.fold import fold
from fourfold.text.globs import matches

_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"lt": lt, "lte": le, "gt": gt, "gte": ge}


def passes(item: Item, filters: Filters) -> bool:
    return (condition := filters.condition) is None or holds(condition, item)


def holds(condition: Condition, item: Item) -> bool:
    match condition:
        case Every():
            return all(holds(part, item) for part in condition.parts)
        case Some():
            return any(holds(part, item) for part in condition.parts)
        case Not():
            return not holds(condition.part, item)
        case Test():
            return _tested(condition, item)


def _tested(test: Test, item: Item) -> bool:
    column = test.field.column
    if column is not None and column.holds == "glob":
        return _globbed(test, getattr(item, column.name))
    found = list(_values(test.field, item))
    if test.op == "exists":
        return any(value is not None for value in found) if column is not None else bool(found)
    wanted = [_comparable(value) for value in test.values]
    compared = map(_comparable, found)
    if test.op == "in":
        return any(value in wanted for value in compared)
    ((kind, bound),) = wanted
    return any(value[0] == kind and _ORDERS[test.op](value[1], bound) for value in compared)


def _globbed(test: Test, path: str | None) -> bool:
    if test.op == "exists" or path is None:
        return path is not None if test.op == "exists" else None in test.values
    return any(glob is not None and matches(glob, path) for glob in test.values)


def _values(field: Field, item: Item) -> Iterator[Json]:
    """The value of a field and, of a list, its scalar elements; nothing if the item lacks it."""
    if field.column is not None:
        yield from _column(field.column, item)
        return
    found: Json = item.metadata
    for key in field.path:
        if not isinstance(found, Mapping) or key not in found:
            return
        found = cast("Json", found[key])
    yield found
    if isinstance(found, list | tuple):
        yield from (value for value in cast("list[Json]", found) if not isinstance(value, list | tuple | Mapping))


def _column(column: Column, item: Item) -> Iterator[Json]:
    if column.holds == "tags":
        yield from [fold(tag) for tag in item.tags] or [None]
    else:
        yield getattr(item, column.name)


def _comparable(data: Json) -> tuple[str, Json]:
    """The value with its type: only values of one type compare."""
    match data:
        case None:
            return "null", None
        case bool():
            return "bool", data
        case int() | float():
            return "number", data
        case str():
            return "text", data
        case list() | tuple() | Mapping():
            return "json", json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        case _:
            return "time", data
