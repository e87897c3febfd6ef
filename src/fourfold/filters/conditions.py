"""Conditions on items as a tree, and the fields that they can test.

All stores evaluate them alike. Logic is two-valued: a test of a field that the item lacks is false, and its `Not` is
true. Values compare with values of their type only: numbers, strings (by code point), booleans; null equals null only.
A test of a list, and of the tags, is true if it is true for the whole list or for one of its scalar elements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast

from fourfold import limits
from fourfold.errors import InvalidItem, InvalidQuery
from fourfold.fields import Column, column_named
from fourfold.text.fold import clean, fold

Json: TypeAlias = Any
Order = Literal["lt", "lte", "gt", "gte"]
Operator = Literal["eq", "ne", "in", "not in", "lt", "lte", "gt", "gte", "exists"]

OPERATORS: Final[tuple[Operator, ...]] = ("eq", "ne", "in", "not in", "lt", "lte", "gt", "gte", "exists")


METADATA: Final = "metadata"


@dataclass(frozen=True, slots=True)
class Field:
    """Subject of a test: a column, or the metadata at a path of keys."""

    column: Column | None
    path: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name in the filter grammar."""
        return self.column.name if self.column is not None else ".".join((METADATA, *map(_quoted, self.path)))


@dataclass(frozen=True, slots=True)
class Test:
    """One comparison: `in` with one of the values, an order with the only value, `exists` without a value."""

    __test__ = False  # pytest would collect it

    field: Field
    op: Literal["in", "exists"] | Order
    values: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Every:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Condition


Condition: TypeAlias = Test | Every | Some | Not


def leaves(condition: Condition, *, negated: bool = False) -> Iterator[tuple[Test, bool]]:
    """Yield every test of a tree, and whether it is below a `Not`."""
    match condition:
        case Test():
            yield condition, negated
        case Not():
            yield from leaves(condition.part, negated=True)
        case Every() | Some():
            for part in condition.parts:
                yield from leaves(part, negated=negated)


def check_size(condition: Condition) -> Condition:
    """Return the condition; raise InvalidQuery if it is too large for a store, or has empty parts."""
    if _depth(condition) > limits.FILTER_DEPTH:
        raise InvalidQuery(f"the filter is nested deeper than {limits.FILTER_DEPTH} levels", "Flatten it")
    tests = list(leaves(condition))
    if not tests or not all(_is_filled(test) for test, _ in tests):
        raise InvalidQuery("the filter has an empty part", "Give every `and`, `or` and `in` at least one value")
    if len(tests) > limits.FILTER_TESTS:
        raise InvalidQuery(f"the filter has more than {limits.FILTER_TESTS} tests", "Combine them with `in`")
    if sum(len(test.values) for test, _ in tests) > limits.FILTER_VALUES:
        raise InvalidQuery(f"the filter has more than {limits.FILTER_VALUES} values", "Split it into several queries")
    return condition


def _is_filled(test: Test) -> bool:
    return test.op == "exists" or len(test.values) == 1 or (test.op == "in" and len(test.values) > 1)


def _depth(condition: Condition) -> int:
    match condition:
        case Test():
            return 1
        case Not():
            return 1 + _depth(condition.part)
        case Every() | Some():
            return 1 + max(map(_depth, condition.parts), default=0)


# ---------------------------------------------------------------- names of fields


def field_at(keys: Sequence[str]) -> Field:
    """Return the column of this name, else the metadata at this path; `metadata.kind` is never the column `kind`."""
    if any(not key for key in keys):
        raise InvalidQuery(
            "a key of the filter is empty", 'Write nested keys as author.name, and keys with spaces as "my key"'
        )
    keys = [_cleaned(key) for key in keys]
    if len(keys) > 1 and keys[0] in (METADATA, "meta"):
        return Field(None, tuple(keys[1:]))
    if len(keys) == 1 and (column := column_named(keys[0])) is not None:
        return Field(column)
    if keys[0] == METADATA:
        raise InvalidQuery("metadata cannot be tested as a whole", "Name one of its keys: metadata.line")
    return Field(None, tuple(keys))


def key_path(name: str) -> tuple[str, ...]:
    """Split `a.b."c.d"` into ("a", "b", "c.d"): dots separate nested keys, and a quoted key may contain one."""
    keys: list[str] = []
    rest = name
    while True:
        if rest.startswith('"'):
            key, rest = _quoted_key(rest, name)
        else:
            key, dot, rest = rest.partition(".")
            rest = dot + rest
        keys.append(key)
        if not rest:
            return tuple(keys)
        rest = rest[1:]


def _quoted_key(rest: str, name: str) -> tuple[str, str]:
    try:
        key, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        end = len(rest)
        key = None
    if key is None or rest[end : end + 1] not in ("", "."):
        raise InvalidQuery(f"the key {name!r} has an unclosed quote", 'Write it as "my.key" or a."my.key"')
    return key, rest[end:]


def _quoted(key: str) -> str:
    return json.dumps(key, ensure_ascii=False) if not key or "." in key or '"' in key else key


# ---------------------------------------------------------------- tests


