"""What the tools answer, as the schemas that clients see. The values come from `fourfold.wire`."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict  # pydantic cannot read those of `typing` before Python 3.12


class Hints(TypedDict):
    fts_matches: int
    semantic_matches: int
    overlap: int


class Lack(TypedDict):
    retriever: str
    reason: str
    pending: int


class MemoryItem(TypedDict):
    id: int
    key: str | None
    namespace: str
    title: str
    content: str
    source_ids: list[int]
    tags: list[str]
    kind: str | None
    language: str
    metadata: dict[str, Any]
    created_at: str
    updated_at: str
    file_path: str | None
    chunk_index: int | None


class FoundItem(MemoryItem):
    snippet: str
    score: float
    hybrid_score: float
    confidence: float
    semantic_rank: int | None
    semantic_similarity: float | None
    fts_rank: int | None
    fts_score: float | None
    graph_rank: int | None
    tags_rank: int | None
    truncated: bool
    explanation: NotRequired[dict[str, Any]]


class SearchAnswer(TypedDict):
    status: str
    query: str
    method: str
    preset: str
    fusion_strategy: str
    k: int
    query_type: str
    matched_keywords: list[str]
    applied_weights: dict[str, float]
    applied_filters: dict[str, Any]
    confidence: float
    semantic_results_count: int
    keyword_results_count: int
    graph_results_count: int
    tags_results_count: int
    hints: Hints
    degraded: list[Lack]
    notes: list[str]
    timings_ms: dict[str, float]
    results: list[FoundItem]


class PageAnswer(SearchAnswer):
    page: int
    page_size: int


class ItemAnswer(TypedDict):
    status: str
    item: MemoryItem


class ItemsAnswer(TypedDict):
    status: str
    items: list[MemoryItem]


class DeletedAnswer(TypedDict):
    status: str
    deleted: int


class LinkAnswer(TypedDict):
    status: str
    source: str
    relation: str
    target: str
    weight: float


class NodeForm(TypedDict):
    id: int
    name: str
    label: str
    aliases: list[str]
    properties: dict[str, Any]
    item_id: int | None


class NodeAnswer(TypedDict):
    status: str
    node: NodeForm


class NeighborForm(NodeForm):
    relation: str
    distance: int
    weight: float


class NeighborsAnswer(TypedDict):
    status: str
    neighbors: list[NeighborForm]


class PathAnswer(TypedDict):
    status: str
    found: bool
    edges: list[dict[str, Any]]


class RawForm(TypedDict):
    id: int
    namespace: str
    content: str
    speaker: str | None
    session_id: str | None
    metadata: dict[str, Any]
    created_at: str


class RawAnswer(TypedDict):
    status: str
    raw: RawForm


class WhyAnswer(TypedDict):
    status: str
    query: str
    item: MemoryItem
    rank: int | None
    reasons: list[str]
    result: dict[str, Any] | None


class StatusAnswer(TypedDict):
    status: str
    store: dict[str, Any]
