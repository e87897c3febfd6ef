"""Models of requests and answers, for validation and the OpenAPI document. Unknown fields of requests are refused.

Search options, filters and the JSON of values derive from their descriptions. Tests validate real answers.
"""

# No `from __future__ import annotations`: pydantic reads these annotations when the module is loaded.

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from fourfold import limits
from fourfold.engine.duplicates import Similar
from fourfold.engine.search import Analysis
from fourfold.fields import DETAILS, FilterOption, advised_fields, filter_options
from fourfold.model import Edge, Filters, Item, Neighbor, Node, NodeSummary, NodeView, RawRecord
from fourfold.ranking.options import OPTIONS, SearchOption
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Degraded, Explanation, Part, Plan, Result, TimeWindow
from fourfold.serve.budget import SMALLEST_TOKENS
from fourfold.serve.inputs import TYPES, Flag, Integer, Number, read_filters, refuse_folders
from fourfold.wire import members, merged_field

# ---------------------------------------------------------------- requests

STRICT: Final = ConfigDict(extra="forbid", allow_inf_nan=False, populate_by_name=True)


class Request(BaseModel):
    model_config = STRICT


ItemId = Annotated[int, Field(strict=True, ge=1, le=limits.LARGEST_ID)] | Annotated[str, Field(pattern="^key:")]
Metadata = dict[str, Any]
M = TypeVar("M", bound=BaseModel)

# ---------------------------------------------------------------- searches and filters


def _field(option: SearchOption | FilterOption, described: str, kind: Any = None) -> tuple[Any, Any]:
    """The type and the Field of an option."""
    holds = str(option.holds)
    form = kind or TYPES.get(holds, str | None)
    extra: dict[str, Any] = {}
    if isinstance(option, SearchOption):
        bounds = (("minimum", option.least), ("maximum", option.most))
        extra = {name: bound for name, bound in bounds if bound is not None}
        if option.choices:
            extra["enum"] = [*option.choices, None]
    default = False if holds == "flag" else None
    return form, Field(default=default, description=described, json_schema_extra=extra)


_KINDS: Final = {"names": list[str] | None, "condition": str | dict[str, Any] | None}


def _advice(option: FilterOption) -> str:
    return option.advice.format(fields=advised_fields()) if option.holds == "condition" else option.advice


def _filters_model() -> type[BaseModel]:
    fields: dict[str, Any] = {
        name: _field(option, _advice(option), _KINDS.get(str(option.holds)))
        for name, option in filter_options().items()
    }
    return create_model("Filters", __config__=STRICT, **fields)


FiltersRequest: Final = _filters_model()


def given_filters(filters: Any) -> Filters:
    return Filters() if filters is None else read_filters(filters.model_dump(exclude_unset=True))


def _options(explaining: bool) -> dict[str, Any]:
    """Fields for the options of `Memory.search`, or of `Memory.why`."""
    return {
        name: _field(option, option.described, _KINDS.get(option.holds))
        for name, option in OPTIONS.items()
        if option.holds != "filters" and (option.explains or not explaining)
    }


def _asking(*, explaining: bool, without: Sequence[str] = ()) -> Any:
    """A base class with these options."""
    fields = {name: field for name, field in _options(explaining).items() if name not in without}
    return create_model("Asking", __base__=Request, **fields)


class AnalyzeRequest(_asking(explaining=True, without=["vector"])):
    query: str = Field(description="A question, keywords or names.", examples=["how do I get into the network?"])


class WhyRequest(_asking(explaining=True)):
    query: str = Field(description="A question, keywords or names.", examples=["how do I get into the network?"])
    item: ItemId
    filters: FiltersRequest | None = Field(None, description="What an item must satisfy.")  # type: ignore[valid-type]


class SearchRequest(_asking(explaining=False)):
    query: str = Field(description="A question, keywords or names.", examples=["how do I get into the network?"])
    filters: FiltersRequest | None = Field(None, description="What an item must satisfy.")  # type: ignore[valid-type]
    budget_tokens: Integer | None = Field(
        default=None,
        description="Tokens that the results may take; the best are in full, the others shortened.",
        json_schema_extra={"minimum": SMALLEST_TOKENS, "maximum": limits.ANSWER_TOKENS},
    )
    content: Flag = Field(default=True, description="Whether results hold their text and metadata.")


def search_arguments(body: BaseModel) -> dict[str, Any]:
    """The options of a request, by the names of the parameters of `Memory.search` and `Memory.why`."""
    given = {name: getattr(body, name) for name in OPTIONS if name != "filters" and hasattr(body, name)}
    refuse_folders(given.get("rerank"))
    return {name: value for name, value in given.items() if value is not None and value is not False}


