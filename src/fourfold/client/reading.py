"""Values from the JSON of the API: the inverse of `fourfold.serve.schemas`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fourfold import errors
from fourfold.engine.duplicates import DuplicateGroup, Similar
from fourfold.engine.search import Why
from fourfold.errors import FourfoldError, StoreUnavailable
from fourfold.fields import OPTIONAL
from fourfold.model import Edge, GivenFilters, Item, Neighbor, Node, NodeSummary, NodeView, RawRecord
from fourfold.retrieval import (
    Contribution,
    Degraded,
    Explanation,
    Part,
    Plan,
    Recency,
    Result,
    SearchResponse,
    TimeWindow,
    Tuning,
)
from fourfold.validation import checked_filters

Form = Mapping[str, Any]


def similar_of(form: Sequence[Any] | None) -> tuple[int, ...]:
    """Ids; an item that was read has the near-duplicates themselves there, on request."""
    return tuple(each for each in form or () if isinstance(each, int))


def item_of(form: Form) -> Item:
    optional: dict[str, Any] = {
        name: datetime.fromisoformat(form[name]) if column.holds == "time" else form[name]
        for name, column in OPTIONAL.items()
        if form.get(name) is not None
    }
    return Item(
        id=form["id"],
        namespace=form["namespace"],
        key=form["key"],
        title=form["title"],
        text=form["content"],
        tags=tuple(form["tags"]),
        kind=form["kind"],
        metadata=form["metadata"],
        language=form["language"],
        created_at=datetime.fromisoformat(form["created_at"]),
        updated_at=datetime.fromisoformat(form["updated_at"]),
        source_ids=tuple(form["source_ids"]),
        path=form["file_path"],
        chunk_index=form["chunk_index"],
        similar=similar_of(form.get("similar")),
        **optional,
    )


def group_of(form: Form) -> DuplicateGroup:
    others = [
        (item_of(each["item"]), Similar(each["item"]["id"], each["words"], each["cosine"])) for each in form["others"]
    ]
    return DuplicateGroup(item_of(form["oldest"]), tuple(others))


def raw_of(form: Form) -> RawRecord:
    return RawRecord(
        form["id"],
        form["namespace"],
        form["content"],
        form["speaker"],
        form["session_id"],
        form["metadata"],
        datetime.fromisoformat(form["created_at"]),
        form.get("source"),
    )


def node_of(form: Form) -> Node:
    names = tuple(form["aliases"])
    return Node(form["id"], form["name"], form["label"], names, form["properties"], form["item_id"])


def edge_of(form: Form) -> Edge:
    return Edge(form["from"], form["relation"], form["to"], form["weight"])


def summary_of(form: Form) -> NodeSummary:
    return NodeSummary(**form)


def view_of(form: Form) -> NodeView:
    edges = tuple(edge_of(edge) for edge in form["edges"])
    return NodeView(node_of(form["node"]), tuple(form["items"]), tuple(form["mentions"]), edges)


def neighbor_of(form: Form) -> Neighbor:
    return Neighbor(node_of(form), form["relation"], form["distance"], form["weight"])


def explanation_of(form: Form | None) -> Explanation | None:
    if form is None:
        return None
    details = (explanation_of(detail) for detail in form["details"])
    return Explanation(form["value"], form["description"], tuple(detail for detail in details if detail is not None))


def result_of(form: Form, query: str) -> Result:
    return Result(
        item=item_of(form),
        score=form["score"],
        confidence=form["confidence"],
        query=query,
        contributions=tuple(Contribution(**line) for line in form["contributions"]),
        recency=form["recency"],
        window=form["window"],
        source_weight=form.get("source_weight", 1.0),
        outside_window=form.get("outside_window", False),
        explanation=explanation_of(form.get("explanation")),
        also_in=tuple(form.get("also_in", ())),
        graph_distance=form["graph_distance"],
        part=None if form.get("part") is None else Part(**form["part"]),
    )


def plan_of(form: Form) -> Plan:
    recency = None if form["recency"] is None else Recency(**form["recency"])
    lists = {name: tuple(form[name]) for name in ("retrievers", "matched_keywords")}
    tuning = None if form.get("tuning") is None else Tuning(**form["tuning"])
    values: dict[str, Any] = {**form, **lists, "recency": recency, "tuning": tuning}
    return Plan(**values)


def response_of(form: Form, filters: GivenFilters | None) -> SearchResponse:
    """`filters`: those of the request."""
    plan = plan_of(form["plan"])
    return SearchResponse(
        query=form["query"],
        plan=plan,
        applied_weights=form["applied_weights"],
        filters=checked_filters(filters),
        confidence=form["confidence"],
        counts={name: form[f"{name}_results_count"] for name in plan.retrievers},
        overlap=form["hints"]["overlap"],
        degraded=tuple(Degraded(**each) for each in form["degraded"]),
        notes=tuple(form["notes"]),
        timings_ms=form["timings_ms"],
        results=tuple(result_of(result, form["query"]) for result in form["results"]),
        time_window=window_of(form.get("time_window")),
    )


def window_of(form: Form | None) -> TimeWindow | None:
    if form is None:
        return None
    start, end = (None if form[name] is None else datetime.fromisoformat(form[name]) for name in ("from", "to"))
    return TimeWindow(start, end, form["words"], form["applied"], form["empty"])


def why_of(form: Form) -> Why:
    result = None if form["result"] is None else result_of(form["result"], form["query"])
    sources: Sequence[RawRecord] = tuple(raw_of(record) for record in form["sources"])
    return Why(item_of(form["item"]), form["rank"], result, tuple(form["reasons"]), tuple(sources))


def error_of(status: int, form: Form) -> FourfoldError:
    """The error that the server raised, by its name; for others, the closest one that this library has."""
    kind: Any = getattr(errors, str(form.get("type", "")).rpartition(":")[2], None)
    if not (isinstance(kind, type) and issubclass(kind, FourfoldError)):
        known: dict[int, type[FourfoldError]] = {401: errors.NoAccess, 403: errors.NoAccess, 404: errors.NotFound}
        known |= {412: errors.Conflict, 429: errors.StoreBusy}
        kind = known.get(status, errors.InvalidQuery if status < 500 else StoreUnavailable)
    return kind(str(form.get("detail", f"the server answered {status}")), str(form.get("remedy", "")))
