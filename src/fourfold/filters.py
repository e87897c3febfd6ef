"""Filters of searches and lists: conditions, the expression that joins them, and reading them from what callers give.

All stores evaluate them alike. Logic is two-valued: a test of a field that the item lacks is false, and its `Not` is
true. Values compare with values of their type only: numbers, strings (by code point), booleans; null equals null only.
A test of a list, and of the tags, is true if it is true for the whole list or for one of its scalar elements.

either  = both { "or" both }
both    = single { "and" single }
single  = "not" single | "(" either ")" | test
test    = key ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
        | key [ "not" ] "in" "(" value { "," value } ")"
        | key [ "not" ] "exists"
key     = name { "." name }            a name or value is a word, or text in quotes

{"kind": "note", "line": {"gte": 10, "lt": 20}}                   all must hold
{"or": [{"tag": "work"}, {"not": {"author.name": "Ada"}}]}        nested
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from datetime import time as daytime
from functools import partial
from typing import Any, Final, Literal, NoReturn, TypeAlias, cast

from fourfold import limits
from fourfold.errors import InvalidItem, InvalidQuery
from fourfold.fields import Column, column_named
from fourfold.text.fold import clean, fold

# ---------------------------------------------------------------- conditions

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
        remedy = 'Write nested keys as author.name, and keys with spaces as "my key"'
        raise InvalidQuery("a key of the filter is empty", remedy)
    if len(keys) > limits.METADATA_DEPTH:
        raise InvalidQuery(f"a name of the filter has more than {limits.METADATA_DEPTH} keys", "No metadata is as deep")
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
        remedy = "Only numbers and strings have an order"
        raise InvalidQuery(f"{field.name} is compared with {json_text(value)}", remedy)
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
        remedy = f"Give a {kind}; for a key of the metadata write metadata.{field.name}"
        raise InvalidQuery(f"{field.name} is compared with {json_text(value)}", remedy)
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
    remedy = "Give a string, a number, true, false, null or a list"
    raise InvalidQuery(f"the filter compares with {json_text(value)}", remedy)


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
        remedy = "Write a time: 2026-11-15 or 2026-11-15T10:00:00Z"
        raise InvalidQuery(f"{field.name} is compared with {json_text(value)}", remedy) from wrong


def read_time(text: str, what: str = "the time", *, end_of_day: bool = False, zone: tzinfo | None = UTC) -> datetime:
    """Read an ISO date or time. `end_of_day`: a bare date means its last moment. `zone`: as for `_utc`."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if end_of_day and len(text.strip()) <= len("2026-11-15"):
            moment = datetime.combine(moment, daytime.max)
        return _utc(moment, zone)
    except (ValueError, OverflowError, OSError) as wrong:
        remedy = "Write a time: 2026-11-15 or 2026-11-15T10:00:00Z"
        raise InvalidQuery(f"{what} is {text!r}, which is not a time", remedy) from wrong


def _utc(time: datetime, zone: tzinfo | None) -> datetime:
    """Convert to UTC; `zone` (None: local) applies to times without an offset."""
    if time.tzinfo is None and zone is not None:
        time = time.replace(tzinfo=zone)
    return time.astimezone(UTC)


