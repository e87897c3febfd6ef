"""Options that several commands share, and how their values are read. What cannot be read is a wrong request.

Options of searches, filters and fields of items derive from their descriptions.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args, get_origin

from fourfold import bounded
from fourfold.cli.commands import FILE, argument, open_memory, option
from fourfold.errors import InvalidItem, InvalidQuery, InvalidVector, InvalidWeights
from fourfold.fields import DETAILS, Column, FilterOption, filter_options
from fourfold.filters import Condition, check_size, parse, read_time
from fourfold.limits import SMALL_FILE_BYTES
from fourfold.model import Filters, Json, MetadataTest
from fourfold.operations import OPERATIONS
from fourfold.ranking.options import OPTIONS, SearchOption

# ---------------------------------------------------------------- values

_TEST: Final = re.compile(r"((?!!=)[^=<>]+?)(!=|<=|>=|==|=|<|>)(.*)", re.DOTALL)
_DURATION: Final = re.compile("([0-9]{1,9})([mhdw])")
_MINUTES: Final = {"m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_ID: Final = re.compile("[0-9]{1,18}")
_OPERATORS: Final[Mapping[str, Literal["eq", "ne", "lt", "lte", "gt", "gte"]]] = {
    "=": "eq", "==": "eq", "!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte",
}  # fmt: skip


def read_text(text: str) -> str:
    """The text, or all of stdin for `-`."""
    if text != "-":
        return text
    content = sys.stdin.buffer.read(SMALL_FILE_BYTES + 1)
    if len(content) > SMALL_FILE_BYTES:
        raise InvalidItem(f"stdin has more than {SMALL_FILE_BYTES:,} bytes", "Split it into several items")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as wrong:
        raise InvalidItem("stdin is not UTF-8 text", "Convert it first") from wrong


read_local: Final = partial(read_time, zone=None)


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
        remedy = "Write NAME=NUMBER, such as semantic=0.7,keyword=0.3 or agent=0.5"
        raise InvalidWeights(f"{text!r} is not a weight", remedy) from None


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
        numbers = json.loads(bounded.read_text(file))
    except (OSError, ValueError, RecursionError) as wrong:
        remedy = "Write a list of numbers: [0.1, 0.2]"
        raise InvalidVector(f"{file} cannot be read as JSON ({wrong})", remedy) from wrong
    if not isinstance(numbers, list):
        raise InvalidVector(f"{file} holds no list", "Write a list of numbers: [0.1, 0.2]")
    return cast("list[float]", numbers)


def read_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def read_ids(texts: Sequence[str]) -> list[int | str]:
    return [read_id(text) for text in texts]


def read_id(text: str) -> int | str:
    """A number, or `key:K` as it stands."""
    if text.startswith("key:"):
        return text
    if not _ID.fullmatch(text):
        raise InvalidQuery(f"{text!r} is not an id", "Write the number, or key:K for the item with the key K")
    return int(text)


# ---------------------------------------------------------------- options and arguments

ItemId = Annotated[int | str, argument(metavar="ID", help="An id, or key:K.", read=read_id)]
JsonFlag = Annotated[bool, option("--json", help="Print one JSON object, and nothing else, on stdout.")]
MetaOption = Annotated[
    dict[str, Json] | None,
    option("--meta", metavar="K=V", multiple=True, help="Metadata; V may be JSON.", read=read_metadata),
]
VectorOption = Annotated[
    list[float] | None,
    option(
        "--vector",
        metavar="FILE",
        multiple=False,
        help="A JSON list of numbers, instead of a vector made from the text.",
        read=read_vector,
        type=FILE,
    ),
]


@dataclass(frozen=True)
class SearchOptions:
    """Options of `Memory.search`, as its arguments."""

    names: Collection[str]

    def parameters(self) -> list[Parameter]:
        return [_parameter(OPTIONS[name], OPTIONS[name].described) for name in self.names]

    def value(self, values: dict[str, Any]) -> dict[str, Any]:
        return values


class FilterOptions:
    """What an item must satisfy."""

    def parameters(self) -> list[Parameter]:
        return [_parameter(option, option.help) for option in filter_options().values()]

    def value(self, values: dict[str, Any]) -> Filters:
        return Filters.of_options({name: value for name, value in values.items() if value is not None})


class DetailOptions:
    """The optional fields of a new item."""

    def parameters(self) -> list[Parameter]:
        return [_detail(column) for column in DETAILS.values() if column.given]

    def value(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if value is not None}


_SEARCH: Final = tuple(option.name for option in OPTIONS.values() if option.flag is not None)
SearchFlags = Annotated[dict[str, Any], SearchOptions(_SEARCH)]
WhyFlags = Annotated[dict[str, Any], SearchOptions([name for name in _SEARCH if OPTIONS[name].explains])]
RankingFlags = Annotated[
    dict[str, Any],
    SearchOptions(("preset", "fusion", "weights", "alpha", "recency", "source_weights", "rerank", "only")),
]
RetrieveFlags = Annotated[dict[str, Any], SearchOptions(("top_k", "weights"))]
FilterFlags = Annotated[Filters, FilterOptions()]
DetailFlags = Annotated[dict[str, Any], DetailOptions()]

_TYPES: Final[Mapping[str, Any]] = {
    "flag": bool,
    "whole": int | None,
    "number": float | None,
    "tags": list[str] | None,
    "metadata": list[str] | None,
}
"""Types by the kind of an option; all others are texts that are read."""
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "names": read_names,
    "weights": read_weights,
    "vector": read_vector,
    "tags": tuple,
    "metadata": lambda tests: tuple(map(read_metadata_test, tests)),
    "condition": read_where,
    "time": read_local,
}


def _detail(column: Column) -> Parameter:
    kind, read = (int | None, None) if column.holds == "number" else (str | None, _READERS.get(column.holds))
    metavar = "TIME" if column.holds == "time" else column.metavar or None
    spelling = option(column.flag, metavar=metavar, help=column.help, read=read)
    return Parameter(column.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, spelling])


def _parameter(spec: SearchOption | FilterOption, described: str) -> Parameter:
    holds = str(spec.holds)
    ends = isinstance(spec, FilterOption) and holds == "time" and spec.op == "lte"
    read = partial(read_local, end_of_day=True) if ends else _READERS.get(holds)
    more = {"type": FILE} if holds == "vector" else {}
    spelling = option(str(spec.flag), metavar=spec.metavar or None, help=described, read=read, **more)
    default = False if holds == "flag" else None
    kind = Annotated[_TYPES.get(holds, str | None), spelling]
    return Parameter(spec.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


# ---------------------------------------------------------------- the parameters of an operation


@dataclass(frozen=True)
class Carried:
    """The parameters of the method of an operation. Their value is what the method returns."""

    operation: str
    without: tuple[str, ...] = ()

    def parameters(self) -> list[Parameter]:
        from fourfold.wire import parameters_of

        described = parameters_of(self.operation, pages=True)
        return [_of_method(each) for each in described if each.name not in self.without]

    def value(self, values: dict[str, Any]) -> Any:
        operation = OPERATIONS[self.operation]
        with open_memory(create=operation.status == _CREATED) as memory:
            arguments = {name: value for name, value in values.items() if value is not None}
            return getattr(memory, operation.name)(**arguments)


_CREATED: Final = 201
_SPELLED: Final = {
    "aliases": option("--alias", metavar="A", help="Another name; repeat for more."),
    "content": argument(metavar="TEXT|-", help="The words; - reads them from stdin.", read=read_text),
    "ids": argument(metavar="ID..."),
    "item": option("--item", metavar="ID", help="An item, by id or key:K.", read=read_id),
    "metadata": get_args(MetaOption)[1],
    "session_id": option("--session", metavar="ID", help="The conversation it is from."),
}
"""Parameters of methods that are given in a way of their own."""


def _of_method(parameter: Any) -> Parameter:
    """The option, or if it is required the argument, for a parameter of a method."""
    kind = parameter.kinds[0]
    required, default = parameter.default is Parameter.empty, parameter.default or None
    if required and parameter.is_id:
        spelling = get_args(ItemId)[1]
    elif parameter.name in _SPELLED:
        spelling = _SPELLED[parameter.name]
    elif required:
        spelling = argument(metavar=parameter.name.upper())
    else:
        choices = f" One of {', '.join(get_args(kind))}." if get_origin(kind) is Literal else ""
        spelling = option(metavar="N" if kind is int else parameter.name[0].upper(), help=parameter.help + choices)
    if get_origin(kind) is Sequence:
        kind = list[get_args(kind)[0]]
    elif spelling.read is not None or kind not in (int, float, bool):
        kind = str
    default = Parameter.empty if required else False if kind is bool else default
    return Parameter(parameter.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, spelling])
