"""Options that several commands share, and how their values are read. What cannot be read is a wrong request.

Options of searches, filters and fields of items derive from their descriptions.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from fourfold.cli.commands import OptionGroup, argument, option
from fourfold.errors import InvalidItem, InvalidQuery, InvalidVector, InvalidWeights
from fourfold.fields import DETAILS, Column, FilterOption, filter_options
from fourfold.filters import Condition, check_size, parse
from fourfold.model import Filters, Json, MetadataTest
from fourfold.ranking.options import OPTIONS, SearchOption

# ---------------------------------------------------------------- values

_LONGEST_DATE: Final = len("2026-11-15")
_TEST: Final = re.compile(r"((?!!=)[^=<>]+?)(!=|<=|>=|==|=|<|>)(.*)", re.DOTALL)
_DURATION: Final = re.compile("([0-9]{1,9})([mhdw])")
_MINUTES: Final = {"m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_ID: Final = re.compile("[0-9]{1,18}")
_OPERATORS: Final[Mapping[str, Literal["eq", "ne", "lt", "lte", "gt", "gte"]]] = {
    "=": "eq", "==": "eq", "!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte",
}  # fmt: skip


def read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise InvalidItem("stdin is not UTF-8 text", "Convert it first") from wrong


def read_time(text: str, *, end_of_day: bool = False) -> datetime:
    """An ISO date or time; without an offset it is local time. `end_of_day`: a bare date means its last moment."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if end_of_day and len(text.strip()) <= _LONGEST_DATE:
            moment = datetime.combine(moment, time.max)
        return moment.astimezone()
    except (ValueError, OverflowError, OSError) as wrong:
        raise InvalidQuery(f"{text!r} is not a time", "Write 2026-11-15 or 2026-11-15T10:00") from wrong


def read_end(text: str) -> datetime:
    """The end of a time that begins now: 30m, 12h, 7d or 2w."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidItem(f"{text!r} is not a duration", "Write 30m, 12h, 7d or 2w")
    try:
        return datetime.now(UTC) + timedelta(minutes=int(match[1]) * _MINUTES[match[2]])
    except OverflowError as wrong:
        raise InvalidItem(f"{text!r} ends after the year 9999", "Leave it out: the item is then kept") from wrong


def read_weights(text: str) -> dict[str, float]:
    """`semantic=0.7,keyword=0.3`; whether they are valid weights is not decided here."""
    pairs = [_weight(part) for part in read_names(text)]
    weights = dict(pairs)
    if len(weights) < len(pairs):
        raise InvalidWeights("a name occurs twice in the weights", "Give each name one weight")
    return weights


def _weight(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise InvalidWeights(
            f"{text!r} is not a weight", "Write NAME=NUMBER, such as semantic=0.7,keyword=0.3 or agent=0.5"
        ) from None


def read_metadata(pairs: Sequence[str]) -> dict[str, Json]:
    metadata: dict[str, Json] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals or key.endswith(("!", "<", ">")):
            raise InvalidItem(f"{pair!r} is not metadata", "Write --meta KEY=VALUE")
        metadata[key] = _json_or_text(value)
    return metadata


def read_metadata_test(text: str) -> MetadataTest:
    match = _TEST.fullmatch(text)
    if match is None:
        raise InvalidQuery(f"{text!r} is not a test of metadata", "Write --meta KEY=VALUE, or !=, <, <=, >, >= for =")
    key, sign, value = match.groups()
    return MetadataTest(key, _OPERATORS[sign], _json_or_text(value))


def read_where(text: str) -> Condition:
    """A filter; times without an offset are local."""
    return check_size(parse(text, None))


def _json_or_text(text: str) -> Json:
    """JSON if it parses; NaN and Infinity are rejected, which Python accepts."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) != float("inf") else _refuse(text)


def read_vector(file: Path) -> list[float]:
    """A JSON list of numbers; whether it is a valid vector is not decided here."""
    try:
        numbers = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as wrong:
        raise InvalidVector(
            f"{file} cannot be read as JSON ({wrong})", "Write a list of numbers: [0.1, 0.2]"
        ) from wrong
    if not isinstance(numbers, list):
        raise InvalidVector(f"{file} holds no list", "Write a list of numbers: [0.1, 0.2]")
    return cast("list[float]", numbers)


