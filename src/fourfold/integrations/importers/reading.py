"""What importers share: the result of reading a file, JSON with line numbers, and errors that name the line."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from fourfold import bounded, limits
from fourfold import validation as rules
from fourfold.errors import InvalidItem, RequestError
from fourfold.model import Edge, Json, NewItem

_BLANKS: Final = " \t\r\n"
_DAMAGED: Final = "Write the file again with the tool that it comes from; nothing was imported"


@dataclass
class Found:
    """Everything that a file holds, checked, and what was left out, with the reason."""

    items: list[NewItem] = field(default_factory=list[NewItem])
    edges: list[Edge] = field(default_factory=list[Edge])
    left_out: Counter[str] = field(default_factory=Counter[str])

    def add(self, item: NewItem) -> None:
        self.items.append(rules.checked(replace(item, source="import")))

    def relate(self, source: str, relation: str, target: str) -> None:
        self.edges.append(rules.checked_edge(source, relation, target, 1.0))


class Placed(NamedTuple):
    """A JSON value and the line on which it starts."""

    line: int
    value: Json


class JsonText:
    """The text of a JSON file, which is parsed piece by piece so that errors can name their line."""

    def __init__(self, name: str, text: str, first_line: int = 1) -> None:
        self.name = name
        self._text = text
        self._breaks = [place for place, letter in enumerate(text) if letter == "\n"]
        self._first_line = first_line

    def whole(self) -> Placed:
        start = self._skip(0)
        value, end = self._value(start)
        if self._skip(end) < len(self._text):
            raise self._wrong(self._skip(end), "text after the end of the JSON value")
        return Placed(self._line(start), value)

    def elements(self, *names: str) -> Iterator[Placed]:
        """The elements of a list: the whole file, or the first of these keys of an object that is the whole file."""
        start = self._skip(0)
        if names and self._text[start : start + 1] == "{":
            start = self._member(start, names)
        self.whole()
        if self._text[start : start + 1] != "[":
            raise self._wrong(start, "a list is expected here")
        yield from self._list(start)

    def _list(self, start: int) -> Iterator[Placed]:
        place = self._skip(start + 1)
        while self._text[place] != "]":
            value, end = self._value(place)
            yield Placed(self._line(place), value)
            place = self._skip(end)
            if self._text[place] == ",":
                place = self._skip(place + 1)

    def _member(self, start: int, names: tuple[str, ...]) -> int:
        """Where the value of one of these keys starts."""
        self._value(start)  # the object is well-formed: what follows relies on it
        place = self._skip(start + 1)
        while self._text[place] != "}":
            key, end = self._value(place)
            value = self._skip(self._skip(end) + 1)
            if key in names:
                return value
            place = self._skip(self._value(value)[1])
            if self._text[place] == ",":
                place = self._skip(place + 1)
        raise self._wrong(start, f"the key {names[0]!r} is missing")

    def _value(self, place: int) -> tuple[Json, int]:
        try:
            return _DECODER.raw_decode(self._text, place)
        except json.JSONDecodeError as error:
            raise self._wrong(error.pos, f"not JSON ({error.msg})") from error
        except (ValueError, RecursionError) as error:
            raise self._wrong(place, f"not JSON ({error})") from error

    def _skip(self, place: int) -> int:
        while place < len(self._text) and self._text[place] in _BLANKS:
            place += 1
        return place

    def _line(self, place: int) -> int:
        return bisect_right(self._breaks, place - 1) + self._first_line

    def _wrong(self, place: int, problem: str) -> InvalidItem:
        return InvalidItem(f"{self.name}:{self._line(place)}: {problem}", _DAMAGED)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


@contextmanager
def located(name: str, line: int) -> Generator[None]:
    """Adds the place to errors."""
    try:
        yield
    except RequestError as error:
        raise type(error)(f"{name}:{line}: {error.message}", error.remedy or _DAMAGED) from error


def read_text(file: Path, name: str | None = None) -> str:
    return decoded(read_bytes(file), name or file.name)


def read_bytes(file: Path) -> bytes:
    try:
        return bounded.read_file(file, limits.IMPORT_BYTES)
    except bounded.Unbounded as error:
        raise InvalidItem(f"{file} cannot be imported: {error}", "Import its parts one by one") from error
    except OSError as error:
        raise InvalidItem(f"{file} cannot be read ({error.strerror})", "Check the path") from error


def decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidItem(f"{name}:{line}: not UTF-8 text", _DAMAGED) from error


# ---------------------------------------------------------------- fields of records


def mapping(value: Json) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidItem("an object is expected here", _DAMAGED)
    return cast("dict[str, Any]", value)


def text_of(row: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is there; it has to be a text."""
    value = next((row[name] for name in names if row.get(name) is not None), None)
    if not isinstance(value, str):
        raise InvalidItem(f"{names[0]!r} is missing or not a text", _DAMAGED)
    return value


def optional_text(row: Mapping[str, Any], name: str) -> str | None:
    return None if row.get(name) is None else text_of(row, name)


def texts_of(row: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts; empty if it is missing."""
    values: Any = row.get(name) or []
    if not isinstance(values, list) or not all(isinstance(each, str) for each in cast("list[Any]", values)):
        raise InvalidItem(f"{name!r} is not a list of texts", _DAMAGED)
    return cast("list[str]", values)


def rows_of(row: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of objects; empty if it is missing."""
    values: Any = row.get(name) or []
    if not isinstance(values, list):
        raise InvalidItem(f"{name!r} is not a list", _DAMAGED)
    return [mapping(each) for each in cast("list[Any]", values)]


def time_of(row: Mapping[str, Any], name: str) -> datetime | None:
    """An ISO time, or seconds since 1970; None if it is missing."""
    value: Any = row.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        return rules.in_utc(datetime.fromisoformat(cast("str", value)))
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise InvalidItem(f"{name!r} is {value!r}, which is not a time", _DAMAGED) from error


def kept(row: Mapping[str, Any], *names: str) -> dict[str, Json]:
    """Those of these fields that have a value."""
    return {name: row[name] for name in names if row.get(name) not in (None, "", [], {})}


def few_tags(tags: list[str], left_out: Counter[str]) -> tuple[str, ...]:
    """Tags within the limit of an item; those beyond it are counted."""
    distinct = list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if (beyond := len(distinct) - limits.TAGS) > 0:
        left_out["tags beyond the limit of an item"] += beyond
    return tuple(distinct[: limits.TAGS])
