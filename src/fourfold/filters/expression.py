"""Filters as text: `line >= 10 and (kind != code or author.name in (Ada, "Grace H.")) and not tag = draft`.

either  = both { "or" both }
both    = single { "and" single }
single  = "not" single | "(" either ")" | test
test    = key ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
        | key [ "not" ] "in" "(" value { "," value } ")"
        | key [ "not" ] "exists"
key     = name { "." name }            a name or value is a word, or text in quotes
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final, Literal, NoReturn

from fourfold import limits
from fourfold.errors import InvalidQuery
from fourfold.filters.conditions import (
    Condition,
    Every,
    Field,
    Json,
    Not,
    Operator,
    Some,
    field_at,
    key_path,
    make_test,
)

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
            return self._number(token)
        return _CONSTANTS.get(token.text.lower(), token.text)

    def _number(self, token: _Token) -> Json:
        try:
            number = json.loads(token.text)
        except ValueError:  # more digits than Python converts
            number = float("inf")
        if number in (float("inf"), float("-inf")):
            self._fail("the number is too large", "Put it in quotes if it is text", token)
        return number

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
    return _ESCAPED.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text[1:-1])
