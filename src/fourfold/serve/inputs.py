"""Arguments of calls from outside, for MCP and HTTP: strict types, and filters by the names of their descriptions."""

# No `from __future__ import annotations`: these annotations are read when a server starts.

import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Final, cast, get_args, get_origin

from pydantic import BeforeValidator, Field, Strict

from fourfold.errors import InvalidQuery
from fourfold.fields import DETAILS, FilterOption, filter_options
from fourfold.filters import OPERATORS, read_time
from fourfold.model import Filters, Json, MetadataTest, NewItem, Source
from fourfold.ranking.plan import FOLDER_PREFIX
from fourfold.wire import kinds_of

Integer = Annotated[int, Strict()]
"""`true` and "5" are not integers."""
Number = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]


def _number_of(id: object) -> object:
    """An id that is a number in quotes, which models write."""
    return int(id) if isinstance(id, str) and _DIGITS.fullmatch(id) else id


_DIGITS: Final = re.compile("[0-9]{1,18}")
Id = Annotated[Integer | str, BeforeValidator(_number_of)]
RawId = Annotated[Integer, BeforeValidator(_number_of)]

TYPES: Mapping[str, Any] = {
    "flag": Flag,
    "whole": cast("Any", Integer) | None,
    "number": cast("Any", Number) | None,
    "weights": dict[str, Number] | None,
    "vector": list[Number] | None,
    "tags": list[str] | None,
    "metadata": dict[str, Any] | None,
}
"""Types by the kind of an option; all others are strings."""
_STRICT: Final[Mapping[Any, Any]] = {(int,): Integer, (float,): Number, (bool,): Flag, (int, str): Id}


def strict_type(hint: Any, own: Mapping[Any, Any] | None = None, most: int | None = None) -> Any:
    """The type of JSON for the annotation of a parameter.

    `own`: types of an interface, by the alternatives of an annotation. `most`: entries of a list that is not of texts.
    """
    kinds = kinds_of(hint)
    kind: Any = {**_STRICT, **(own or {})}.get(kinds, kinds[0])
    if get_origin(kind) is Mapping:
        kind = dict[str, Any]
    elif get_origin(kind) is Sequence:
        element = strict_type(get_args(kind)[0], own)
        kind = Annotated[list[element], Field(max_length=most)] if most and element is not str else list[element]
    return kind | None if NoneType in get_args(hint) else kind


def refuse_folders(rerank: object) -> None:
    """Raises InvalidQuery if a request names a folder of the server."""
    if isinstance(rerank, str) and rerank.startswith(FOLDER_PREFIX):
        remedy = "Set `rerank` in the settings of the server, and leave it out of the request"
        raise InvalidQuery("a server opens no model in a folder that a request names", remedy)


def read_filters(values: Mapping[str, Any]) -> Filters:
    """The filters that options mean, by name."""
    options = filter_options()
    return Filters.of_options(
        {name: _read_filter(options[name], value) for name, value in values.items() if value is not None}
    )


def read_item(values: Mapping[str, Any], source: Source) -> NewItem:
    """The item that a request describes by the names of its fields."""
    fields: dict[str, Any] = {}
    for name, value in values.items():
        if name == "created_at" or (name in DETAILS and DETAILS[name].holds == "time"):
            fields[name] = None if value is None else read_time(value, name)
        elif value is not None:
            fields[name] = tuple(value) if name in ("tags", "source_ids") else value
    return NewItem(**fields, source=source)


def _read_filter(option: FilterOption, value: Any) -> Any:
    match option.holds:
        case "tags":
            return tuple(value)
        case "time":
            return read_time(value, option.name, end_of_day=option.op == "lte")
        case "metadata":
            return _tests(value)
        case _:
            return value


def _tests(metadata: Mapping[str, Json] | None) -> tuple[MetadataTest, ...]:
    """`{"line": 10}` or, with operators of the grammar, `{"line": {"gte": 10, "lt": 20}}`."""
    tests: list[MetadataTest] = []
    for key, wanted in (metadata or {}).items():
        by_operator: Any = wanted
        if not isinstance(by_operator, dict) or not by_operator or by_operator.keys() - {*OPERATORS}:
            by_operator = {"eq": wanted}
        tests += [MetadataTest(key, operator, value) for operator, value in cast("Any", by_operator).items()]
    return tuple(tests)