def read_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def read_id(text: str) -> int | str:
    """A number, or `key:K` as it stands."""
    if text.startswith("key:"):
        return text
    if not _ID.fullmatch(text):
        raise InvalidQuery(f"{text!r} is not an id", "Write the number, or key:K for the item with the key K")
    return int(text)


# ---------------------------------------------------------------- options

VectorOption = Annotated[
    Path | None,
    option("--vector", metavar="FILE", help="A JSON list of numbers, instead of a vector made from the text."),
]
JsonFlag = Annotated[bool, option("--json", help="Print one JSON object, and nothing else, on stdout.")]
MetaOption = Annotated[list[str] | None, option("--meta", metavar="K=V", help="Metadata; V may be JSON.")]
ItemId = Annotated[str, argument(metavar="ID", help="An id, or key:K.")]

_TYPES: Final[Mapping[str, Any]] = {
    "flag": bool,
    "whole": int | None,
    "number": float | None,
    "vector": Path | None,
    "tags": list[str] | None,
    "metadata": list[str] | None,
}
"""Types by the kind of an option; all others are texts that are parsed later."""
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "names": read_names,
    "weights": read_weights,
    "vector": read_vector,
    "tags": lambda tags: tuple(tags),
    "metadata": lambda tests: tuple(read_metadata_test(test) for test in tests),
    "condition": read_where,
}


class SearchFlags(OptionGroup):
    """The options of `Memory.search`."""

    names: ClassVar = tuple(option.name for option in OPTIONS.values() if option.flag is not None)

    @classmethod
    def parameters(cls) -> list[Parameter]:
        return [_parameter(OPTIONS[name], OPTIONS[name].described) for name in cls.names]

    def arguments(self) -> dict[str, Any]:
        """The options as arguments of `Memory.search`."""
        return {name: _read(OPTIONS[name].holds, value) for name, value in self._given.items()}


class WhyFlags(SearchFlags):
    """The options of `Memory.why`."""

    names: ClassVar = tuple(name for name in SearchFlags.names if OPTIONS[name].explains)


class RankingFlags(SearchFlags):
    """How to rank."""

    names: ClassVar = ("preset", "fusion", "weights", "alpha", "recency", "source_weights", "rerank", "only")


class RetrieveFlags(SearchFlags):
    names: ClassVar = ("top_k", "weights")


class FilterFlags(OptionGroup):
    """What an item must satisfy."""

    @classmethod
    def parameters(cls) -> list[Parameter]:
        return [_parameter(option, option.help) for option in filter_options().values()]

    def filters(self) -> Filters:
        options = filter_options()
        read = {name: _read_filter(options[name], value) for name, value in self._given.items() if value is not None}
        return Filters.of_options(read)


class DetailFlags(OptionGroup):
    """The optional fields of a new item."""

    @classmethod
    def parameters(cls) -> list[Parameter]:
        return [_detail_parameter(column) for column in DETAILS.values() if column.given]

    def values(self) -> dict[str, Any]:
        return {
            name: read_time(value) if DETAILS[name].holds == "time" else value
            for name, value in self._given.items()
            if value is not None
        }


def _detail_parameter(column: Column) -> Parameter:
    kind = int | None if column.holds == "number" else str | None
    metavar = "TIME" if column.holds == "time" else column.metavar or None
    told = option(column.flag, metavar=metavar, help=column.help)
    return Parameter(column.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, told])


def _parameter(spec: SearchOption | FilterOption, described: str) -> Parameter:
    kind = _TYPES.get(str(spec.holds), str | None)
    told = option(str(spec.flag), metavar=spec.metavar or None, help=described)
    default = False if spec.holds == "flag" else None
    return Parameter(spec.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, told])


def _read(holds: str, value: Any) -> Any:
    return value if value is None or holds not in _READERS else _READERS[holds](value)


def _read_filter(option: FilterOption, value: Any) -> Any:
    if option.holds == "time":
        return read_time(value, end_of_day=option.op == "lte")
    return _read(str(option.holds), value)
