"""Models of requests and answers, for validation and the OpenAPI document. Unknown fields of requests are refused.

Search options, filters and the JSON of values derive from their descriptions. Tests validate real answers.
"""

# No `from __future__ import annotations`: pydantic reads these annotations when the module is loaded.

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from fourfold import limits
from fourfold.engine.duplicates import DuplicateGroup, Similar
from fourfold.errors import InvalidQuery
from fourfold.fields import DETAILS, FilterOption, advised_fields, filter_options
from fourfold.model import Edge, Filters, Item, Node, NodeSummary, Page, RawRecord
from fourfold.ranking.options import OPTIONS, SearchOption
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Degraded, Explanation, Part, Plan, Result, TimeWindow
from fourfold.serve.inputs import TYPES, Flag, Integer, Number, read_filters
from fourfold.wire import EDGE, members, merged_field

# ---------------------------------------------------------------- requests

STRICT: Final = ConfigDict(extra="forbid", allow_inf_nan=False, populate_by_name=True)


class Request(BaseModel):
    model_config = STRICT


ItemId = Annotated[int, Field(strict=True, ge=1, le=limits.LARGEST_ID)] | Annotated[str, Field(pattern="^key:")]
Metadata = dict[str, Any]
M = TypeVar("M", bound=BaseModel)

# ---------------------------------------------------------------- options of searches, and filters

_BODY_TYPES: Final[Mapping[str, Any]] = {**TYPES, "names": list[str] | None, "condition": str | dict[str, Any] | None}
_QUERY_TYPES: Final[Mapping[str, Any]] = {"tags": list[str], "flag": bool}
"""In a query, tags may be repeated, metadata is JSON, a condition either."""


def option_field(option: SearchOption | FilterOption, *, in_query: bool = False) -> tuple[Any, Any]:
    """The type and the Field of an option."""
    holds, extra = str(option.holds), dict[str, Any]()
    if isinstance(option, SearchOption):
        described, bounds = option.described, {"minimum": option.least, "maximum": option.most}
        extra.update((name, bound) for name, bound in bounds.items() if bound is not None)
        if option.choices:
            extra["enum"] = [*option.choices, None]
    else:
        described = option.advice.format(fields=advised_fields()) if holds == "condition" else option.advice
    default: Any = False if holds == "flag" else [] if in_query and holds == "tags" else None
    kind: Any = (_QUERY_TYPES if in_query else _BODY_TYPES).get(holds, str | None)
    return kind, Field(default=default, description=described, json_schema_extra=extra)


def filter_fields(*, in_query: bool) -> dict[str, Any]:
    return {name: option_field(option, in_query=in_query) for name, option in filter_options().items()}


FiltersRequest: Final = create_model("Filters", __config__=STRICT, **filter_fields(in_query=False))


def given_filters(request: BaseModel) -> Filters:
    """The filters of a body, or those that are given as query parameters."""
    if "filters" in type(request).model_fields:
        body = getattr(request, "filters")  # noqa: B009  a model that derives from a method may have it
        return Filters() if body is None else read_filters(body.model_dump(exclude_unset=True))
    values: dict[str, Any] = {name: value for name in filter_options() if (value := getattr(request, name))}
    for name in ("metadata", "where"):
        text = values.get(name, "").strip()
        if text.startswith("{") or (text and name == "metadata"):
            values[name] = _json_object(name, text)
    return read_filters(values)


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidQuery(f"{name} is not JSON", 'Write {"floor": 4}') from error
    if not isinstance(value, dict):
        raise InvalidQuery(f"{name} is not an object", 'Write {"floor": 4}')
    return cast("dict[str, Any]", value)


# ---------------------------------------------------------------- what other requests hold


def _with_details(model: type[M]) -> type[M]:
    """Adds the optional fields of an item that callers give."""
    fields: dict[str, Any] = {
        name: (TYPES["whole"] if column.holds == "number" else str | None, Field(None, description=column.help))
        for name, column in DETAILS.items()
        if column.given
    }
    return create_model(model.__name__, __base__=model, **fields)


