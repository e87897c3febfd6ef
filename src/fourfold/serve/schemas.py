"""JSON forms of Fourfold's values, for `--json`, MCP responses and exports."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from fourfold.fields import OPTIONAL
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.text.secrets import masks_in

if TYPE_CHECKING:
    from fourfold.engine.duplicates import DuplicateGroup
    from fourfold.errors import FourfoldError
    from fourfold.ingest.report import IndexReport
    from fourfold.memory import Why
    from fourfold.model import Edge, Filters, Item, Json, Neighbor, Node, NodeView, RawRecord
    from fourfold.retrieval import Contribution, Degraded, Explanation, Result, SearchResponse, TimeWindow


_SURROGATE = re.compile("[\ud800-\udfff]")


_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


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
        return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text


def time_json(time: datetime) -> str:
    """Format a time in UTC with a Z, and with microseconds if there are any."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


# ---------------------------------------------------------------- a search


def response_json(response: SearchResponse) -> dict[str, Json]:
    """Return the whole response; the order of the fields is part of the interface."""
    return {**response_facts(response), "results": [result_json(result) for result in response.results]}


def response_facts(response: SearchResponse) -> dict[str, Json]:
    """Return the fields of a response except its results."""
    plan = response.plan
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
        **{f"{name}_results_count": response.counts.get(name, 0) for name in RETRIEVERS},
        "hints": _hints_json(response),
        "degraded": [degraded_json(degraded) for degraded in response.degraded],
        "notes": list(response.notes),
        **({} if response.time_window is None else {"time_window": window_json(response.time_window)}),
        "timings_ms": {name: round(milliseconds, 3) for name, milliseconds in response.timings_ms.items()},
    }


def result_json(result: Result) -> dict[str, Json]:
    """Return a result; `explanation` is present on request, `also_in` and `part` where they apply."""
    form = {
        **item_json(result.item),
        "snippet": result.snippet,
        "score": _finite(result.score),
        "hybrid_score": _finite(result.score),
        "confidence": _finite(result.confidence),
        **_ranks_json(result.contributions),
        "graph_distance": result.graph_distance,
    }
    if result.outside_window:
        form["outside_window"] = True
    if result.part is not None:
        form["part"] = asdict(result.part)
    if result.also_in:
        form["also_in"] = list(result.also_in)
    if result.explanation is not None:
        form["explanation"] = explanation_json(result.explanation)
    return form


def window_json(window: TimeWindow) -> dict[str, Json]:
    return {
        "from": None if window.start is None else time_json(window.start),
        "to": None if window.end is None else time_json(window.end),
        "words": window.words,
        "applied": window.applied,
        "empty": window.empty,
    }


def explanation_json(explanation: Explanation) -> dict[str, Json]:
    return {
        "value": _finite(explanation.value),
        "description": explanation.description,
        "details": [explanation_json(detail) for detail in explanation.details],
    }


def degraded_json(degraded: Degraded) -> dict[str, Json]:
    return {"retriever": degraded.retriever, "reason": degraded.reason, "pending": degraded.pending}


def filters_json(filters: Filters) -> dict[str, Json]:
    """Return the fields that are set; {} if none is."""
    form: dict[str, Json] = {field.name: _value_json(getattr(filters, field.name)) for field in fields(filters)}
    form["where"] = _where_json(filters)
    return {name: value for name, value in form.items() if value not in (None, False, [])}


def _value_json(value: Json) -> Json:
    match value:
        case datetime():
            return time_json(value)
        case tuple():
            return [_value_json(part) for part in cast("tuple[Json, ...]", value)]
        case _:
            return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _where_json(filters: Filters) -> dict[str, Json] | None:
    from fourfold.filters import read_where, where_json

    condition = None if filters.where is None else read_where(filters.where)
    return None if condition is None else where_json(condition)


def why_json(why: Why, query: str) -> dict[str, Json]:
    return {
        "status": "success",
        "query": query,
        "item": item_json(why.item),
        "rank": why.rank,
        "reasons": list(why.reasons),
        "sources": [raw_json(record) for record in why.sources],
        "result": None if why.result is None else result_json(why.result),
    }


