"""Parameters of the tools as a model reads them, and alternative names for them."""

# No `from __future__ import annotations`: the SDK reads these annotations when the server starts.

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any, cast, get_args

from pydantic import Field, WithJsonSchema

from fourfold import limits
from fourfold.errors import InvalidQuery
from fourfold.fields import DETAILS, Column, FilterOption, advised_fields, filter_options
from fourfold.operations import Operation
from fourfold.ranking.options import OPTIONS, SearchOption
from fourfold.serve.access import Sessions
from fourfold.serve.budget import SMALLEST_TOKENS
from fourfold.serve.inputs import TYPES, Id, Integer, read_filters, strict_type
from fourfold.wire import parameters_of

# ---------------------------------------------------------------- parameters

HIDDEN = "hidden"


def _bounds(least: float | None, most: float | None) -> dict[str, Any]:
    """Bounds that a model reads. The engine enforces them, with a better message than pydantic's."""
    return {name: bound for name, bound in (("minimum", least), ("maximum", most)) if bound is not None}


def accepted(description: str = "") -> Any:
    """A parameter that is accepted and documented (docs/mcp.md), but not part of the definitions."""
    return Field(description=description, json_schema_extra={HIDDEN: True})


Query = Annotated[str, Field(description="A question, keywords or names, in the user's words and language.")]
MaxTokens = Annotated[
    Integer | None,
    Field(
        description="Budget of the answer; texts that do not fit become snippets. Default: 4000.",
        json_schema_extra=_bounds(SMALLEST_TOKENS, limits.ANSWER_TOKENS),
    ),
]
Namespace = Annotated[str | None, Field(description="Leave out unless told.")]
Namespaces = Annotated[str | None, Field(description="Leave out unless told. Several: separated by commas.")]
ItemId = Annotated[Id, Field(description='An id, or "key:K".')]
ItemIds = Annotated[list[Id], Field(description='Ids, or "key:K".', json_schema_extra={"maxItems": limits.ANSWER_ROWS})]
Sources = Annotated[list[Integer] | None, Field(description="Ids of raw records that it is drawn from.")]
Limit = Annotated[Integer, Field(description="Rows.", json_schema_extra=_bounds(1, limits.ANSWER_ROWS))]
Offset = Annotated[Integer, Field(description="Rows to skip.", json_schema_extra={"minimum": 0})]


def check_rows(limit: int, offset: int) -> None:
    if not 1 <= limit <= limits.ANSWER_ROWS or offset < 0:
        raise InvalidQuery(f"limit {limit}, offset {offset}", f"limit is 1 to {limits.ANSWER_ROWS}; offset from 0")


# ---------------------------------------------------------------- parameters that derive from descriptions


class Options(dict[str, Any]):
    """Options of a search by the name of the parameter of `Memory.search`."""


Tool = Callable[..., Awaitable[Any]]
_NAMESPACE = inspect.Parameter("namespace", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Namespace)


def with_derived(tool: Tool, operation: Operation, sessions: Sessions) -> Tool:
    """The tool with its parameters `details`, `filters` and `options` replaced by those of the descriptions.

    `options: Annotated[Options, "top_k", ...]` names the options of the search that the tool has. A tool with the
    parameter `memory` gets that of the namespace which a call names. One with the parameter `result` has the parameters
    of its operation, and gets what the method returns.
    """
    own = inspect.signature(tool).parameters
    groups = {name: _GROUPS[name](parameter) for name, parameter in own.items() if name in _GROUPS}

    @wraps(tool)
    async def calling(**given: Any) -> Any:
        for name, (parameters, read) in groups.items():
            given[name] = read({each: given.pop(each) for each in parameters if each in given})
        if "memory" in own:
            given["memory"] = await sessions.memory(given.pop("namespace", None))
        if "result" in own:
            method = getattr(await sessions.memory(given.pop("namespace", None)), operation.name)
            given = {"result": await method(**_arguments(operation, given))}
        return await tool(**given)

    derived: dict[str, list[inspect.Parameter]] = {name: [*group[0].values()] for name, group in groups.items()}
    derived |= {"memory": [_NAMESPACE], "result": [*_operation_parameters(operation), _NAMESPACE]}
    merged = [new for name, parameter in own.items() for new in derived.get(name, [parameter])]
    cast("Any", calling).__signature__ = inspect.Signature(
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in merged]
    )
    return calling


_Group = tuple[Mapping[str, inspect.Parameter], Callable[[dict[str, Any]], Any]]
"""Parameters that stand for one of a tool, and what makes its value of theirs."""


def _details(_: inspect.Parameter) -> _Group:
    return {name: _detail_parameter(column) for name, column in DETAILS.items() if column.given}, dict


def _filters(_: inspect.Parameter) -> _Group:
    return {name: _filter_parameter(option) for name, option in filter_options().items()}, read_filters