@_with_details
class NewItemRequest(Request):
    text: str = ""
    title: str = ""
    key: str | None = Field(None, description="Your own id: storing it again replaces the item.")
    tags: list[str] = []
    kind: str | None = None
    metadata: Metadata = {}
    language: str | None = Field(None, description="ISO 639-1; detected if left out.")
    created_at: str | None = Field(None, description="ISO date or time; now if left out.")
    source_ids: list[Integer] = Field([], description="Ids of raw records that it is drawn from.")
    path: str | None = None
    chunk_index: Integer | None = None
    vector: list[Number] | None = Field(None, description="Instead of one made from the text.")


class PatchRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"add_tags": ["done"], "metadata": {"floor": 4}}})
    text: str | None = None
    title: str | None = None
    add_tags: list[str] = []
    remove_tags: list[str] = []
    metadata: Metadata | None = Field(None, description="Merged key by key; a key set to null is removed.")
    undo: Flag = Field(False, description="Instead: take the last change back. Nothing is lost.")
    undo_to: Integer | None = Field(None, description="With undo: the id of the version or value to bring back.")
    wait: Flag = Field(False, description="Answer when the vector is made.")


class DeleteRequest(Request):
    """Ids, or filters (with the scope admin). `dry_run` is the default: it only counts."""

    ids: list[ItemId] | None = Field(None, max_length=limits.PAGE_SIZE, description="All of them are deleted, or none.")
    filters: FiltersRequest | None = None  # type: ignore[valid-type]
    dry_run: Flag = True


class ItemQuery(Request):
    include: list[Literal["chunks", "sources", "vector", "nodes", "history", "similar"]] = Field(
        default=[],
        description="Also the chunks of its file, its raw records, whether it waits for a vector, nodes that it names, "
        "its earlier versions and values (latest first, the item included), items that say nearly the same.",
    )
    cursor: str | None = Field(None, description="The next_cursor of an answer, for what did not fit into it.")


class EdgeRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"from": "Ada", "relation": "works on", "to": "Engine"}})
    source: str = Field(alias="from")
    relation: str
    target: str = Field(alias="to")
    weight: Number = Field(1.0, gt=0, le=1)


class AroundQuery(Request):
    name: str
    label: str | None = None
    depth: int = Field(1, ge=1, le=limits.NEIGHBOR_DEPTH)
    limit: int = Field(50, ge=1, le=200, description="Nodes.")


class JudgementRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"query": "router", "item": 1, "relevance": 1}})
    query: str = Field(min_length=1, max_length=limits.QUERY_BYTES)
    item: ItemId
    relevance: Integer | None = Field(
        description="0: not relevant; 1 to 3: relevant; null: removes the judgement.",
        json_schema_extra={"minimum": 0, "maximum": 3},
    )


MEASURED: Final = ("preset", "fusion", "weights", "alpha", "recency", "source_weights", "rerank", "only")
EvaluationRequest: Final[Any] = create_model(
    "EvaluationRequest", __base__=Request, **{name: cast("Any", option_field(OPTIONS[name])) for name in MEASURED}
)


