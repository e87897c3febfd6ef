"""The JSON of Fourfold's values, both ways: for `--json`, the HTTP API with its client, and MCP.

A value is a JSON object with the fields of its class, converted by their types. `_SHAPES` has what differs from that.
The models of the OpenAPI document derive from the same description (`members`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, partial
from inspect import cleandoc, signature
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from fourfold import limits
from fourfold.arguments import hints_of
from fourfold.fields import OPTIONAL
from fourfold.model import Edge, Filters, Item, Json, Neighbor, RawRecord
from fourfold.operations import OPERATIONS
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Contribution, Degraded, Plan, Result, SearchResponse, TimeWindow
from fourfold.text.secrets import masks_in

if TYPE_CHECKING:
    from fourfold.engine.duplicates import DuplicateGroup
    from fourfold.engine.search import Why
    from fourfold.errors import FourfoldError
    from fourfold.ingest.sync import IndexReport

T = TypeVar("T")
Form = Mapping[str, Any]
"""A JSON object."""

# ---------------------------------------------------------------- text

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def dumps(value: Json) -> str:
    """Return a line of strict JSON, without NaN, Infinity and lone surrogates."""
    return _encodable(json.dumps(value, ensure_ascii=False, allow_nan=False))


def compact(value: Json) -> str:
    """Return strict JSON without spaces between values, which saves tokens."""
    return _encodable(_COMPACT.encode(value))


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    return text


def time_json(time: datetime) -> str:
    """Format a time in UTC with a Z, and with microseconds if there are any."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


# ---------------------------------------------------------------- any value


class Shape(NamedTuple):
    """How the JSON of a class differs from its fields."""

    order: Sequence[str] = ()
    """The attributes in the order of the JSON; empty: the fields in theirs."""
    names: Mapping[str, str] = {}
    """Names of attributes in JSON, where they differ."""
    optional: Sequence[str] = ()
    """Attributes that JSON has only if they are set."""
    computed: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {}
    """Types and functions of what only JSON has, or shows in another way."""
    merged: str | None = None
    """The field whose members are members of this object."""


def _masked(item: Item) -> tuple[str, ...]:
    """The kinds of the secrets that were masked in the text."""
    return tuple(dict.fromkeys((*masks_in(item.title), *masks_in(item.text))))


def _reranker(plan: Plan) -> str | None:
    """The kind of the reranker: the path of a folder is not for callers."""
    return plan.rerank and plan.rerank.partition(":")[0]


_SHAPES: Final[Mapping[type, Shape]] = {
    Item: Shape(
        order=(
            *("id", "key", "namespace", "title", "text", "source_ids", "tags", "kind", "language", "metadata"),
            *("created_at", "updated_at", "path", "chunk_index", "location", "masked", *OPTIONAL, "similar"),
        ),
        names={"text": "content", "path": "file_path"},
        optional=("masked", *OPTIONAL, "similar"),
        computed={"location": (str | None, attrgetter("location")), "masked": (tuple[str, ...], _masked)},
    ),
    RawRecord: Shape(optional=("source",)),
    Edge: Shape(names={"source": "from", "target": "to"}),
    Neighbor: Shape(merged="node"),
    Plan: Shape(computed={"rerank": (str | None, _reranker)}),
    TimeWindow: Shape(names={"start": "from", "end": "to"}),
    Result: Shape(merged="item", optional=("outside_window", "part", "also_in", "explanation")),
}


class Member(NamedTuple):
    """A member of a JSON object."""

    name: str
    attribute: str
    type: Any
    is_optional: bool
    is_field: bool
    """Whether it is read back; what is computed is not."""
    default: Any
    read: Callable[[Any], Any] | None
    """The function of a computed member."""
    encode: Callable[[Any], Json] | None
    decode: Callable[[Any], Any] | None
    """None: the value is the same in JSON."""


_hints: Final = cache(get_type_hints)
_COUNT: Final = tuple[str, int]
EDGE: Final = tuple[str, str, str, float]
"""The types of a name with the number of its items, and of an edge to store, which are objects in JSON."""


@cache
def merged_field(kind: type) -> tuple[str, type] | None:
    """The field whose members are members of the JSON of a class, and its class."""
    name = _SHAPES[kind].merged if kind in _SHAPES else None
    return None if name is None else (name, _hints(kind)[name])


