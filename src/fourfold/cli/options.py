"""Options that several commands share. Those of searches and filters derive from their descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from fourfold.cli.commands import OptionGroup, argument, option
from fourfold.cli.values import read_metadata_test, read_names, read_time, read_vector, read_weights, read_where
from fourfold.fields import DETAILS, Column, FilterOption, filter_options
from fourfold.ranking.options import OPTIONS, SearchOption

if TYPE_CHECKING:
    from fourfold.model import Filters

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
        from fourfold.model import Filters

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