def _options(parameter: inspect.Parameter) -> _Group:
    options = {str(OPTIONS[name].argument): OPTIONS[name] for name in get_args(parameter.annotation)[1:]}
    return {name: _search_parameter(option) for name, option in options.items()}, lambda asked: Options(
        {options[name].name: value for name, value in asked.items()}
    )


_GROUPS: Mapping[str, Callable[[inspect.Parameter], _Group]] = {
    "details": _details,
    "filters": _filters,
    "options": _options,
}


def _operation_parameters(operation: Operation) -> Iterator[inspect.Parameter]:
    """The parameters of the method; the id of an item is named `item_id`."""
    for each in parameters_of(operation.name):
        field = Field(description=each.help or None, json_schema_extra=_bounds(*each.bounds))
        default = None if each.default == () else each.default
        kind = strict_type(each.hint)
        kind = kind | None if default is None else kind
        name = "item_id" if each.name == "item" else each.name
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, field]
        )
    if operation.paged:
        yield inspect.Parameter("limit", inspect.Parameter.KEYWORD_ONLY, default=20, annotation=Limit)
        yield inspect.Parameter("offset", inspect.Parameter.KEYWORD_ONLY, default=0, annotation=Offset)


def _arguments(operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    if operation.paged:
        check_rows(given["limit"], given["offset"])
    names = {"item_id": "item"}
    arguments = {names.get(name, name): value for name, value in given.items() if value is not None}
    return arguments | dict.fromkeys(operation.stamped, "agent")


def _search_parameter(option: SearchOption) -> inspect.Parameter:
    extra = _bounds(option.least, option.most)
    if option.choices:
        extra["enum"] = [*option.choices]
    field = Field(description=option.advised, json_schema_extra=extra) if option.listed else accepted(option.advised)
    return _parameter(str(option.argument), option.holds, field)


def _detail_parameter(column: Column) -> inspect.Parameter:
    field = Field(description=column.help) if column.listed else accepted(column.help)
    return _parameter(column.name, "whole" if column.holds == "number" else column.holds, field)


def _filter_parameter(option: FilterOption) -> inspect.Parameter:
    if option.holds == "condition":
        described = option.advice.format(fields=advised_fields())
        form = Annotated[str | dict[str, Any] | None, WithJsonSchema({"type": "string", "description": described})]
        return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=form)
    field = Field(description=option.advice) if option.listed else accepted(option.advice)
    return _parameter(option.name, str(option.holds), field)


def _parameter(name: str, holds: str, field: Any) -> inspect.Parameter:
    form = Annotated[TYPES.get(holds, str | None), field]
    default = False if holds == "flag" else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=form)


# ---------------------------------------------------------------- definitions


def small_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of arguments with only what a model needs, to save tokens."""
    shown = {name: form for name, form in schema["properties"].items() if not form.get(HIDDEN)}
    required = {"required": schema["required"]} if schema.get("required") else {}
    return {"type": "object", "properties": {name: _small(form) for name, form in shown.items()}, **required}


def _small(form: Mapping[str, Any]) -> dict[str, Any]:
    """Without the title, which repeats the name, and without null, which is the same as leaving it out."""
    kept = {name: value for name, value in form.items() if name not in ("title", "anyOf", "additionalProperties")}
    if not kept.get("default", True):
        del kept["default"]
    choices = [choice for choice in form.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) > 1:
        return {"anyOf": choices, **kept}
    return {**(_small(choices[0]) if choices else {}), **kept}


# ---------------------------------------------------------------- other names


_ALIASES = (
    ("query", "query_text"),
    ("query_text", "query"),
    ("limit", "top_k"),
    ("top_k", "limit"),
    ("type", "kind"),
)
"""Parameter names of other systems, and the parameter that each means if the tool has it."""


def with_known_names(tool: str, arguments: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the tool's parameters; InvalidQuery names one that it does not have."""
    given = dict(arguments)
    for alias, name in _ALIASES:
        if alias in given and alias not in known and name in known:
            _refuse_twice(given, alias, name)
            given[name] = given.pop(alias)
    if "fts_weight" in given and "weights" in known:
        _refuse_twice(given, "fts_weight", "weights")
        given["weights"] = _shares(given.pop("fts_weight"))
    if strange := sorted(given.keys() - known.keys()):
        raise InvalidQuery(f"{tool} has no argument {strange[0]!r}", f"It takes {', '.join(known)}")
    return given


def _refuse_twice(given: Mapping[str, Any], alias: str, name: str) -> None:
    if name in given:
        raise InvalidQuery(f"{alias} and {name} are both given", f"They mean the same: give {name} only")


def _shares(fts_weight: object) -> dict[str, float]:
    if isinstance(fts_weight, bool) or not isinstance(fts_weight, int | float) or not 0 <= fts_weight <= 1:
        raise InvalidQuery(f"fts_weight is {fts_weight!r}", "It is a number from 0 to 1, the share of keyword search")
    return {"keyword": fts_weight, "semantic": 1 - fts_weight, "graph": 0.0}