@cache
def members(kind: type) -> Mapping[str, Member]:
    """The members of the JSON of a class by attribute, in order, without those of its `merged` field."""
    shape, hints = _SHAPES.get(kind, Shape()), _hints(kind)
    defaults = {
        each.name: each.default_factory() if each.default_factory is not MISSING else each.default
        for each in fields(cast("Any", kind))
    }
    described: dict[str, Member] = {}
    for attribute in shape.order or [name for name in defaults if name != shape.merged]:
        hint, read = shape.computed.get(attribute, (hints.get(attribute), None))
        described[attribute] = Member(
            shape.names.get(attribute, attribute),
            attribute,
            hint,
            attribute in shape.optional,
            attribute in defaults,
            defaults.get(attribute, MISSING),
            read,
            *_converters(hint),
        )
    return described


@cache
def _converters(hint: Any) -> tuple[Callable[[Any], Json] | None, Callable[[Any], Any] | None]:
    """The functions that convert a value of this type, other than None, into JSON and back."""
    if NoneType in (choices := get_args(hint)):
        (hint,) = (choice for choice in choices if choice is not NoneType) if len(choices) == 2 else (Any,)
    origin = get_origin(hint)
    if hint is datetime:
        return time_json, datetime.fromisoformat
    if hint is float:
        return _finite, None
    if is_dataclass(hint):
        return encode, partial(decode, cast("type", hint))
    if origin is Mapping:
        return dict, None
    if hint == EDGE:
        return lambda edge: encode(Edge(*edge)), None
    if hint == _COUNT:
        return _count_json, lambda form: (form["name"], form["items"])
    if origin in (tuple, list, Sequence):
        to_json, from_json = _converters(get_args(hint)[0])
        made = cast("Callable[[Any], Any]", list if origin is list else tuple)
        return (
            list if to_json is None else lambda values: [to_json(value) for value in values],
            made if from_json is None else lambda forms: made(from_json(form) for form in forms),
        )
    return None, None


def counts_json(counts: Sequence[tuple[str, int]]) -> list[Json]:
    return [_count_json(count) for count in counts]


def _count_json(count: tuple[str, int]) -> dict[str, Json]:
    return {"name": count[0], "items": count[1]}


def value_of(hint: Any, form: Json) -> Any:
    """The value of any type from its JSON."""
    from_json = _converters(hint)[1]
    return form if form is None or from_json is None else from_json(form)


def json_of(hint: Any, value: Any) -> Json:
    """The JSON of a value of any type."""
    to_json = _converters(hint)[0]
    return value if value is None or to_json is None else to_json(value)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def encode(value: Any, only: Sequence[str] | None = None) -> dict[str, Json]:
    """The JSON object of a value. `only`: of these attributes."""
    kind = cast("type[Any]", type(value))
    if kind.__name__ in _WRITERS:
        return _WRITERS[kind.__name__](value)
    described = members(kind)
    merged = merged_field(kind) if only is None else None
    form: dict[str, Json] = {} if merged is None else encode(getattr(value, merged[0]))
    for member in described.values() if only is None else (described[name] for name in only):
        part = getattr(value, member.attribute) if member.read is None else member.read(value)
        if member.is_optional and (part is None or part is False or part == ()):
            continue
        form[member.name] = part if part is None or member.encode is None else member.encode(part)
    return form


def decode(kind: type[T], form: Form) -> T:
    """The value of a class from its JSON object. What it does not know is ignored, what it lacks has its default."""
    if kind.__name__ in _READERS:
        return _READERS[kind.__name__](form)
    merged = merged_field(kind)
    values: dict[str, Any] = {} if merged is None else {merged[0]: decode(merged[1], form)}
    for member in members(kind).values():
        if member.is_field and (member.name in form or member.default is MISSING):
            part = form[member.name]
            values[member.attribute] = part if part is None or member.decode is None else member.decode(part)
    return kind(**values)


# ---------------------------------------------------------------- parameters and results of operations


