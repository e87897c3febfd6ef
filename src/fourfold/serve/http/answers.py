"""Models of answers for the OpenAPI document; tests validate real answers against them."""

# No `from __future__ import annotations`: pydantic reads these annotations when the module is loaded.

from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from fourfold.fields import OPTIONAL
from fourfold.ranking.retrievers import RETRIEVERS

Metadata = dict[str, Any]
M = TypeVar("M", bound=BaseModel)


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Problem(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    remedy: str


def _with_optional(model: type[M]) -> type[M]:
    """Adds the fields that an item may have."""
    fields: dict[str, Any] = {
        name: (int | None if column.holds == "number" else str | None, Field(None, exclude=True))
        for name, column in OPTIONAL.items()
    }
    return create_model(model.__name__, __base__=model, **fields)


@_with_optional
class ItemAnswer(Answer):
    id: int
    key: str | None
    namespace: str
    title: str
    content: str
    source_ids: list[int]
    tags: list[str]
    kind: str | None
    language: str
    metadata: Metadata
    created_at: str
    updated_at: str
    file_path: str | None
    chunk_index: int | None
    location: str | None
    masked: list[str] | None = Field(None, exclude=True, description="Kinds of the secrets that were masked.")


class RawAnswer(Answer):
    id: int
    namespace: str
    content: str
    speaker: str | None
    session_id: str | None
    metadata: Metadata
    created_at: str
    source: str | None = Field(None, exclude=True)


class NodeSummaryAnswer(Answer):
    name: str
    label: str
    items: int
    mentions: int
    edges: int


class StoredAnswer(ItemAnswer):
    similar: list[int] | None = Field(None, exclude=True, description="Items that say nearly the same; none is merged.")


class SimilarAnswer(Answer):
    id: int
    words: float
    cosine: float | None


class ItemView(ItemAnswer):
    chunks: list[ItemAnswer] | None = Field(None, exclude=True)
    sources: list[RawAnswer] | None = Field(None, exclude=True)
    vector: Literal["ready", "pending"] | None = Field(None, exclude=True)
    nodes: list[NodeSummaryAnswer] | None = Field(None, exclude=True)
    history: list[ItemAnswer] | None = Field(None, exclude=True)
    similar: list[SimilarAnswer] | None = Field(None, exclude=True)


class ItemsAnswer(Answer):
    items: list[ItemAnswer]
    total: int
    next_cursor: str | None
    notes: list[str]


class ItemListAnswer(Answer):
    items: list[ItemAnswer]


class DeletedAnswer(Answer):
    matched: int
    deleted: int
    dry_run: bool


class ContributionAnswer(Answer):
    source: str
    rank: int | None
    raw: float | None
    scaled: float
    weight: float
    value: float


class ExplanationAnswer(Answer):
    value: float | None
    description: str
    details: list["ExplanationAnswer"]


class DegradedAnswer(Answer):
    retriever: str
    reason: str
    pending: int


class PlanAnswer(Answer):
    preset: str
    retrievers: list[str]
    fusion: str
    k: int
    top_k: int
    weights: dict[str, float] | None
    fixed: dict[str, float] | None
    recency: dict[str, float] | None
    query_type: str
    matched_keywords: list[str]
    if_related: dict[str, float] | None
    expand: bool
    rerank: str | None
    tuning: dict[str, Any] | None
    source_weights: dict[str, float] | None


_RANKS: Final[dict[str, Any]] = {spec.rank_field: (int | None, None) for spec in RETRIEVERS.values()} | {
    spec.score_field: (float | None, None) for spec in RETRIEVERS.values() if spec.score_field is not None
}


class PartAnswer(Answer):
    number: int = Field(description="From 1.")
    count: int = Field(description="Of the parts that have a vector.")
    start: int = Field(description="In characters of the text.")
    end: int
    unread: int = Field(description="Characters at the end of the text that no vector reads.")


class _Result(ItemAnswer):
    content: str | None = Field(None, description="Left out on request, or by budget_tokens.")  # type: ignore[assignment]
    metadata: Metadata | None = None  # type: ignore[assignment]
    snippet: str
    score: float | None
    hybrid_score: float | None
    confidence: float | None
    graph_distance: int | None
    recency: float
    window: float = Field(description="The factor of the time window.")
    source_weight: float = Field(description="The factor of the item's source.")
    outside_window: bool = False
    part: PartAnswer | None = Field(None, description="Of a text with several vectors, the one nearest by meaning.")
    contributions: list[ContributionAnswer]
    also_in: list[str] = Field([])
    explanation: ExplanationAnswer | None = None


ResultAnswer: Final = create_model("ResultAnswer", __base__=_Result, **_RANKS)


class CandidateList(Answer):
    weight: float = Field(description="As applied; 0 if the list did not take part.")
    mean: float | None = Field(description="The average cosine of the namespace, for vector search.")
    hits: list[list[float | None]] = Field(description="[id, raw score, rank, scaled], best first.")
    unlisted: list[list[float | None]] = Field(description="The same for items that only other lists have.")


class CandidateItem(Answer):
    id: int
    key: str | None
    title: str
    kind: str | None
    language: str
    tags: list[str]
    location: str | None
    created_at: str
    updated_at: str
    recency: float
    age: float = Field(description="The recency factor at strength 1.")
    window: float = Field(description="The factor of the time window.")
    source: str | None
    file_path: str | None
    text_hash: str | None = Field(description="Equal for chunks of files with the same text.")


class CandidatesAnswer(Answer):
    lists: dict[str, CandidateList]
    items: list[CandidateItem]
    files: dict[str, list[int]] = Field(description="Files that the query names: their best chunks come first.")
    order: list[list[float]] = Field(description="[id, score]: the fused ranking, before per_source.")


_COUNTS: Final[dict[str, Any]] = {f"{name}_results_count": (int, 0) for name in RETRIEVERS}


class TimeWindowAnswer(Answer):
    """The time that the query names, excluding its end; null: unlimited on that side."""

    from_: str | None = Field(alias="from")
    to: str | None
    words: str
    applied: Literal["filter", "boost"] | None
    empty: bool = Field(description="Nothing was found in it: results are the nearest outside.")


class _Search(Answer):
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
    confidence: float | None
    hints: dict[str, int]
    degraded: list[DegradedAnswer]
    notes: list[str]
    time_window: TimeWindowAnswer | None = None
    timings_ms: dict[str, float]
    plan: PlanAnswer
    results: list[ResultAnswer]  # type: ignore[valid-type]
    candidates: CandidatesAnswer | None = None


SearchAnswer: Final = create_model("SearchAnswer", __base__=_Search, **_COUNTS)


class WhyAnswer(Answer):
    status: str
    query: str
    item: ItemAnswer
    rank: int | None
    reasons: list[str]
    sources: list[RawAnswer]
    result: ResultAnswer | None  # type: ignore[valid-type]


class WordAnswer(Answer):
    surface: str
    stems: list[str]
    compounds: list[str]
    weight: float
    share: float
    corrections: list[str]


class CountAnswer(Answer):
    name: str
    items: int


class NegatedAnswer(Answer):
    text: str
    words: list[str]


class AnalysisAnswer(Answer):
    query: str
    language: str
    words: list[WordAnswer]
    names: list[NodeSummaryAnswer]
    tags: list[CountAnswer]
    plan: PlanAnswer
    time_window: TimeWindowAnswer | None
    notes: list[str]
    negated: list[NegatedAnswer]


class CountsAnswer(Answer):
    """Names with the number of their items, the commonest first."""

    counts: list[CountAnswer]
    total: int
    next_cursor: str | None


class FacetsAnswer(Answer):
    items: int
    tags: list[CountAnswer]
    kinds: list[CountAnswer]
    languages: list[CountAnswer]
    metadata_keys: list[CountAnswer]


class RawsAnswer(Answer):
    raw: list[RawAnswer]
    total: int
    next_cursor: str | None


class NamespacesAnswer(Answer):
    namespaces: list[CountAnswer]


class StatusAnswer(BaseModel):
    """Contents of the store; the fields depend on the kind of store."""

    version: str
    namespace: str
    namespaces: dict[str, dict[str, Any]]


class LiveAnswer(Answer):
    status: str
    version: str


class ImportedAnswer(Answer):
    items: int
    raw: int
    nodes: int
    edges: int


class JudgementAnswer(Answer):
    query: str
    item: int | str = Field(description="An id, or key:K.")
    relevance: int


class JudgementsAnswer(Answer):
    judgements: list[JudgementAnswer]


class QuestionAnswer(Answer):
    query: str
    scores: dict[str, float]
    ranked: list[str]
    confidence: float


class EvaluationAnswer(Answer):
    queries: int
    metrics: dict[str, float]
    latency_ms: dict[str, float]
    questions: list[QuestionAnswer]