# ---------------------------------------------------------------- items


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
    model_config = ConfigDict(json_schema_extra={"example": {"text": "The router is in room 4", "tags": ["office"]}})
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


class AddRequest(NewItemRequest):
    wait: Flag = Field(False, description="Answer when the vector is made.")


class AddManyRequest(Request):
    items: list[NewItemRequest] = Field(max_length=limits.PAGE_SIZE, description="All of them are stored, or none.")
    wait: Flag = False


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


class GetManyRequest(Request):
    ids: list[ItemId] = Field(max_length=limits.PAGE_SIZE)
    cursor: str | None = Field(None, description="The next_cursor of an answer that these ids did not fit into.")


class DeleteRequest(Request):
    """Ids, or filters (with the scope admin). `dry_run` is the default: it only counts."""

    ids: list[ItemId] | None = Field(None, max_length=limits.PAGE_SIZE, description="All of them are deleted, or none.")
    filters: FiltersRequest | None = None  # type: ignore[valid-type]
    dry_run: Flag = True


class PageQuery(Request):
    limit: int = Field(50, ge=1, le=limits.PAGE_SIZE)
    cursor: str | None = Field(None, description="The next_cursor of the previous page.")


def _asked_filters() -> Any:
    """A base class with filters as query parameters: tags may be repeated, metadata is JSON, a condition either."""
    fields: dict[str, Any] = {}
    for name, option in filter_options().items():
        kind = {"tags": list[str], "flag": bool}.get(str(option.holds), str | None)
        default: Any = [] if option.holds == "tags" else False if option.holds == "flag" else None
        fields[name] = (kind, Field(default=default, description=_advice(option)))
    return create_model("AskedFilters", __base__=Request, **fields)


class ItemsQuery(PageQuery, _asked_filters()):
    pass


class ItemQuery(Request):
    include: list[Literal["chunks", "sources", "vector", "nodes", "history", "similar"]] = Field(
        default=[],
        description="Also the chunks of its file, its raw records, whether it waits for a vector, nodes that it names, "
        "its earlier versions and values (latest first, the item included), items that say nearly the same.",
    )


# ---------------------------------------------------------------- graph, raw records, judgements


class NodeRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"name": "Ada", "label": "person"}})
    name: str
    label: str = "entity"
    aliases: list[str] = []
    properties: Metadata | None = None
    item: ItemId | None = Field(None, description="The item that describes it.")


class EdgeRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"from": "Ada", "relation": "works on", "to": "Engine"}})
    source: str = Field(alias="from")
    relation: str
    target: str = Field(alias="to")
    weight: Number = Field(1.0, gt=0, le=1)


class EdgesRequest(Request):
    edges: list[EdgeRequest] = Field(max_length=limits.PAGE_SIZE)


class EdgeQuery(Request):
    source: str = Field(alias="from")
    relation: str
    target: str = Field(alias="to")


class NodesQuery(PageQuery):
    like: str = Field("", description="Only names and aliases that contain this.")
    item: str | None = Field(
        None, description="Only nodes of this item, by id or key:K: its own, and those it mentions."
    )


class LabelQuery(Request):
    label: str | None = Field(None, description="Which node, if several have the name.")
    limit: int = Field(50, ge=1, le=limits.PAGE_SIZE)


class NeighborsQuery(PageQuery):
    name: str
    depth: int = Field(1, ge=1, le=limits.NEIGHBOR_DEPTH)
    direction: Literal["both", "out", "in"] = "both"
    relation: str | None = None
    label: str | None = None


class AroundQuery(Request):
    name: str
    label: str | None = None
    depth: int = Field(1, ge=1, le=limits.NEIGHBOR_DEPTH)
    limit: int = Field(50, ge=1, le=200, description="Nodes.")


class PathQuery(Request):
    start: str
    goal: str
    max_depth: int = Field(limits.PATH_DEPTH, ge=1, le=limits.PATH_DEPTH)


class RawRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"content": "Ada: the key is with me", "speaker": "Ada"}})
    content: str
    speaker: str | None = None
    session_id: str | None = None
    metadata: Metadata = {}


class RawQuery(PageQuery):
    session_id: str | None = None
    speaker: str | None = None


class ForceQuery(Request):
    force: bool = Field(False, description="Also if items are drawn from it.")


class JudgementRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"query": "router", "item": 1, "relevance": 1}})
    query: str = Field(min_length=1, max_length=limits.QUERY_BYTES)
    item: ItemId
    relevance: Integer | None = Field(
        description="0: not relevant; 1 to 3: relevant; null: removes the judgement.",
        json_schema_extra={"minimum": 0, "maximum": 3},
    )


