"""Filters as SQL conditions on a row of `items`. Values and keys are always bound, never part of the SQL text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from fourfold.filters import Condition as Tree
from fourfold.filters import Every, Not, Some, Test
from fourfold.filters.conditions import leaves
from fourfold.model import Filters, Json
from fourfold.storage.codec import dumps, micros
from fourfold.storage.sql.dialect import LAST_TEXT, Db
from fourfold.text.globs import literal_prefix, matches

Condition = tuple[str, tuple[Any, ...]]

_SIGNS: Final = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


# ---------------------------------------------------------------- metadata as they are stored for comparing


def facts(metadata: Json) -> str:
    """Metadata as jsonb that answers every test of equality by containment, and holds no NUL, which jsonb lacks.

    A scalar stands for itself, a map is [its JSON text, {its facts}], a list [its JSON text, [its scalars]].
    """
    return json.dumps(_facts(metadata))


def _facts(members: Mapping[str, Json]) -> dict[str, Json]:
    return {_without_nul(key): _fact(data) for key, data in members.items()}


def _fact(data: Json) -> Json:
    match data:
        case Mapping():
            return [_without_nul(dumps(data)), _facts(cast("Mapping[str, Json]", data))]
        case list() | tuple():
            elements = cast("Sequence[Json]", data)
            scalars = [_fact(value) for value in elements if not isinstance(value, list | tuple | Mapping)]
            return [_without_nul(dumps(data)), scalars]
        case float() if data.is_integer():
            return int(data)  # its repr may show another number than the equal int
        case _:
            return _without_nul(data)


def _without_nul(data: Json) -> Json:
    return data.replace("\x00", "\ufffd").replace("\\u0000", "\ufffd") if isinstance(data, str) else data


# ---------------------------------------------------------------- conditions


def where(db: Db, filters: Filters, ns: int) -> Condition:
    """' AND ...' with its bindings; empty without filters."""
    tree = filters.condition
    if tree is None:
        return "", ()
    globs = {
        glob
        for test, _ in leaves(tree)
        if test.field.column is not None and test.field.column.holds == "glob"
        for glob in test.values
        if glob is not None
    }
    sql, bindings = _Compiler(ns, {glob: _paths(db, ns, glob) for glob in globs}).compiled(tree)
    return f" AND {sql}", bindings


def _paths(db: Db, ns: int, glob: str) -> list[str]:
    """The paths that match, compared here: a glob means the same on every store."""
    start = literal_prefix(glob)
    sql = "SELECT DISTINCT path FROM items WHERE ns = ? AND path >= ? AND path <= ?"
    return [path for path in db.column(sql, ns, start, start + LAST_TEXT) if matches(glob, path)]


class _Compiler:
    def __init__(self, ns: int, paths: Mapping[str, list[str]]) -> None:
        self._ns = ns
        self._paths = paths

    def compiled(self, tree: Tree) -> Condition:
        """Holds where the SQL is true. NULL counts as false, also under NOT."""
        match tree:
            case Every():
                return _joined(" AND ", [self.compiled(part) for part in tree.parts])
            case Some():
                return _joined(" OR ", [self.compiled(part) for part in tree.parts])
            case Not():
                sql, bindings = self.compiled(tree.part)
                return f"({sql} IS NOT TRUE)", bindings
            case Test():
                return self._test(tree)

    def _test(self, test: Test) -> Condition:
        column = test.field.column
        if column is None:
            return _metadata(test)
        if column.holds == "tags":
            return self._tags(test)
        name = f"items.{column.name}"
        if test.op == "exists":
            return f"({name} IS NOT NULL)", ()
        if column.holds == "text":
            name = f'{name} COLLATE "C"'
        kind = {"number": "numeric", "time": "bigint"}.get(column.holds, "text")
        values = [micros(value) if isinstance(value, datetime) else value for value in test.values]
        if test.op != "in":
            return f"({name} {_SIGNS[test.op]} ?::{kind})", (_spelled(values[0], kind),)
        given = [value for value in values if value is not None]
        if column.holds == "glob":
            given = sorted({path for glob in given for path in self._paths[str(glob)]})
        parts: list[Condition] = [(f"{name} = ANY(?::{kind}[])", ([_spelled(value, kind) for value in given],))]
        if None in test.values:
            parts.append((f"items.{column.name} IS NULL", ()))
        return _joined(" OR ", parts)

    def _tags(self, test: Test) -> Condition:
        if test.op == "exists":
            return "EXISTS (SELECT 1 FROM item_tags WHERE item = items.id)", ()
        given = sorted({tag for tag in test.values if tag is not None})
        parts: list[Condition] = [
            ("items.id IN (SELECT item FROM item_tags WHERE ns = ? AND folded = ANY(?::text[]))", (self._ns, given))
        ]
        if None in test.values:
            parts.append(("NOT EXISTS (SELECT 1 FROM item_tags WHERE item = items.id)", ()))
        return _joined(" OR ", parts)


def _joined(word: str, parts: Sequence[Condition]) -> Condition:
    bindings = tuple(binding for _, bindings in parts for binding in bindings)
    return f"({word.join(sql for sql, _ in parts)})", bindings


def _spelled(value: Any, kind: str) -> Any:
    """Numbers as text: their digits are what the server compares, whatever type the driver would give them."""
    if kind == "numeric":
        return dumps(_fact(value))
    return _without_nul(value) if kind == "text" else value


def _metadata(test: Test) -> Condition:
    """Compares like with like: numbers with numbers, strings with strings, true with true."""
    path = [_without_nul(key) for key in test.field.path]
    if test.op == "in":
        wanted = [form for value in test.values for form in _contained(path, value)]
        return _joined(" OR ", [("items.facts @> ?::jsonb", (json.dumps(form),)) for form in wanted])
    place = "strict $" + "[1]".join(f".{json.dumps(key)}" for key in path)
    if test.op == "exists":
        return "jsonb_path_exists(items.facts, ?::jsonpath, '{}', true)", (place,)
    compared = f"? (@ {_SIGNS[test.op]} $bound)"
    bound = json.dumps({"bound": _fact(test.values[0])})
    sql = "jsonb_path_exists(items.facts, ?::jsonpath, ?::jsonb, true)"
    return _joined(" OR ", [(sql, (f"{place} {compared}", bound)), (sql, (f"{place}[1][*] {compared}", bound))])


def _contained(path: Sequence[str], value: Json) -> list[Json]:
    """What the facts of an item contain if the value at the path, or one of its elements, equals this one."""
    if isinstance(value, list | tuple | Mapping):
        forms: list[Json] = [_fact(value)[:1]]
    else:
        forms = [_fact(value), [[_fact(value)]]]
    for key in reversed(path[1:]):
        forms = [[{key: form}] for form in forms]
    return [{path[0]: form} for form in forms]
