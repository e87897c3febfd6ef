"""Models of answers for the OpenAPI document, derived from the JSON of values.

Tests validate real answers against them.
"""

# No `from __future__ import annotations`: pydantic reads these annotations when the module is loaded.

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from fourfold.engine.analysis import Analysis
from fourfold.engine.duplicates import Similar
from fourfold.model import Edge, Item, Neighbor, Node, NodeSummary, NodeView, RawRecord
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Degraded, Explanation, Part, Plan, Result, TimeWindow
from fourfold.wire import members, merged_field


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