def _hints_json(response: SearchResponse) -> dict[str, int]:
    counts = response.counts
    return {
        "fts_matches": counts.get("keyword", 0),
        "semantic_matches": counts.get("semantic", 0),
        "overlap": response.overlap,
    }


def _ranks_json(contributions: Sequence[Contribution]) -> dict[str, Json]:
    by_source = {contribution.source: contribution for contribution in contributions}
    form: dict[str, Json] = {}
    for spec in RETRIEVERS.values():
        line = by_source.get(spec.name)
        form[spec.rank_field] = None if line is None else line.rank
        if spec.score_field is not None:
            form[spec.score_field] = None if line is None else _finite(line.raw)
    return form


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


# ---------------------------------------------------------------- what is stored


def item_json(item: Item) -> dict[str, Json]:
    """Return an item; `masked` is present if secrets were masked in its text."""
    kinds = dict.fromkeys((*masks_in(item.title), *masks_in(item.text)))
    return {
        "id": item.id,
        "key": item.key,
        "namespace": item.namespace,
        "title": item.title,
        "content": item.text,
        "source_ids": list(item.source_ids),
        "tags": list(item.tags),
        "kind": item.kind,
        "language": item.language,
        "metadata": dict(item.metadata),
        "created_at": time_json(item.created_at),
        "updated_at": time_json(item.updated_at),
        "file_path": item.path,
        "chunk_index": item.chunk_index,
        "location": item.location,
        **({"masked": list(kinds)} if kinds else {}),
        **{name: _value_json(value) for name in OPTIONAL if (value := getattr(item, name)) is not None},
    }


def stored_json(item: Item) -> dict[str, Json]:
    """Return an item that was just stored; `similar` lists others that say nearly the same, if there are any."""
    return {**item_json(item), **similar_json(item)}


def similar_json(item: Item) -> dict[str, Json]:
    return {"similar": list(item.similar)} if item.similar else {}


def duplicates_json(group: DuplicateGroup) -> dict[str, Json]:
    others = [
        {"item": item_json(item), "words": round(each.words, 3), "cosine": each.cosine and round(each.cosine, 3)}
        for item, each in group.others
    ]
    return {"oldest": item_json(group.oldest), "others": others}


def raw_json(record: RawRecord) -> dict[str, Json]:
    return {
        "id": record.id,
        "namespace": record.namespace,
        "content": record.content,
        "speaker": record.speaker,
        "session_id": record.session_id,
        "metadata": dict(record.metadata),
        "created_at": time_json(record.created_at),
        **({} if record.source is None else {"source": record.source}),
    }


def node_json(node: Node) -> dict[str, Json]:
    return {
        "id": node.id,
        "name": node.name,
        "label": node.label,
        "aliases": list(node.aliases),
        "properties": dict(node.properties),
        "item_id": node.item_id,
    }


def edge_json(edge: Edge) -> dict[str, Json]:
    return {"from": edge.source, "relation": edge.relation, "to": edge.target, "weight": edge.weight}


def node_view_json(view: NodeView) -> dict[str, Json]:
    return {
        "node": node_json(view.node),
        "items": list(view.items),
        "mentions": list(view.mentions),
        "edges": [edge_json(edge) for edge in view.edges],
    }


def neighbor_json(neighbor: Neighbor) -> dict[str, Json]:
    return {
        **node_json(neighbor.node),
        "relation": neighbor.relation,
        "distance": neighbor.distance,
        "weight": neighbor.weight,
    }


def index_json(report: IndexReport) -> dict[str, Json]:
    counts = ("files", "new", "changed", "moved", "removed", "unchanged", "opened", "chunks")
    reasons: dict[str, Json] = {
        name: {reason: {"count": few.count, "examples": few.examples} for reason, few in found.items()}
        for name, found in (("skipped", report.skipped), ("notes", report.notes))
    }
    return {"status": "success", **{name: getattr(report, name) for name in counts}, **reasons}


# ---------------------------------------------------------------- what went wrong


def error_json(error: FourfoldError, tool: str) -> dict[str, Json]:
    return {"status": "error", "error": error.message, "details": error.remedy, "tool": tool}