_MEASURED: Final = ("preset", "fusion", "weights", "alpha", "recency", "source_weights", "rerank", "only")


class EvaluationRequest(_asking(explaining=False, without=[name for name in OPTIONS if name not in _MEASURED])):
    pass


class DuplicatesQuery(Request):
    limit: int = Field(50, ge=1, le=limits.PAGE_SIZE)


class MergeRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"keep": 1, "ids": [2]}})
    keep: ItemId
    ids: list[ItemId] = Field(max_length=limits.PAGE_SIZE, description="What is merged into the item to keep.")


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


@cache
def of(kind: type) -> Any:
    """The model of the JSON of a class."""
    if kind is Explanation:
        return ExplanationAnswer
    merged = merged_field(kind)
    base = Answer if merged is None else of(merged[1])
    return create_model(f"{kind.__name__}Answer", __base__=base, **_fields(kind))


def _fields(kind: type) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for member in members(kind).values():
        told = _DESCRIBED.get((kind, member.attribute))
        hint: Any = _json_type(member.type)
        if member.is_optional:
            default = None if member.default is MISSING else member.default
            fields[member.name] = (hint | None if default is None else hint, Field(default, description=told))
        else:
            fields[member.name] = (hint, Field(description=told))
    return fields


def _json_type(hint: Any) -> Any:
    """The type that pydantic describes: lists for tuples, strings for times, models for classes."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return Union[tuple(_json_type(part) for part in parts)]  # noqa: UP007  the parts are known at run time only
    if origin in (tuple, Sequence):
        return list[_json_type(parts[0])]
    if origin is Mapping:
        return dict[parts[0], parts[1]]
    if is_dataclass(hint):
        return of(hint)
    return str if hint is datetime else hint


# ---------------------------------------------------------------- each answer


def _answer(model: str, base: Any = Answer, /, **fields: Any) -> Any:
    """A model with these fields, each a type or a pair of type and Field."""
    described: dict[str, Any] = {
        name: form if isinstance(form, tuple) else (form, ...) for name, form in fields.items()
    }
    return create_model(model, __base__=base, **described)


def _number(described: str) -> Any:
    return float, Field(description=described)


ItemAnswer: Final = of(Item)
RawAnswer: Final = of(RawRecord)
NodeAnswer: Final = of(Node)
EdgeAnswer: Final = of(Edge)
NodeViewAnswer: Final = of(NodeView)
_Node: Final = of(NodeSummary)
_Plan: Final = of(Plan)
_Window: Final = of(TimeWindow)
_Count: Final = _answer("CountAnswer", name=str, items=int)
_Counts: Final = list[_Count]
_Scores: Final = dict[str, float]
_Cursor: Final = str | None

ItemView: Final = _answer(
    "ItemView",
    ItemAnswer,
    chunks=(list[ItemAnswer] | None, None),
    sources=(list[RawAnswer] | None, None),
    vector=(Literal["ready", "pending"] | None, None),
    nodes=(list[_Node] | None, None),
    history=(list[ItemAnswer] | None, None),
    similar=(list[of(Similar)] | None, None),
)
ItemsAnswer: Final = _answer("ItemsAnswer", items=list[ItemAnswer], total=int, next_cursor=_Cursor, notes=list[str])
ItemListAnswer: Final = _answer("ItemListAnswer", items=list[ItemAnswer])
ItemPageAnswer: Final = _answer("ItemPageAnswer", ItemListAnswer, next_cursor=_Cursor)
DeletedAnswer: Final = _answer("DeletedAnswer", matched=int, deleted=int, dry_run=bool)
RawsAnswer: Final = _answer("RawsAnswer", raw=list[RawAnswer], total=int, next_cursor=_Cursor)
_Duplicate: Final = _answer("DuplicateAnswer", item=ItemAnswer, words=float, cosine=float | None)
_Group: Final = _answer("DuplicateGroupAnswer", oldest=ItemAnswer, others=list[_Duplicate])
DuplicatesAnswer: Final = _answer("DuplicatesAnswer", groups=list[_Group])

# searches

_LEFT_OUT: Final = Field(None, description="Left out on request, or by budget_tokens.")
_RANKS: Final[dict[str, Any]] = {spec.rank_field: (int | None, None) for spec in RETRIEVERS.values()} | {
    spec.score_field: (float | None, None) for spec in RETRIEVERS.values() if spec.score_field is not None
}
_Result: Final = _answer(
    "ResultAnswer",
    ItemAnswer,
    content=(str | None, _LEFT_OUT),
    metadata=(dict[str, Any] | None, _LEFT_OUT),
    snippet=str,
    hybrid_score=float | None,
    **{name: form for name, form in _fields(Result).items() if name != "query"}
    | {"score": (float | None, ...), "confidence": (float | None, ...)},
    **_RANKS,
)
_Rows: Final = list[list[float | None]]
_List: Final = _answer(
    "CandidateList",
    weight=_number("As applied; 0 if the list did not take part."),
    mean=(float | None, Field(description="The average cosine of the namespace, for vector search.")),
    hits=(_Rows, Field(description="[id, raw score, rank, scaled], best first.")),
    unlisted=(_Rows, Field(description="The same for items that only other lists have.")),
)
_Candidate: Final = _answer(
    "CandidateItem",
    **{name: _fields(Item)[name] for name in ("id", "key", "title", "kind", "language", "tags", "location")},
    **{name: _fields(Item)[name] for name in ("created_at", "updated_at", "file_path")},
    recency=float,
    age=_number("The recency factor at strength 1."),
    window=_number("The factor of the time window."),
    source=str | None,
    text_hash=(str | None, Field(description="Equal for chunks of files with the same text.")),
)
_Candidates: Final = _answer(
    "CandidatesAnswer",
    lists=dict[str, _List],
    items=list[_Candidate],
    files=(dict[str, list[int]], Field(description="Files that the query names: their best chunks come first.")),
    order=(list[list[float]], Field(description="[id, score]: the fused ranking, before per_source.")),
)
SearchAnswer: Final = _answer(
    "SearchAnswer",
    **dict.fromkeys(("status", "query", "method", "preset", "fusion_strategy", "query_type"), str),
    k=int,
    matched_keywords=list[str],
    applied_weights=_Scores,
    applied_filters=dict[str, Any],
    confidence=float | None,
    hints=dict[str, int],
    degraded=list[of(Degraded)],
    notes=list[str],
    time_window=(_Window | None, None),
    timings_ms=_Scores,
    plan=_Plan,
    results=list[_Result],
    candidates=(_Candidates | None, None),
    **{f"{name}_results_count": (int, 0) for name in RETRIEVERS},
)
WhyAnswer: Final = _answer(
    "WhyAnswer",
    status=str,
    query=str,
    item=ItemAnswer,
    rank=int | None,
    reasons=list[str],
    sources=list[RawAnswer],
    result=_Result | None,
)
AnalysisAnswer: Final = _answer("AnalysisAnswer", **_fields(Analysis) | {"tags": _Counts})

# counts, graph, the whole store

CountsAnswer: Final = _answer("CountsAnswer", counts=_Counts, total=int, next_cursor=_Cursor)
FacetsAnswer: Final = _answer(
    "FacetsAnswer", items=int, tags=_Counts, kinds=_Counts, languages=_Counts, metadata_keys=_Counts
)
NodesAnswer: Final = _answer("NodesAnswer", nodes=list[_Node], next_cursor=_Cursor)
NeighborsAnswer: Final = _answer("NeighborsAnswer", neighbors=list[of(Neighbor)], total=int, next_cursor=_Cursor)
LocalGraphAnswer: Final = _answer(
    "LocalGraphAnswer",
    nodes=list[_answer("LocalNode", NodeAnswer, distance=int)],
    edges=list[EdgeAnswer],
    total=(int, Field(description="Nodes within the depth, also those beyond the limit.")),
)
EdgesAnswer: Final = _answer("EdgesAnswer", edges=list[EdgeAnswer])
NamespacesAnswer: Final = _answer("NamespacesAnswer", namespaces=_Counts)
LiveAnswer: Final = _answer("LiveAnswer", status=str, version=str)
ImportedAnswer: Final = _answer("ImportedAnswer", items=int, raw=int, nodes=int, edges=int)
_Judgement: Final = _answer(
    "JudgementAnswer", query=str, item=(int | str, Field(description="An id, or key:K.")), relevance=int
)
JudgementsAnswer: Final = _answer("JudgementsAnswer", judgements=list[_Judgement])
_Question: Final = _answer("QuestionAnswer", query=str, scores=_Scores, ranked=list[str], confidence=float)
EvaluationAnswer: Final = _answer(
    "EvaluationAnswer", queries=int, metrics=_Scores, latency_ms=_Scores, questions=list[_Question]
)


class StatusAnswer(BaseModel):
    """Contents of the store; the fields depend on the kind of store."""

    version: str
    namespace: str
    namespaces: dict[str, dict[str, Any]]