# ---------------------------------------------------------------- answers


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Problem(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    remedy: str


class ExplanationAnswer(Answer):
    value: float | None
    description: str
    details: list["ExplanationAnswer"]


class CountAnswer(Answer):
    name: str
    items: int


# ---------------------------------------------------------------- from the classes of values

_DESCRIBED: Final[Mapping[tuple[type, str], str]] = {
    (Item, "masked"): "Kinds of the secrets that were masked.",
    (Item, "similar"): "Items that say nearly the same; none is merged. Only in answers of writes.",
    (Part, "number"): "From 1.",
    (Part, "count"): "Of the parts that have a vector.",
    (Part, "start"): "In characters of the text.",
    (Part, "unread"): "Characters at the end of the text that no vector reads.",
    (Result, "window"): "The factor of the time window.",
    (Result, "source_weight"): "The factor of the item's source.",
    (Result, "part"): "Of a text with several vectors, the one nearest by meaning.",
    (TimeWindow, "start"): "Null: unlimited on that side.",
    (TimeWindow, "end"): "Excluded from the window.",
    (TimeWindow, "empty"): "Nothing was found in it: results are the nearest outside.",
}

_BY_HAND: Final[dict[Any, Any]] = {Explanation: ExplanationAnswer, tuple[str, int]: CountAnswer}
"""Models of types that do not derive from a class."""


@cache
def of(kind: type) -> Any:
    """The model of the JSON of a class."""
    if kind in _BY_HAND:
        return _BY_HAND[kind]
    merged = merged_field(kind)
    base = Answer if merged is None else of(merged[1])
    return create_model(f"{kind.__name__}Answer", __base__=base, **_fields(kind))


def _fields(kind: type) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for member in members(kind).values():
        described = _DESCRIBED.get((kind, member.attribute))
        hint: Any = answer_type(member.type)
        if member.is_optional:
            default = None if member.default is MISSING else member.default
            fields[member.name] = (hint | None if default is None else hint, Field(default, description=described))
        else:
            fields[member.name] = (hint, Field(description=described))
    return fields


def answer_type(hint: Any) -> Any:
    """The type that pydantic describes: lists for tuples, strings for times, models for classes."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(answer_type(part) for part in parts)]  # noqa: UP007  the parts are known at run time only
    if hint in _BY_HAND:
        return _BY_HAND[hint]
    if origin in (tuple, list, Page, Sequence):
        return list[answer_type(parts[0])]
    if origin is Mapping:
        return dict[parts[0], parts[1]]
    if is_dataclass(hint):
        return of(hint)
    return str if hint is datetime else hint


# ---------------------------------------------------------------- each answer


def answer(model: str, base: Any = Answer, /, **fields: Any) -> Any:
    """A model with these fields, each a type or a pair of type and Field."""
    described: dict[str, Any] = {
        name: form if isinstance(form, tuple) else (form, ...) for name, form in fields.items()
    }
    return create_model(model, __base__=base, **described)


def _number(described: str) -> Any:
    return float, Field(description=described)


ItemAnswer: Final = of(Item)
RawAnswer: Final = of(RawRecord)
_Items: Final = list[ItemAnswer]
_Counts: Final = list[CountAnswer]
_Scores: Final = dict[str, float]
_Duplicate: Final = answer("DuplicateAnswer", item=ItemAnswer, words=float, cosine=float | None)
_BY_HAND[EDGE] = EdgeAnswer = of(Edge)
_BY_HAND[DuplicateGroup] = answer("DuplicateGroupAnswer", oldest=ItemAnswer, others=list[_Duplicate])

ItemView: Final = answer(
    "ItemView", ItemAnswer, chunks=(_Items | None, None), sources=(list[RawAnswer] | None, None),
    vector=(Literal["ready", "pending"] | None, None), nodes=(list[of(NodeSummary)] | None, None),
    history=(_Items | None, None), similar=(list[of(Similar)] | None, None), next_cursor=(str | None, None),
)  # fmt: skip
ItemsAnswer: Final = answer("ItemsAnswer", items=_Items, total=int, next_cursor=str | None, notes=list[str])
DeletedAnswer: Final = answer("DeletedAnswer", matched=int, deleted=int, dry_run=bool)

# searches

_LEFT_OUT: Final = Field(None, description="Left out on request, or by budget_tokens.")
_RANKS: Final[dict[str, Any]] = {spec.rank_field: (int | None, None) for spec in RETRIEVERS.values()} | {
    spec.score_field: (float | None, None) for spec in RETRIEVERS.values() if spec.score_field is not None
}
_Result: Final = answer(
    "ResultAnswer", ItemAnswer, content=(str | None, _LEFT_OUT), metadata=(dict[str, Any] | None, _LEFT_OUT),
    snippet=str, hybrid_score=float | None, **_RANKS,
    **{name: form for name, form in _fields(Result).items() if name != "query"}
    | {"score": (float | None, ...), "confidence": (float | None, ...)},
)  # fmt: skip
_Rows: Final = list[list[float | None]]
_List: Final = answer(
    "CandidateList",
    weight=_number("As applied; 0 if the list did not take part."),
    mean=(float | None, Field(description="The average cosine of the namespace, for vector search.")),
    hits=(_Rows, Field(description="[id, raw score, rank, scaled], best first.")),
    unlisted=(_Rows, Field(description="The same for items that only other lists have.")),
)
_Candidate: Final = answer(
    "CandidateItem",
    **{name: _fields(Item)[name] for name in ("id", "key", "title", "kind", "language", "tags", "location")},
    **{name: _fields(Item)[name] for name in ("created_at", "updated_at", "file_path")},
    recency=float,
    age=_number("The recency factor at strength 1."),
    window=_number("The factor of the time window."),
    source=str | None,
    text_hash=(str | None, Field(description="Equal for chunks of files with the same text.")),
)
_Candidates: Final = answer(
    "CandidatesAnswer",
    lists=dict[str, _List],
    items=list[_Candidate],
    files=(dict[str, list[int]], Field(description="Files that the query names: their best chunks come first.")),
    order=(list[list[float]], Field(description="[id, score]: the fused ranking, before per_source.")),
)
SearchAnswer: Final = answer(
    "SearchAnswer", **dict.fromkeys(("status", "query", "method", "preset", "fusion_strategy", "query_type"), str),
    k=int, matched_keywords=list[str], applied_weights=_Scores, applied_filters=dict[str, Any], confidence=float | None,
    hints=dict[str, int], degraded=list[of(Degraded)], notes=list[str], time_window=(of(TimeWindow) | None, None),
    timings_ms=_Scores, plan=of(Plan), results=list[_Result], candidates=(_Candidates | None, None),
    **{f"{name}_results_count": (int, 0) for name in RETRIEVERS},
)  # fmt: skip
WhyAnswer: Final = answer(
    "WhyAnswer", status=str, query=str, item=ItemAnswer, rank=int | None, reasons=list[str], sources=list[RawAnswer],
    result=_Result | None,
)  # fmt: skip

# counts, graph, the whole store

FacetsAnswer: Final = answer(
    "FacetsAnswer", items=int, tags=_Counts, kinds=_Counts, languages=_Counts, metadata_keys=_Counts
)
LocalGraphAnswer: Final = answer(
    "LocalGraphAnswer",
    nodes=list[answer("LocalNode", of(Node), distance=int)],
    edges=list[EdgeAnswer],
    total=(int, Field(description="Nodes within the depth, also those beyond the limit.")),
)
NamespacesAnswer: Final = answer("NamespacesAnswer", namespaces=_Counts)
LiveAnswer: Final = answer("LiveAnswer", status=str, version=str)
ImportedAnswer: Final = answer("ImportedAnswer", items=int, raw=int, nodes=int, edges=int)
_Judgement: Final = answer(
    "JudgementAnswer", query=str, item=(int | str, Field(description="An id, or key:K.")), relevance=int
)
JudgementsAnswer: Final = answer("JudgementsAnswer", judgements=list[_Judgement])
_Question: Final = answer("QuestionAnswer", query=str, scores=_Scores, ranked=list[str], confidence=float)
EvaluationAnswer: Final = answer(
    "EvaluationAnswer", queries=int, metrics=_Scores, latency_ms=_Scores, questions=list[_Question]
)


class StatusAnswer(BaseModel):
    """Contents of the store; the fields depend on the kind of store."""

    version: str
    namespace: str
    namespaces: dict[str, dict[str, Any]]
