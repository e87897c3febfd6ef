"""Parameters of the tools as a model reads them, and alternative names for them."""

# No `from __future__ import annotations`: the SDK reads these annotations when the server starts.

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Annotated, Any, cast, get_args

from pydantic import Field, WithJsonSchema

from fourfold import limits
from fourfold.errors import InvalidQuery
from fourfold.fields import DETAILS, Column, FilterOption, advised_fields, filter_options
from fourfold.ranking.options import OPTIONS, SearchOption
from fourfold.serve.access import Sessions
from fourfold.serve.budget import SMALLEST_TOKENS
from fourfold.serve.inputs import TYPES, Id, Integer, read_filters

# ---------------------------------------------------------------- parameters

HIDDEN = "hidden"


def _range(least: float, most: float) -> dict[str, Any]:
    """Bounds that a model reads. The engine enforces them, with a better message than pydantic's."""
    return {"minimum": least, "maximum": most}


def accepted(description: str = "") -> Any:
    """A parameter that is accepted and documented (docs/mcp.md), but not part of the definitions."""
    return Field(description=description, json_schema_extra={HIDDEN: True})


Query = Annotated[str, Field(description="A question, keywords or names, in the user's words and language.")]
MaxTokens = Annotated[
    Integer | None,
    Field(
        description="Budget of the answer; texts that do not fit become snippets. Default: 4000.",
        json_schema_extra=_range(SMALLEST_TOKENS, limits.ANSWER_TOKENS),
    ),
]
Namespace = Annotated[str | None, Field(description="Leave out unless told.")]
Namespaces = Annotated[str | None, Field(description="Leave out unless told. Several: separated by commas.")]
ItemId = Annotated[Id, Field(description='An id, or "key:K".')]
ItemIds = Annotated[list[Id], Field(description='Ids, or "key:K".', json_schema_extra={"maxItems": limits.ANSWER_ROWS})]
Sources = Annotated[list[Integer] | None, Field(description="Ids of raw records that it is drawn from.")]
Limit = Annotated[Integer, Field(description="Rows.", json_schema_extra=_range(1, limits.ANSWER_ROWS))]
Offset = Annotated[Integer, Field(description="Rows to skip.", json_schema_extra={"minimum": 0})]


def check_rows(limit: int, offset: int) -> None:
    if not 1 <= limit <= limits.ANSWER_ROWS or offset < 0:
        raise InvalidQuery(f"limit {limit}, offset {offset}", f"limit is 1 to {limits.ANSWER_ROWS}; offset from 0")


# ---------------------------------------------------------------- parameters that derive from descriptions


class Options(dict[str, Any]):
    """Options of a search by the name of the parameter of `Memory.search`."""


Tool = Callable[..., Awaitable[Any]]


def with_options(tool: Tool, sessions: Sessions) -> Tool:
    """The tool with its parameters `details`, `filters` and `options` replaced by those of the descriptions.

    `options: Annotated[Options, "top_k", ...]` names the options of the search that the tool has. A tool with the
    parameter `memory` gets that of the namespace which a call names.
    """
    own = inspect.signature(tool).parameters
    filters = filter_options() if "filters" in own else {}
    details = {name: column for name, column in DETAILS.items() if column.given} if "details" in own else {}
    options = {str(OPTIONS[name].argument): OPTIONS[name] for name in _named_options(own)}
    derived = {
        "details": [_detail_parameter(column) for column in details.values()],
        "filters": [_filter_parameter(option) for option in filters.values()],
        "options": [_search_parameter(option) for option in options.values()],
        "memory": [inspect.Parameter("namespace", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Namespace)],
    }

    @wraps(tool)
    async def with_derived(**given: Any) -> Any:
        asked = {name: given.pop(name) for name in (*details, *filters, *options) if name in given}
        if details:
            given["details"] = {name: asked[name] for name in details if name in asked}
        if filters:
            given["filters"] = read_filters({name: asked[name] for name in filters if name in asked})
        if options:
            given["options"] = Options({options[name].name: asked[name] for name in options if name in asked})
        if "memory" in own:
            given["memory"] = await sessions.memory(given.pop("namespace", None))
        return await tool(**given)

    merged = [new for name, parameter in own.items() for new in derived.get(name, [parameter])]
    cast("Any", with_derived).__signature__ = inspect.Signature(
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in merged]
    )
    return with_derived


def _named_options(own: Mapping[str, inspect.Parameter]) -> tuple[str, ...]:
    return get_args(own["options"].annotation)[1:] if "options" in own else ()


def _search_parameter(option: SearchOption) -> inspect.Parameter:
    bounds = {name: bound for name, bound in (("minimum", option.least), ("maximum", option.most)) if bound is not None}
    extra: dict[str, Any] = {**bounds, **({"enum": [*option.choices]} if option.choices else {})}
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
