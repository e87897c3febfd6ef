"""The JSON forms of Fourfold's values: what `--json` prints, MCP tools answer and exports hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fourfold.model import RETRIEVERS

if TYPE_CHECKING:
    from fourfold.errors import FourfoldError
    from fourfold.ingest.report import IndexReport
    from fourfold.memory import Why
    from fourfold.model import (
        Contribution,
        Degraded,
        Edge,
        Explanation,
        Filters,
        Item,
        Json,
        Neighbor,
        Node,
        NodeView,
        RawRecord,
        Result,
        SearchResponse,
    )


_HALF_A_PAIR = re.compile("[\ud800-\udfff]")


def dumps(value: Json) -> str:
    """One line of strict JSON: never NaN or Infinity, which no other parser reads, nor what no UTF-8 can hold."""
    return _encodable(json.dumps(value, ensure_ascii=False, allow_nan=False))


def compact(value: Json) -> str:
    """The same without spaces between values, for readers that pay by the token."""
    return _encodable(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def _encodable(text: str) -> str:
    return _HALF_A_PAIR.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def time_json(moment: datetime) -> str:
    """UTC with a Z; microseconds only where there are any."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


# ---------------------------------------------------------------- a search


def response_json(response: SearchResponse) -> dict[str, Json]:
    """The response of the specification, field by field and in its order."""
    return {**response_facts(response), "results": [result_json(result) for result in response.results]}


def response_facts(response: SearchResponse) -> dict[str, Json]:
    """The fields of a response beside its results."""
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
        "timings_ms": {name: round(milliseconds, 3) for name, milliseconds in response.timings_ms.items()},
    }


def result_json(result: Result) -> dict[str, Json]:
    """The explanation is there only if it was asked for, `also_in` only if other files have the same text."""
    form = {
        **item_json(result.item),
        "snippet": result.snippet,
        "score": _finite(result.score),
        "hybrid_score": _finite(result.score),
        "confidence": _finite(result.confidence),
        **_ranks_json(result.contributions),
        "graph_distance": result.graph_distance,
    }
    if result.also_in:
        form["also_in"] = list(result.also_in)
    if result.explanation is not None:
        form["explanation"] = explanation_json(result.explanation)
    return form


def explanation_json(explanation: Explanation) -> dict[str, Json]:
    return {
        "value": _finite(explanation.value),
        "description": explanation.description,
        "details": [explanation_json(detail) for detail in explanation.details],
    }


def degraded_json(degraded: Degraded) -> dict[str, Json]:
    return {"retriever": degraded.retriever, "reason": degraded.reason, "pending": degraded.pending}


def filters_json(filters: Filters) -> dict[str, Json]:
    """Only what was asked for; {} if nothing was."""
    form: dict[str, Json] = {
        "tags": list(filters.tags),
        "any_tag": filters.any_tag,
        "created_from": filters.created_from and time_json(filters.created_from),
        "created_to": filters.created_to and time_json(filters.created_to),
        "kind": filters.kind,
        "language": filters.language,
        "path": filters.path,
        "metadata": [{"key": test.key, "op": test.op, "value": test.value} for test in filters.metadata],
        "where": _where_json(filters),
    }
    return {name: value for name, value in form.items() if value not in (None, False, [])}


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
    rank = {name: by_source[name].rank if name in by_source else None for name in RETRIEVERS}
    raw = {name: _finite(by_source[name].raw) if name in by_source else None for name in RETRIEVERS}
    return {
        "semantic_rank": rank["semantic"],
        "semantic_similarity": raw["semantic"],
        "fts_rank": rank["keyword"],
        "fts_score": raw["keyword"],
        "graph_rank": rank["graph"],
        "graph_score": raw["graph"],
        "tags_rank": rank["tags"],
    }


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


# ---------------------------------------------------------------- what is stored


def item_json(item: Item) -> dict[str, Json]:
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
    }


def raw_json(record: RawRecord) -> dict[str, Json]:
    return {
        "id": record.id,
        "namespace": record.namespace,
        "content": record.content,
        "speaker": record.speaker,
        "session_id": record.session_id,
        "metadata": dict(record.metadata),
        "created_at": time_json(record.created_at),
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
