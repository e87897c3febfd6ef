"""The values that flow through Fourfold: frozen, plain, free of I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
    runtime_checkable,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fourfold.filters import Condition, Where

    Vector: TypeAlias = NDArray[np.float32]
    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]

T = TypeVar("T")

Json: TypeAlias = Any
"""What json.loads gives."""

RetrieverName = Literal["semantic", "keyword", "graph", "tags"]
FusionName = Literal["auto", "rrf", "weighted"]

RETRIEVERS: tuple[RetrieverName, ...] = ("semantic", "keyword", "graph", "tags")


# ---------------------------------------------------------------- what is stored


@dataclass(frozen=True, slots=True)
class NewItem:
    """What a caller asks to store. Identity: `key`, else `path` + `chunk_index`, else the text itself (B10)."""

    text: str = ""
    title: str = ""
    key: str | None = None
    tags: tuple[str, ...] = ()
    kind: str | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    language: str | None = None
    """ISO 639-1; detected when None."""
    created_at: datetime | None = None
    source_ids: tuple[int, ...] = ()
    path: str | None = None
    chunk_index: int | None = None
    vector: Sequence[float] | Vector | None = None


@dataclass(frozen=True, slots=True)
class Item:
    id: int
    namespace: str
    key: str | None
    title: str
    text: str
    tags: tuple[str, ...]
    kind: str | None
    metadata: Mapping[str, Json]
    language: str
    created_at: datetime
    updated_at: datetime
    """Moves with the text only."""
    source_ids: tuple[int, ...]
    path: str | None
    chunk_index: int | None

    @property
    def location(self) -> str | None:
        """Where the text stands in its file: `path:line`, `path#page=3` for a page of a PDF. None without a file."""
        line, page = self.metadata.get("line"), self.metadata.get("page")
        if self.path is None or not (line or page):
            return self.path
        return f"{self.path}:{line}" if line else f"{self.path}#page={page}"


@dataclass(frozen=True, slots=True)
class ItemPatch:
    """A change to one item; None leaves a field as it is."""

    text: str | None = None
    title: str | None = None
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    metadata: Mapping[str, Json] | None = None
    """Merged key by key; a key set to None is removed."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """An original (dialogue turn, page, file) that items point back to through `source_ids`."""

    id: int
    namespace: str
    content: str
    speaker: str | None
    session_id: str | None
    metadata: Mapping[str, Json]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    name: str
    label: str
    aliases: tuple[str, ...]
    properties: Mapping[str, Json]
    item_id: int | None


@dataclass(frozen=True, slots=True)
class Edge:
    source: str
    relation: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A node in a list, with how much hangs on it."""

    name: str
    label: str
    items: int
    """Items that are about it: its title or a heading is the name, or they were attached."""
    mentions: int
    """Items whose text names it."""
    edges: int


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with all that hangs on it: ids of items, oldest first, and edges, heaviest first."""

    node: Node
    items: tuple[int, ...]
    mentions: tuple[int, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A node reached from another: over which relation, at what distance, with what product of weights."""

    node: Node
    relation: str
    distance: int
    weight: float


class Page(list[T]):
    """Some rows of a longer list."""

    def __init__(self, rows: Iterable[T], total: int, offset: int = 0) -> None:
        super().__init__(rows)
        self.total = total
        """How many rows the whole list has."""
        self.offset = offset

    @property
    def has_more(self) -> bool:
        return self.offset + len(self) < self.total


@dataclass(frozen=True, slots=True)
class MetadataTest:
    key: str
    """Nested keys are joined by dots: `author.name`; a key that contains a dot is quoted: `"a.b"`."""
    op: Literal["eq", "ne", "in", "not in", "lt", "lte", "gt", "gte", "exists"]
    value: Json


@dataclass(frozen=True)
class Filters:
    """What an item must satisfy, inside every retriever (B5). Empty fields ask for nothing."""

    tags: tuple[str, ...] = ()
    any_tag: bool = False
    created_from: datetime | None = None
    created_to: datetime | None = None
    kind: str | None = None
    language: str | None = None
    path: str | None = None
    """A glob: `*` within a folder, `**` across folders, `?` one character."""
    metadata: tuple[MetadataTest, ...] = ()
    where: Where | None = None
    """A condition as text, `line >= 10 and kind != code`, or as a mapping, {"line": {"gte": 10}}."""

    @cached_property
    def condition(self) -> Condition | None:
        """All fields as one condition, which stores evaluate; None if nothing is asked."""
        from fourfold.filters.given import condition_of

        return condition_of(self)


NO_FILTERS = Filters()

GivenFilters: TypeAlias = Filters | Mapping[str, Json] | str
"""Filters as callers give them: with fields, or a condition alone, as a mapping or as text."""


# ---------------------------------------------------------------- what is asked and found


@dataclass(frozen=True, slots=True)
class Query:
    """One question as a retriever sees it."""

    namespace: str
    text: str
    vector: Vector | None = None
    filters: Filters = NO_FILTERS


class Hit(NamedTuple):
    id: int
    score: float


