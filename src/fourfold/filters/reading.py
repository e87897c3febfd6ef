"""Conversion of filters, as text or plain JSON, to conditions and back.

{"kind": "note", "line": {"gte": 10, "lt": 20}}                   all must hold
{"or": [{"tag": "work"}, {"not": {"author.name": "Ada"}}]}        nested
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final, TypeAlias, cast

from fourfold import limits
from fourfold.errors import InvalidQuery
from fourfold.filters.conditions import (
    OPERATORS,
    Condition,
    Every,
    Json,
    Not,
    Operator,
    Some,
    Test,
    check_size,
    field_at,
    key_path,
    make_test,
)
from fourfold.filters.expression import parse

Where: TypeAlias = Condition | Mapping[str, Json] | str
"""A filter as callers pass it."""

_OPERATORS: Final[Mapping[str, Operator]] = {
    **{operator: operator for operator in OPERATORS},
    "not_in": "not in",
    "nin": "not in",
}
_REMEDY: Final = f"The operators are {', '.join(OPERATORS)}; nested keys are written as author.name"


def read_where(where: Where, *, zone: tzinfo | None = UTC) -> Condition | None:
    """Convert a filter to a condition, None for an empty mapping; `zone` (None: local) is for times without one."""
    match where:
        case Test() | Every() | Some() | Not():
            return check_size(where)
        case str():
            return check_size(parse(where, zone))
        case Mapping():
            return check_size(_mapping(where, zone, limits.FILTER_DEPTH)) if where else None
    raise InvalidQuery(f"the filter must be text or a mapping, not {type(where).__name__}", 'Write {"kind": "note"}')


def _mapping(given: Mapping[str, Json], zone: tzinfo | None, depth: int) -> Condition:
    if depth == 0:
        raise InvalidQuery(f"the filter is nested deeper than {limits.FILTER_DEPTH} levels", "Flatten it")
    if not given:
        raise InvalidQuery("a part of the filter is empty", 'Leave it out, or name a field: {"kind": "note"}')
    return _every([_entry(name, value, zone, depth - 1) for name, value in given.items()])


def _entry(name: object, value: Json, zone: tzinfo | None, depth: int) -> Condition:
    if not isinstance(name, str):
        raise InvalidQuery(f"the filter has the key {name!r}", "Write names of fields as strings")
    match name.removeprefix("$"):
        case "and":
            return _every(_parts(name, value, zone, depth))
        case "or":
            parts = _parts(name, value, zone, depth)
            return parts[0] if len(parts) == 1 else Some(tuple(parts))
        case "not":
            if not isinstance(value, Mapping):
                raise InvalidQuery("`not` needs a mapping", 'Write {"not": {"kind": "note"}}')
            return Not(_mapping(cast("Mapping[str, Json]", value), zone, depth))
        case _:
            return _field(name, value, zone)


def _parts(name: str, value: Json, zone: tzinfo | None, depth: int) -> list[Condition]:
    if not isinstance(value, list | tuple) or not value:
        raise InvalidQuery(f"`{name}` needs a list", f'Write {{"{name}": [{{"kind": "note"}}, ...]}}')
    parts = cast("Sequence[Json]", value)
    if not all(isinstance(part, Mapping) for part in parts):
        raise InvalidQuery(f"a part of {name} is not a mapping", f'Write {{"{name}": [{{"kind": "note"}}, ...]}}')
    return [_mapping(part, zone, depth) for part in parts]


def _field(name: str, value: Json, zone: tzinfo | None) -> Condition:
    field = field_at(key_path(name))
    if not isinstance(value, Mapping):
        return make_test(field, "eq", value, zone)
    tests = cast("Mapping[object, Json]", value)
    if not tests:
        raise InvalidQuery(f"no operator for {name}", _REMEDY)
    return _every([make_test(field, _operator(name, op), wanted, zone) for op, wanted in tests.items()])


def _operator(name: str, given: object) -> Operator:
    operator = _OPERATORS.get(given.removeprefix("$")) if isinstance(given, str) else None
    if operator is None:
        raise InvalidQuery(f"unknown operator {given!r} for {name}", _REMEDY)
    return operator


def _every(parts: Iterable[Condition]) -> Condition:
    conditions = tuple(parts)
    return conditions[0] if len(conditions) == 1 else Every(conditions)


# ---------------------------------------------------------------- conditions as JSON


def where_json(condition: Condition) -> dict[str, Json]:
    """Return the condition in the JSON form that `read_where` accepts."""
    match condition:
        case Every():
            return {"and": [where_json(part) for part in condition.parts]}
        case Some():
            return {"or": [where_json(part) for part in condition.parts]}
        case Not(Test(op="in" | "exists") as test):
            return _test_json(test, negated=True)
        case Not():
            return {"not": where_json(condition.part)}
        case Test():
            return _test_json(condition)


def _test_json(test: Test, *, negated: bool = False) -> dict[str, Json]:
    values = [_value_json(value) for value in test.values]
    match test.op:
        case "exists":
            meaning: Json = {"exists": not negated}
        case "in" if len(values) == 1:
            meaning = {"ne" if negated else "eq": values[0]}
        case "in":
            meaning = {"not in" if negated else "in": values}
        case _:
            meaning = {test.op: values[0]}
    return {test.field.name: meaning}


def _value_json(value: Json) -> Json:
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z" if isinstance(value, datetime) else value