class Parameter(NamedTuple):
    """A parameter of the method of an operation, as callers from outside give it."""

    name: str
    member: str
    """Its name in JSON, in paths and in queries."""
    hint: Any
    default: Any
    """`inspect.Parameter.empty` if it is required."""
    help: str

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The smallest and the largest value, which the engine enforces, too."""
        return _BOUNDS.get(self.name, (None, None))

    @property
    def kinds(self) -> tuple[Any, ...]:
        return kinds_of(self.hint)

    def takes(self, kind: type) -> bool:
        return kind in self.kinds

    @property
    def is_id(self) -> bool:
        """Whether it is the id of an item, or key:K."""
        return self.kinds == (int, str)


_BOUNDS: Final = {
    "limit": (1, limits.PAGE_SIZE),
    "depth": (1, limits.NEIGHBOR_DEPTH),
    "max_depth": (1, limits.PATH_DEPTH),
}


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type, without None."""
    if get_origin(hint) not in (Union, UnionType):
        return (hint,)
    return tuple(part for part in get_args(hint) if part is not NoneType)


@cache
def parameters_of(name: str, *, pages: bool = False) -> Sequence[Parameter]:
    """The parameters of an operation that are offered. `pages`: with those of pages, where a server has cursors."""
    operation, method = OPERATIONS[name], _method(name)
    helps = _HELP.findall(cleandoc(method.__doc__ or ""))
    hints, help = hints_of(method), ({name: " ".join((text[:1].upper() + text[1:]).split()) for name, text in helps})
    left_out = {"self", *operation.lacks, *(("limit", "offset") if operation.paged and not pages else ())}
    return [
        Parameter(each.name, member, hints[each.name], each.default, help.get(each.name, ""))
        for each in signature(method).parameters.values()
        if each.kind is not each.VAR_KEYWORD
        and each.name not in left_out
        and (member := operation.names.get(each.name, each.name))
    ]


def result_of(name: str) -> Any:
    """The type of the result of an operation."""
    return hints_of(_method(name))["return"]


def _method(name: str) -> Callable[..., Any]:
    from fourfold.memory import Memory

    return getattr(Memory, name)


_HELP: Final = re.compile(r"`(\w+)`: (.+?)(?=\s`\w+`: |\n\n|\Z)", re.DOTALL)

# ---------------------------------------------------------------- a search

FACTORS: Final = ("recency", "window", "source_weight", "contributions")
"""What a score was computed from, for the HTTP API."""
_PLAIN: Final = ("graph_distance", "outside_window", "part", "also_in", "explanation")


def response_json(response: SearchResponse) -> dict[str, Json]:
    """Return the whole response; the order of the fields is part of the interface."""
    return {**response_facts(response), "results": [result_json(result) for result in response.results]}


def response_facts(response: SearchResponse) -> dict[str, Json]:
    """Return the fields of a response except its results."""
    plan, counts = response.plan, response.counts
    return {
        "status": "success",
        "query": response.query,
        "method": plan.retrievers[0] if len(plan.retrievers) == 1 else "hybrid",
        "preset": plan.preset,
        "fusion_strategy": plan.fusion,
        "k": plan.k,
        "query_type": plan.query_type,
        "matched_keywords": list(plan.matched_keywords),
        "applied_weights": dict.fromkeys(RETRIEVERS, 0.0) | dict(response.applied_weights),
        "applied_filters": filters_json(response.filters),
        "confidence": _finite(response.confidence),
        **{f"{name}_results_count": counts.get(name, 0) for name in RETRIEVERS},
        "hints": {
            "fts_matches": counts.get("keyword", 0),
            "semantic_matches": counts.get("semantic", 0),
            "overlap": response.overlap,
        },
        "degraded": [encode(degraded) for degraded in response.degraded],
        "notes": list(response.notes),
        **({} if response.time_window is None else {"time_window": encode(response.time_window)}),
        "timings_ms": {name: round(milliseconds, 3) for name, milliseconds in response.timings_ms.items()},
    }


def response_of(form: Form, filters: Filters) -> SearchResponse:
    """The response from its JSON with `plan` and `FACTORS`. `filters`: those of the request."""
    plan, window = decode(Plan, form["plan"]), form.get("time_window")
    return SearchResponse(
        query=form["query"],
        plan=plan,
        applied_weights=form["applied_weights"],
        filters=filters,
        confidence=form["confidence"],
        counts={name: form[f"{name}_results_count"] for name in plan.retrievers},
        overlap=form["hints"]["overlap"],
        degraded=tuple(decode(Degraded, each) for each in form["degraded"]),
        notes=tuple(form["notes"]),
        timings_ms=form["timings_ms"],
        results=tuple(_result_of(result, form["query"]) for result in form["results"]),
        time_window=None if window is None else decode(TimeWindow, window),
    )