def make_test(field: Field, op: Operator, value: Json, zone: tzinfo | None = UTC) -> Condition:
    """Build the condition for a field, an operator and a JSON value; `zone` applies to times without an offset."""
    value = stored_form(value, times=field.column is not None and field.column.holds == "time")
    match op:
        case "ne":
            return Not(make_test(field, "eq", value, zone))
        case "not in":
            return Not(make_test(field, "in", value, zone))
        case "exists":
            if not isinstance(value, bool):
                raise InvalidQuery(f"exists is {value!r} for {field.name}", "Give true or false")
            return Test(field, "exists") if value else Not(Test(field, "exists"))
        case "in":
            if not isinstance(value, list | tuple) or not value:
                raise InvalidQuery(f"`in` needs values for {field.name}", 'Give a list: ["a", "b"]')
            return _equal(field, tuple(cast("Sequence[Json]", value)), zone)
        case "eq":
            return _equal(field, (value,), zone)
        case _:
            return _with_fallback(partial(_ordered, op=op, value=value, zone=zone), field)


def _with_fallback(test: Callable[[Field], Condition], field: Field) -> Condition:
    """A test of a column that another one replaces where it is missing."""
    if field.column is None or field.column.otherwise is None:
        return test(field)
    other = Field(column_named(field.column.otherwise))
    return Some((test(field), Every((Not(Test(field, "exists")), test(other)))))


def _equal(field: Field, values: Sequence[Json], zone: tzinfo | None) -> Condition:
    if field.column is not None and field.column.holds == "time":
        parts = tuple(
            _with_fallback(partial(_during, value=value, zone=zone), field)
            if value is not None
            else _during(field, None, zone)
            for value in values
        )
        return parts[0] if len(parts) == 1 else Some(parts)
    return Test(field, "in", tuple(_value(field, value) for value in values))


def _during(field: Field, value: Json, zone: tzinfo | None) -> Condition:
    """Equality with a time; a date means any time of its day."""
    if value is None:
        return Test(field, "in", (None,))
    first, after = _span(field, value, zone)
    last: Order = "lte" if first == after else "lt"
    return Every((Test(field, "gte", (first,)), Test(field, last, (after,))))


def _ordered(field: Field, op: Order, value: Json, zone: tzinfo | None) -> Test:
    holds = field.column.holds if field.column is not None else None
    if holds == "time":
        first, after = _span(field, value, zone)
        if first != after and op in ("lte", "gt"):  # past the whole day
            return Test(field, "lt" if op == "lte" else "gte", (after,))
        return Test(field, op, (first,))
    if holds in ("tags", "glob"):
        raise InvalidQuery(f"{field.name} has no order", "Test it with =, !=, in, not in or exists")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidQuery(
            f"{field.name} is compared with {json_text(value)}", "Only numbers and strings have an order"
        )
    return Test(field, op, (_value(field, value),))


def _value(field: Field, value: Json) -> Json:
    """The value in the form in which the field compares; InvalidQuery for a value that the field can never have."""
    holds = field.column.holds if field.column is not None else None
    match holds:
        case None:
            return value
        case "number":
            fits = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        case _:
            fits = value is None or isinstance(value, str)
    if not fits:
        kind = "number" if holds == "number" else "string"
        raise InvalidQuery(
            f"{field.name} is compared with {json_text(value)}",
            f"Give a {kind}; for a key of the metadata write metadata.{field.name}",
        )
    return fold(value) if holds == "tags" and isinstance(value, str) else value


def _cleaned(text: str) -> str:
    """Normalise text like stored metadata."""
    try:
        return json.loads(clean(json.dumps(text, ensure_ascii=False)))
    except InvalidItem as error:
        raise InvalidQuery(f"filter: {error.message}", error.remedy) from error


def json_text(value: Json) -> str:
    """Format a value for an error message."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


def stored_form(value: Json, depth: int = limits.FILTER_DEPTH, *, times: bool = False) -> Json:
    """Return the value in the form in which items store it; raise InvalidQuery if none can.

    `times` also accepts datetimes.
    """
    if depth == 0:
        raise InvalidQuery(f"a value of the filter is nested deeper than {limits.FILTER_DEPTH} levels", "Flatten it")
    match value:
        case None | bool():
            return value
        case datetime() if times:
            return value
        case str():
            return _cleaned(value)
        case int() | float():
            if value != value or value in (float("inf"), float("-inf")):
                raise InvalidQuery(f"the filter compares with {value}", "Give a finite number")
            return value
        case list() | tuple():
            return [stored_form(part, depth - 1, times=times) for part in cast("Sequence[Json]", value)]
        case Mapping():
            members = cast("Mapping[object, Json]", value)
            if all(isinstance(key, str) for key in members):
                return {_cleaned(cast("str", key)): stored_form(part, depth - 1) for key, part in members.items()}
        case _:
            pass
    raise InvalidQuery(
        f"the filter compares with {json_text(value)}", "Give a string, a number, true, false, null or a list"
    )


# ---------------------------------------------------------------- times


def _span(field: Field, value: Json, zone: tzinfo | None) -> tuple[datetime, datetime]:
    """Start and exclusive end of a date; the same time twice for other values."""
    if isinstance(value, datetime):
        time = _utc(value, UTC)
        return time, time
    try:
        text = value.strip()
        time = datetime.fromisoformat(text)
        if len(text) > len("2026-11-15"):
            return _utc(time, zone), _utc(time, zone)
        return _utc(time, zone), _utc(time + timedelta(days=1), zone)
    except (AttributeError, ValueError, OverflowError, OSError) as wrong:
        raise InvalidQuery(
            f"{field.name} is compared with {json_text(value)}", "Write a time: 2026-11-15 or 2026-11-15T10:00:00Z"
        ) from wrong


def _utc(time: datetime, zone: tzinfo | None) -> datetime:
    """Convert to UTC; `zone` (None: local) applies to times without an offset."""
    if time.tzinfo is None and zone is not None:
        time = time.replace(tzinfo=zone)
    return time.astimezone(UTC)
