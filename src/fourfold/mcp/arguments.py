"""What the tools take: parameters as models read them, filters made of them, and other names for them."""

# No `from __future__ import annotations`: the SDK reads these annotations when the server starts.

import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, time
from functools import wraps
from typing import Annotated, Any, cast, get_args

from pydantic import Field, Strict, WithJsonSchema

from fourfold import limits
from fourfold.errors import InvalidQuery
from fourfold.model import Filters, FusionName, Json, MetadataTest
from fourfold.search.budget import SMALLEST
from fourfold.search.presets import PRESETS

_LONGEST_DATE = len("2026-11-15")

# ---------------------------------------------------------------- parameters

Integer = Annotated[int, Strict()]
"""`true` and "5" are not integers."""
Number = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]
Id = Annotated[int, Strict()] | str

HIDDEN = "hidden"


def _range(least: float, most: float) -> dict[str, Any]:
    """What a model reads; the engine refuses what lies outside, with a better message than pydantic's."""
    return {"minimum": least, "maximum": most}


def accepted(description: str = "") -> Any:
    """A parameter that is accepted and documented (docs/mcp.md), but not part of the definitions."""
    return Field(description=description, json_schema_extra={HIDDEN: True})


Query = Annotated[str, Field(description="A question, keywords or names, in the user's words and language.")]
Embedding = Annotated[list[Number] | None, accepted("The vector to use instead of one made from the text.")]
TopK = Annotated[Integer | None, Field(description="Default: 10.", json_schema_extra=_range(1, limits.TOP_K))]
Weights = Annotated[
    dict[str, Number] | None,
    Field(description="Of semantic, keyword, graph, tags; their sum is 1. Leave out unless told."),
]
Fusion = Annotated[
    str | None, Field(description="Leave out unless told.", json_schema_extra={"enum": [*get_args(FusionName)]})
]
Preset = Annotated[str | None, Field(description="Leave out unless told.", json_schema_extra={"enum": [*PRESETS]})]
Alpha = Annotated[Number | None, accepted("Preset memories only: 1 is vectors only, 0 is tags only.")]
RrfK = Annotated[Integer | None, accepted("The constant of reciprocal rank fusion.")]
MaxTokens = Annotated[
    Integer | None,
    Field(
        description="Budget of the answer; texts that do not fit become snippets. Default: 4000.",
        json_schema_extra=_range(SMALLEST, limits.ANSWER_TOKENS),
    ),
]
MinConfidence = Annotated[Number | None, Field(description="Drop results below this.", json_schema_extra=_range(0, 1))]
Explain = Annotated[Flag, Field(description="Adds every field and how each score came about.")]
Namespace = Annotated[str | None, Field(description="Leave out unless told.")]
Namespaces = Annotated[str | None, Field(description="Leave out unless told. Several: separated by commas.")]
ItemId = Annotated[Id, Field(description='An id, or "key:K".')]
ItemIds = Annotated[list[Id], Field(description='Ids, or "key:K".', json_schema_extra={"maxItems": limits.ANSWER_ROWS})]
Sources = Annotated[list[Integer] | None, Field(description="Ids of raw records that it is drawn from.")]
Limit = Annotated[Integer, Field(description="Rows.", json_schema_extra=_range(1, limits.ANSWER_ROWS))]
Offset = Annotated[Integer, Field(description="Rows to skip.", json_schema_extra={"minimum": 0})]

Tags = Annotated[list[str] | None, Field(description="Has all of these tags.")]
Kind = Annotated[str | None, Field(description="Has this kind.")]
Where = Annotated[
    str | dict[str, Any] | None,
    WithJsonSchema(
        {
            "type": "string",
            "description": "Condition on tags, kind, language, path (glob), created_at, updated_at, key, title or "
            "keys of the metadata: created_at >= 2026-01-31 and (path = docs/** or not tag in (a, b)) and floor exists",
        }
    ),
]
AnyTag = Annotated[Flag, accepted("One of the tags is enough.")]
From = Annotated[str | None, accepted("Created at this ISO date or time, or later.")]
To = Annotated[str | None, accepted("Created up to this ISO date (that day included) or time.")]
Language = Annotated[str | None, accepted("ISO 639-1, such as de.")]
PathGlob = Annotated[str | None, accepted("File path, such as docs/**.")]
Metadata = Annotated[dict[str, Any] | None, accepted('Such as {"floor": 4} or {"floor": {"gte": 2, "lt": 5}}.')]


def check_rows(limit: int, offset: int) -> None:
    if not 1 <= limit <= limits.ANSWER_ROWS or offset < 0:
        raise InvalidQuery(f"limit {limit}, offset {offset}", f"limit is 1 to {limits.ANSWER_ROWS}; offset from 0")


# ---------------------------------------------------------------- filters


def read_filters(
    tags: Tags = None,
    kind: Kind = None,
    where: Where = None,
    any_tag: AnyTag = False,
    created_from: From = None,
    created_to: To = None,
    language: Language = None,
    path: PathGlob = None,
    metadata: Metadata = None,
) -> Filters:
    """The filters of a call. Its signature is the one of every tool that is `filtered`."""
    return Filters(
        tuple(tags or ()),
        any_tag,
        moment(created_from),
        moment(created_to, end=True),
        kind,
        language,
        path,
        _tests(metadata),
        where,
    )


_FILTERS = inspect.signature(read_filters).parameters

Tool = Callable[..., Awaitable[Any]]


def filtered(tool: Tool) -> Tool:
    """Gives a tool the parameters of `read_filters` in place of its own parameter `filters`."""
    own = inspect.signature(tool).parameters

    @wraps(tool)
    async def with_filters(*self: Any, **given: Any) -> Any:
        asked = {name: given.pop(name) for name in _FILTERS if name in given}
        return await tool(*self, **given, filters=read_filters(**asked))

    merged: list[inspect.Parameter] = []
    for parameter in own.values():
        merged += _FILTERS.values() if parameter.name == "filters" else [parameter]
    cast("Any", with_filters).__signature__ = inspect.Signature(
        sorted(merged, key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    )
    return with_filters


def moment(text: str | None, *, end: bool = False) -> datetime | None:
    """A time without a zone is taken as UTC; with `end`, a bare date means the end of that day."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
        if end and len(text.strip()) <= _LONGEST_DATE:
            found = datetime.combine(found, time.max)
    except ValueError as error:
        raise InvalidQuery(f"{text!r} is not a time", "Write 2026-11-15 or 2026-11-15T10:00:00Z") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _tests(metadata: Mapping[str, Json] | None) -> tuple[MetadataTest, ...]:
    tests: list[MetadataTest] = []
    for key, wanted in (metadata or {}).items():
        match wanted:
            case {"lt": low, "gte": high, **rest} if not rest:
                tests += [MetadataTest(key, "lt", low), MetadataTest(key, "gte", high)]
            case {"lt": bound, **rest} if not rest:
                tests.append(MetadataTest(key, "lt", bound))
            case {"gte": bound, **rest} if not rest:
                tests.append(MetadataTest(key, "gte", bound))
            case _:
                tests.append(MetadataTest(key, "eq", wanted))
    return tuple(tests)


# ---------------------------------------------------------------- definitions


def small_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of arguments with what a model needs to know, and nothing that it pays for otherwise."""
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
"""Names that the source systems use, and the parameter that each means where a tool has it."""


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
    return {"keyword": fts_weight, "semantic": 1 - fts_weight}