def result_json(result: Result, more: Sequence[str] = ()) -> dict[str, Json]:
    """Return a result; `explanation` is present on request, `also_in` and `part` where they apply.

    `more`: attributes to add, such as `FACTORS`.
    """
    score = _finite(result.score)
    return {
        **encode(result.item),
        "snippet": result.snippet,
        "score": score,
        "hybrid_score": score,
        "confidence": _finite(result.confidence),
        **_ranks_json(result.contributions),
        **encode(result, (*_PLAIN, *more)),
    }


def _result_of(form: Form, query: str) -> Result:
    return decode(Result, {**form, "query": query})


def _ranks_json(contributions: Sequence[Contribution]) -> dict[str, Json]:
    by_source = {contribution.source: contribution for contribution in contributions}
    form: dict[str, Json] = {}
    for spec in RETRIEVERS.values():
        line = by_source.get(spec.name)
        form[spec.rank_field] = None if line is None else line.rank
        if spec.score_field is not None:
            form[spec.score_field] = None if line is None or line.raw is None else _finite(line.raw)
    return form


def filters_json(filters: Filters) -> dict[str, Json]:
    """Return the fields that are set; {} if none is."""
    from fourfold.filters import read_where, where_json

    condition = None if filters.where is None else read_where(filters.where)
    form = {**encode(filters), "where": None if condition is None else where_json(condition)}
    return {name: value for name, value in form.items() if value not in (None, False, [])}


def why_json(why: Why, query: str, more: Sequence[str] = ()) -> dict[str, Json]:
    return {
        "status": "success",
        "query": query,
        "item": encode(why.item),
        "rank": why.rank,
        "reasons": list(why.reasons),
        "sources": [encode(record) for record in why.sources],
        "result": None if why.result is None else result_json(why.result, more),
    }


def why_of(form: Form) -> Why:
    from fourfold.engine.search import Why

    return Why(
        item=decode(Item, form["item"]),
        rank=form["rank"],
        result=None if form["result"] is None else _result_of(form["result"], form["query"]),
        reasons=tuple(form["reasons"]),
        sources=tuple(decode(RawRecord, record) for record in form["sources"]),
    )


# ---------------------------------------------------------------- other answers


def _duplicates_json(group: DuplicateGroup) -> dict[str, Json]:
    others = [
        {"item": encode(item), "words": round(each.words, 3), "cosine": each.cosine and round(each.cosine, 3)}
        for item, each in group.others
    ]
    return {"oldest": encode(group.oldest), "others": others}


def _duplicates_of(form: Form) -> DuplicateGroup:
    from fourfold.engine.duplicates import DuplicateGroup, Similar

    items = [(decode(Item, each["item"]), each) for each in form["others"]]
    others = tuple((item, Similar(item.id, each["words"], each["cosine"])) for item, each in items)
    return DuplicateGroup(decode(Item, form["oldest"]), others)


_READERS: Final[Mapping[str, Callable[[Form], Any]]] = {"Why": why_of, "DuplicateGroup": _duplicates_of}
_WRITERS: Final[Mapping[str, Callable[[Any], dict[str, Json]]]] = {"DuplicateGroup": _duplicates_json}
"""What reads and writes the classes of the engine, which are not imported before they are needed."""


def index_json(report: IndexReport) -> dict[str, Json]:
    counts = ("files", "new", "changed", "moved", "removed", "unchanged", "opened", "chunks")
    reasons: dict[str, Json] = {
        name: {reason: {"count": few.count, "examples": few.examples} for reason, few in reasons_by_path.items()}
        for name, reasons_by_path in (("skipped", report.skipped), ("notes", report.notes))
    }
    return {"status": "success", **{name: getattr(report, name) for name in counts}, **reasons}


def error_json(error: FourfoldError, tool: str) -> dict[str, Json]:
    return {"status": "error", "error": error.message, "details": error.remedy, "tool": tool}