# ---------------------------------------------------------------- filters as text

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<sign>==|!=|<=|>=|=|<|>)
      | (?P<mark>[()\[\],])
      | (?P<key>(?:"(?:[^"\\]|\\.)*"|[^\s"'()\[\],=<>!.]+)(?:\.(?:"(?:[^"\\]|\\.)*"|[^\s"'()\[\],=<>!.]+))+
          (?=\s|["'()\[\],=<>]|!=|$))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<word>(?:[^\s"'()\[\],=<>!]|!(?!=))+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_SIGNS: Final[dict[str, Operator]] = {
    "=": "eq", "==": "eq", "!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte",
}  # fmt: skip
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CONSTANTS: Final[dict[str, Json]] = {"true": True, "false": False, "null": None}
_RESERVED: Final = ("and", "or", "not", "in", "exists")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_SHOWN_CHARACTERS: Final = 24


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["sign", "mark", "key", "text", "word", "end"]
    text: str
    start: int

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word


def parse(text: str, zone: tzinfo | None) -> Condition:
    """Parse a filter; InvalidQuery names the position of an error."""
    if len(text.encode(errors="replace")) > limits.FILTER_BYTES:
        raise InvalidQuery(f"the filter has more than {limits.FILTER_BYTES} bytes", "Shorten it")
    if not text.strip():
        raise InvalidQuery("the filter is empty", "Write a condition, such as kind = note")
    return _Parser(text, zone).whole()


class _Parser:
    """Recursive descent parser; each method reads one rule of the grammar and advances past it."""

    def __init__(self, text: str, zone: tzinfo | None) -> None:
        self._text = text
        self._zone = zone
        self._tokens = self._scan()
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._either()
        if self._token.kind != "end":
            self._fail("`and` or `or` is missing", "Join conditions with `and` or `or`; quote values with spaces")
        return condition

    def _either(self) -> Condition:
        parts = [self._both()]
        while self._accept("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _both(self) -> Condition:
        parts = [self._single()]
        while self._accept("and"):
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _single(self) -> Condition:
        self._depth += 1
        if self._depth > limits.FILTER_DEPTH:
            self._fail(f"nested deeper than {limits.FILTER_DEPTH} levels", "Flatten it")
        if self._accept("not"):
            condition: Condition = Not(self._single())
        elif self._accept("("):
            condition = self._either()
            if not self._accept(")"):
                self._fail("`)` is missing", "Close the parenthesis")
        else:
            condition = self._test()
        self._depth -= 1
        return condition

    def _test(self) -> Condition:
        start = self._token
        field = self._field()
        if self._token.kind == "sign":
            sign = self._advance()
            return self._made(start, field, _SIGNS[sign.text], self._value(field, f"after `{sign.text}`"))
        negated = self._accept("not")
        if self._accept("exists"):
            return self._made(start, field, "exists", not negated)
        if self._accept("in"):
            return self._made(start, field, "not in" if negated else "in", self._values(field))
        self._fail("an operator is missing", "Use =, !=, <, <=, >, >=, in (...), not in (...), exists or not exists")

    def _made(self, start: _Token, field: Field, operator: Operator, value: Json) -> Condition:
        try:
            return make_test(field, operator, value, self._zone)
        except InvalidQuery as error:
            self._fail(error.message, error.remedy, start)

    def _field(self) -> Field:
        token = self._token
        if token.kind not in ("word", "key", "text"):
            self._fail("a field is missing", "Name a field or a key of the metadata, such as kind or author.name")
        self._refuse_reserved("key")
        try:
            return field_at((_unquoted(token.text),) if token.kind == "text" else key_path(token.text))
        except InvalidQuery as error:
            self._fail(error.message, error.remedy)
        finally:
            self._next += 1

    def _values(self, field: Field) -> list[Json]:
        closing = ")" if self._accept("(") else "]" if self._accept("[") else None
        if closing is None:
            self._fail("`(` is missing after `in`", "Write the values as (a, b, c)")
        values = [self._value(field, "in the list")]
        while self._accept(","):
            values.append(self._value(field, "in the list"))
        if not self._accept(closing):
            self._fail(f"`{closing}` is missing", "Separate values by commas; quote values with spaces")
        return values

    def _value(self, field: Field, where: str) -> Json:
        """Read a value; for a field of text, a word that looks like a number is text."""
        if self._token.text == "[" and self._token.kind == "mark":
            return [] if self._empty_list() else self._values(field)
        if self._token.kind not in ("word", "key", "text") or (self._token.kind == "key" and '"' in self._token.text):
            self._fail(f"a value is missing {where}", "Give a word, a number, true, false, null, or text in quotes")
        self._refuse_reserved("value")
        token = self._advance()
        if token.kind == "text":
            return _unquoted(token.text)
        if field.column is not None and field.column.holds != "number":
            return None if token.text.lower() == "null" else token.text
        if _NUMBER.fullmatch(token.text):
            try:
                number = json.loads(token.text)
            except ValueError:  # more digits than Python converts
                number = float("inf")
            if number in (float("inf"), float("-inf")):
                self._fail("the number is too large", "Put it in quotes if it is text", token)
            return number
        return _CONSTANTS.get(token.text.lower(), token.text)

    def _empty_list(self) -> bool:
        following = self._tokens[self._next + 1]
        if following.kind == "mark" and following.text == "]":
            self._next += 2
            return True
        return False

    # ------------------------------------------------------------ tokens

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _accept(self, expected: str) -> bool:
        token = self._token
        matches = token.is_word(expected) or (token.kind == "mark" and token.text == expected)
        self._next += matches
        return matches

    def _scan(self) -> list[_Token]:
        tokens: list[_Token] = []
        place, end = 0, len(self._text.rstrip())
        while place < end:
            match = _TOKEN.match(self._text, place)
            if match is None or match.lastgroup is None:
                start = place + len(self._text[place:]) - len(self._text[place:].lstrip())
                self._fail("a quote is not closed", "Close the quote, or put the text in quotes", start)
            kind = match.lastgroup
            tokens.append(_Token(kind, match[kind], match.start(kind)))  # pyright: ignore[reportArgumentType]
            place = match.end()
        return [*tokens, _Token("end", "", end)]

    def _refuse_reserved(self, what: str) -> None:
        if self._token.kind == "word" and self._token.text.lower() in _RESERVED:
            word = self._token.text
            self._fail(f"`{word}` is a reserved word", f'Write "{word}" in quotes to use it as a {what}')

    def _fail(self, message: str, remedy: str, at: _Token | int | None = None) -> NoReturn:
        start = at if isinstance(at, int) else (at or self._token).start
        rest = self._text[start:].strip()
        shown = f"at {rest[:_SHOWN_CHARACTERS]!r}{'...' * (len(rest) > _SHOWN_CHARACTERS)}" if rest else "at its end"
        raise InvalidQuery(f"filter, character {start + 1}, {shown}: {message}", remedy)


def _unquoted(text: str) -> str:
    """The text between quotes; a backslash escapes the next character, \\n and \\t are line feed and tab."""
    return _ESCAPED.sub(lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text[1:-1])


# ---------------------------------------------------------------- reading filters

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


def _mapping(mapping: Mapping[str, Json], zone: tzinfo | None, depth: int) -> Condition:
    if depth == 0:
        raise InvalidQuery(f"the filter is nested deeper than {limits.FILTER_DEPTH} levels", "Flatten it")
    if not mapping:
        raise InvalidQuery("a part of the filter is empty", 'Leave it out, or name a field: {"kind": "note"}')
    return _every([_entry(name, value, zone, depth - 1) for name, value in mapping.items()])


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


def _operator(name: str, operator_name: object) -> Operator:
    operator = _OPERATORS.get(operator_name.removeprefix("$")) if isinstance(operator_name, str) else None
    if operator is None:
        raise InvalidQuery(f"unknown operator {operator_name!r} for {name}", _REMEDY)
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
    values = [
        value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z" if isinstance(value, datetime) else value
        for value in test.values
    ]
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
