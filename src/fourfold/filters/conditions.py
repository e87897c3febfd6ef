"""Conditions on an item as a tree of values, and the fields that they can test.

Semantics, the same on every store. Logic has two values: a test of a field that the item lacks does not hold, and `Not`
of it does. Values compare like with like: numbers with numbers, strings with strings (by code point), booleans with
booleans; null equals null only. A test of a list, and of the tags, holds if it holds for the list as a whole or for one
of its scalar elements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, Literal, TypeAlias, cast

from fourfold import limits
from fourfold.errors import InvalidItem, InvalidQuery
from fourfold.text.fold import clean, fold

Json: TypeAlias = Any
Order = Literal["lt", "lte", "gt", "gte"]
Operator = Literal["eq", "ne", "in", "not in", "lt", "lte", "gt", "gte", "exists"]

OPERATORS: Final[tuple[Operator, ...]] = ("eq", "ne", "in", "not in", "lt", "lte", "gt", "gte", "exists")
ORDERS: Final[tuple[Order, ...]] = ("lt", "lte", "gt", "gte")


@dataclass(frozen=True, slots=True)
class Column:
    """A field that every item has, and that every store keeps in a column (tags: in a table) of this name."""

    name: str
    holds: Literal["number", "text", "glob", "time", "tags"]
    """How values are read and compared; a `glob` is matched, `tags` compare folded."""
    aliases: tuple[str, ...] = ()


COLUMNS: Final = (
    Column("tags", "tags", ("tag",)),
    Column("kind", "text"),
    Column("language", "text", ("lang",)),
    Column("path", "glob", ("file_path",)),
    Column("created_at", "time", ("created",)),
    Column("updated_at", "time", ("updated",)),
    Column("key", "text"),
    Column("title", "text"),
    Column("id", "number"),
    Column("chunk_index", "number", ("chunk",)),
)
METADATA: Final = "metadata"
_BY_NAME: Final = {name: column for column in COLUMNS for name in (column.name, *column.aliases)}


@dataclass(frozen=True, slots=True)
class Field:
    """What a test reads: a column, or the metadata at a path of keys."""

    column: Column | None
    path: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As the grammar writes it."""
        return self.column.name if self.column is not None else ".".join((METADATA, *map(_quoted, self.path)))


@dataclass(frozen=True, slots=True)
class Test:
    """One comparison. `in`: equal to one of the values; an order: to the only value; `exists`: no value."""

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
    """Every test of a tree, and whether it stands under a `Not`."""
    match condition:
        case Test():
            yield condition, negated
        case Not():
            yield from leaves(condition.part, negated=True)
        case Every() | Some():
            for part in condition.parts:
                yield from leaves(part, negated=negated)


def check_size(condition: Condition) -> Condition:
    """Refuses what would be too much work for a store."""
    if _depth(condition) > limits.FILTER_DEPTH:
        raise InvalidQuery(f"the filter is nested deeper than {limits.FILTER_DEPTH} levels", "Flatten it")
    found = list(leaves(condition))
    if not found or not all(_is_filled(test) for test, _ in found):
        raise InvalidQuery("the filter has an empty part", "Give every `and`, `or` and `in` something to test")
    if len(found) > limits.FILTER_TESTS:
        raise InvalidQuery(f"the filter has more than {limits.FILTER_TESTS} tests", "Combine them with `in`")
    if sum(len(test.values) for test, _ in found) > limits.FILTER_VALUES:
        raise InvalidQuery(f"the filter has more than {limits.FILTER_VALUES} values", "Ask in several steps")
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
    """The column of this name, or the metadata at this path; `metadata.kind` is never the column `kind`."""
    if any(not key for key in keys):
        raise InvalidQuery("a key of the filter is empty", 'Write nested keys as author.name, odd ones as "my key"')
    keys = [_cleaned(key) for key in keys]
    if len(keys) > 1 and keys[0] in (METADATA, "meta"):
        return Field(None, tuple(keys[1:]))
    if len(keys) == 1 and keys[0] in _BY_NAME:
        return Field(_BY_NAME[keys[0]])
    if keys[0] == METADATA:
        raise InvalidQuery("metadata has no value of its own", "Name one of its keys: metadata.line")
    return Field(None, tuple(keys))


