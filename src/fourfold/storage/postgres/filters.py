"""Metadata, globs and numbers of filters in PostgreSQL: what differs from `storage.sql.filters`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from fourfold.filters import Test
from fourfold.model import Json
from fourfold.storage.codec import dumps
from fourfold.storage.sql.dialect import LAST_TEXT, Condition, Db
from fourfold.storage.sql.filters import SIGNS, joined
from fourfold.text.globs import literal_prefix, matches

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


def glob_test(db: Db, ns: int, name: str, globs: Sequence[str]) -> Condition:
    """The paths that match are selected here: a glob means the same on every store."""
    paths: set[str] = set()
    sql = "SELECT DISTINCT path FROM items WHERE ns = ? AND path >= ? AND path <= ?"
    for glob in globs:
        start = literal_prefix(glob)
        paths.update(path for path in db.column(sql, ns, start, start + LAST_TEXT) if matches(glob, path))
    return f"{name} = ANY(?::text[])", (sorted(paths),)


def operand(value: Any, holds: str) -> tuple[str, Any]:
    """Numbers as text: their digits are what the server compares, whatever type the driver would give them."""
    if holds == "number":
        return "?::numeric", dumps(_fact(value))
    return ("?::bigint", value) if holds == "time" else ("?::text", _without_nul(value))


def metadata_test(test: Test) -> Condition:
    """Compares like with like: numbers with numbers, strings with strings, true with true."""
    path = [_without_nul(key) for key in test.field.path]
    if test.op == "in":
        wanted = [form for value in test.values for form in _contained(path, value)]
        return joined(" OR ", [("items.facts @> ?::jsonb", (json.dumps(form),)) for form in wanted])
    place = "strict $" + "[1]".join(f".{json.dumps(key)}" for key in path)
    if test.op == "exists":
        return "jsonb_path_exists(items.facts, ?::jsonpath, '{}', true)", (place,)
    compared = f"? (@ {SIGNS[test.op]} $bound)"
    bound = json.dumps({"bound": _fact(test.values[0])})
    sql = "jsonb_path_exists(items.facts, ?::jsonpath, ?::jsonb, true)"
    return joined(" OR ", [(sql, (f"{place} {compared}", bound)), (sql, (f"{place}[1][*] {compared}", bound))])


def _contained(path: Sequence[str], value: Json) -> list[Json]:
    """What the facts of an item contain if the value at the path, or one of its elements, equals this one."""
    if isinstance(value, list | tuple | Mapping):
        forms: list[Json] = [_fact(value)[:1]]
    else:
        forms = [_fact(value), [[_fact(value)]]]
    for key in reversed(path[1:]):
        forms = [[{key: form}] for form in forms]
    return [{path[0]: form} for form in forms]
