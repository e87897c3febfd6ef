"""Filters as SQL conditions on a row of `items`. Values and keys are always bound, never part of the SQL text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from fourfold.fields import Column
from fourfold.filters import Condition as Tree
from fourfold.filters import Every, Not, Some, Test
from fourfold.model import Filters
from fourfold.storage.codec import micros
from fourfold.storage.sql.dialect import Condition, Db

SIGNS: Final = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def where(db: Db, filters: Filters, ns: int) -> Condition:
    """' AND ...' with its bindings; empty without filters."""
    if filters.condition is None:
        return "", ()
    sql, bindings = _compiled(db, ns, filters.condition)
    return f" AND {sql}", bindings


def joined(word: str, parts: Sequence[Condition]) -> Condition:
    bindings = tuple(binding for _, bindings in parts for binding in bindings)
    return f"({word.join(sql for sql, _ in parts)})", bindings


def _compiled(db: Db, ns: int, tree: Tree) -> Condition:
    """Holds where the SQL is true. NULL counts as false, also under NOT."""
    match tree:
        case Every():
            return joined(" AND ", [_compiled(db, ns, part) for part in tree.parts])
        case Some():
            return joined(" OR ", [_compiled(db, ns, part) for part in tree.parts])
        case Not():
            sql, bindings = _compiled(db, ns, tree.part)
            return f"({sql} IS NOT TRUE)", bindings
        case Test():
            column = tree.field.column
            if column is None:
                return db.metadata_test(tree)
            return _tags(db, ns, tree) if column.holds == "tags" else _test(db, ns, column, tree)


def _test(db: Db, ns: int, column: Column, test: Test) -> Condition:
    if not (db.looks_up_sparse and column.sparse and None not in test.values):
        return _compared(db, ns, f"items.{column.name}", column, test)
    name = f"few.{column.name}"
    sql, values = _compared(db, ns, name, column, test)
    few = f"SELECT few.id FROM items AS few WHERE few.ns = ? AND {name} IS NOT NULL AND {sql}"  # noqa: S608  (our own clauses)
    return f"items.id IN ({few})", (ns, *values)


def _compared(db: Db, ns: int, name: str, column: Column, test: Test) -> Condition:
    if test.op == "exists":
        return f"({name} IS NOT NULL)", ()
    values = [micros(value) if isinstance(value, datetime) else value for value in test.values if value is not None]
    operands = [db.operand(value, column.holds) for value in values]
    collated = f"{name}{db.collation}" if column.holds == "text" else name
    if test.op != "in":
        ((place, value),) = operands
        return f"({collated} {SIGNS[test.op]} {place})", (value,)
    parts: list[Condition] = []
    if values and column.holds == "glob":
        parts.append(db.glob_test(ns, name, [str(glob) for glob in values]))
    elif values:
        places = ", ".join(place for place, _ in operands)
        parts.append((f"{collated} IN ({places})", tuple(value for _, value in operands)))
    if None in test.values:
        parts.append((f"{name} IS NULL", ()))
    return joined(" OR ", parts)


def _tags(db: Db, ns: int, test: Test) -> Condition:
    has_some = "EXISTS (SELECT 1 FROM item_tags WHERE item = items.id)"
    if test.op == "exists":
        return has_some, ()
    parts: list[Condition] = []
    if tags := sorted({tag for tag in test.values if tag is not None}):
        sql = f"items.id IN (SELECT item FROM item_tags WHERE {db.any_tag})"  # noqa: S608  (constants)
        parts.append((sql, (ns, db.texts(tags))))
    if None in test.values:
        parts.append((f"NOT {has_some}", ()))
    return joined(" OR ", parts)