def key_path(name: str) -> tuple[str, ...]:
    """`a.b."c.d"` as ("a", "b", "c.d"): dots join nested keys, and a key in quotes may contain one."""
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
        raise InvalidQuery(f"the key {name!r} has a quote that does not end", 'Write it as "my.key" or a."my.key"')
    return key, rest[end:]


def _quoted(key: str) -> str:
    return json.dumps(key, ensure_ascii=False) if not key or "." in key or '"' in key else key


# ---------------------------------------------------------------- tests


def make_test(field: Field, op: Operator, value: Json, zone: tzinfo | None = UTC) -> Condition:
    """The condition that a field, an operator and a JSON value mean; `zone` is that of times without an offset."""
    value = stored_form(value, times=field.column is not None and field.column.holds == "time")
    match op:
        case "ne":
            return Not(make_test(field, "eq", value, zone))
        case "not in":
            return Not(make_test(field, "in", value, zone))
        case "exists":
            if not isinstance(value, bool):
                raise InvalidQuery(f"exists is {value!r} for {field.name}", "It is true or false")
            return Test(field, "exists") if value else Not(Test(field, "exists"))
        case "in":
            if not isinstance(value, list | tuple) or not value:
                raise InvalidQuery(f"`in` needs values for {field.name}", 'Give a list: ["a", "b"]')
            return _equal(field, tuple(cast("Sequence[Json]", value)), zone)
        case "eq":
            return _equal(field, (value,), zone)
        case _:
            return _ordered(field, op, value, zone)


def _equal(field: Field, values: Sequence[Json], zone: tzinfo | None) -> Condition:
    if field.column is not None and field.column.holds == "time":
        parts = tuple(_during(field, value, zone) for value in values)
        return parts[0] if len(parts) == 1 else Some(parts)
    return Test(field, "in", tuple(_value(field, value) for value in values))


def _during(field: Field, value: Json, zone: tzinfo | None) -> Condition:
    """At that time; a date means any time of its day."""
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
    """The value in the form in which the field compares; a value that the field can never have is refused."""
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
    """As metadata are stored: normalised as JSON text."""
    try:
        return json.loads(clean(json.dumps(text, ensure_ascii=False)))
    except InvalidItem as error:
        raise InvalidQuery(f"filter: {error.message}", error.remedy) from error


def json_text(value: Json) -> str:
    """A value as error messages show it."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


def stored_form(value: Json, depth: int = limits.FILTER_DEPTH, *, times: bool = False) -> Json:
    """The value as items would hold it, or an InvalidQuery that says why no item could; `times`: or a datetime."""
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
    """First moment, and the first one after it; the same moment twice unless the value is a bare date."""
    if isinstance(value, datetime):
        moment = _utc(value, UTC)
        return moment, moment
    try:
        text = value.strip()
        moment = datetime.fromisoformat(text)
        if len(text) > len("2026-11-15"):
            return _utc(moment, zone), _utc(moment, zone)
        return _utc(moment, zone), _utc(moment + timedelta(days=1), zone)
    except (AttributeError, ValueError, OverflowError, OSError) as wrong:
        raise InvalidQuery(
            f"{field.name} is compared with {json_text(value)}", "Write a time: 2026-11-15 or 2026-11-15T10:00:00Z"
        ) from wrong


def _utc(moment: datetime, zone: tzinfo | None) -> datetime:
    """`zone` None is the local one."""
    if moment.tzinfo is None and zone is not None:
        moment = moment.replace(tzinfo=zone)
    return moment.astimezone(UTC)