class Hits(Sequence[Hit]):
    """Hits as two columns, on which rankings are made; a hit is made when somebody asks for it."""

    __slots__ = ("ids", "scores")

    def __init__(self, ids: Ints, scores: Floats) -> None:
        self.ids = ids
        self.scores = scores

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hit]:
        return map(Hit, self.ids.tolist(), self.scores.tolist())

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Hits: ...
    def __getitem__(self, index: int | slice) -> Hit | Hits:
        if isinstance(index, slice):
            return Hits(self.ids[index], self.scores[index])
        return Hit(int(self.ids[index]), float(self.scores[index]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(cast("Sequence[object]", other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Hits({list(self)!r})"

    def by_id(self) -> dict[int, float]:
        return dict(zip(self.ids.tolist(), self.scores.tolist(), strict=True))


class Background(NamedTuple):
    """A retriever's scores over the whole store for this query: what a hit has to stand out from."""

    mean: float


@dataclass(frozen=True)
class Ranking:
    """What one retriever found: best first, ties by id, each id once."""

    hits: Sequence[Hit] = ()
    background: Background | None = None
    pending: int = 0
    """Items that this retriever cannot see yet."""
    notes: tuple[str, ...] = ()
    evidence: Mapping[int, float] = field(default_factory=dict[int, float])
    """Absolute evidence in 0..1 for some ids, e.g. the share of the query's rare words found (B14)."""
    related: Mapping[int, float] = field(default_factory=dict[int, float])
    """In 0..1, for the items that the query names and those that a stored relation joins to one (C2)."""
    relations: int = 0
    """How many stored relations lead to items from what the query spells as a name (C3)."""
    unknown: float = 0.0
    """Share of the query's words, by their rarity, that no item of the store has."""
    items: int = 0
    """How many items were ranked, listed or not; 0: not known."""

    @classmethod
    def of_keys(cls, hits: Sequence[tuple[str, float]]) -> Ranking:
        """A ranking by the keys of items, best first; the search replaces them by ids."""
        return cls(cast("Sequence[Hit]", tuple(hits)))

    @cached_property
    def scores(self) -> Mapping[int, float]:
        return self.hits.by_id() if isinstance(self.hits, Hits) else dict(self.hits)


@runtime_checkable
class Retriever(Protocol):
    """One way to rank items. Anything with a name and this method can be injected (S2.1)."""

    @property
    def name(self) -> str: ...

    async def search(self, query: Query, limit: int) -> Ranking: ...


@runtime_checkable
class ScoringRetriever(Retriever, Protocol):
    """A retriever that can also score items it did not list; `auto` fuses these true scores."""

    async def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        """Scores on the scale of `search`, in any order, for those of `ids` that have one; the others are left out."""
        ...


@runtime_checkable
class ExpandingRetriever(Retriever, Protocol):
    """A retriever that can go on from what others found: `auto` lets it before fusion."""

    async def expand(self, query: Query, seeds: Mapping[int, float], limit: int) -> Ranking:
        """`seeds`: items with their strength in 0..1."""
        ...


@dataclass(frozen=True, slots=True)
class Recency:
    """How much age takes from a score; see `search/recency.py` for the formula."""

    decay: float
    """Per day."""
    floor: float = 0.3
    strength: float = 1.0
    """The share of the score that age acts on; 1 is all of it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which retrievers run, with what weights, and why."""

    preset: str
    retrievers: tuple[RetrieverName, ...]
    fusion: FusionName
    k: int
    top_k: int
    weights: Mapping[str, float] | None
    """None: `auto` chooses per query."""
    fixed: Mapping[str, float] | None = None
    """Weights that `auto` keeps as they are; it scales those that it chooses to that of semantic."""
    recency: Recency | None = None
    query_type: Literal["standard", "relational"] = "standard"
    matched_keywords: tuple[str, ...] = ()
    if_related: Mapping[str, float] | None = None
    """The weights for a question about something that turns out to have relations; empty: those of the plan."""
    expand: bool = False
    """Graph and tags go on from the best hits before fusion."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One line of a score: `value` is what it adds."""

    source: str
    """semantic, keyword, graph, tags, or what graph and tags reach from the best hits: `walk`, `shared`."""
    rank: int | None
    raw: float | None
    """The retriever's own score: cosine, BM25, ..."""
    scaled: float
    """What was weighted: 1 / (k + rank), a min-max score, ..."""
    weight: float
    value: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """A score as a tree: the values of the details make the value."""

    value: float
    description: str
    details: tuple[Explanation, ...] = ()


@dataclass(frozen=True, slots=True)
class Degraded:
    retriever: str
    reason: str
    pending: int = 0


@dataclass(frozen=True)
class Result:
    item: Item
    score: float
    confidence: float
    query: str
    contributions: tuple[Contribution, ...]
    recency: float = 1.0
    explanation: Explanation | None = None
    also_in: tuple[str, ...] = ()
    """Locations of the same text in other files; these are no results of their own."""
    graph_distance: int | None = None
    """Steps from what the query names: 0 for its own items, 1 over a relation or mention. None: not found that way."""

    @property
    def id(self) -> int:
        return self.item.id

    @property
    def key(self) -> str | None:
        return self.item.key

    @cached_property
    def snippet(self) -> str:
        """The part of the text that answers the query, its words marked; made when it is first asked for."""
        from fourfold.text.snippets import WIDTH

        return self.excerpt(WIDTH)

    def excerpt(self, width: int) -> str:
        """A snippet of about this many characters."""
        from fourfold.text.analysis import query_words
        from fourfold.text.snippets import snippet

        language = self.item.language
        return snippet(self.item.text or self.item.title, query_words(self.query, (language,)), language, width)


@dataclass(frozen=True, slots=True)
class SearchResponse:
    query: str
    plan: Plan
    applied_weights: Mapping[str, float]
    filters: Filters
    confidence: float
    counts: Mapping[str, int]
    """Length of each retriever's list."""
    overlap: int
    """Items that both semantic and keyword listed."""
    degraded: tuple[Degraded, ...]
    notes: tuple[str, ...]
    timings_ms: Mapping[str, float]
    results: tuple[Result, ...]
