"""Values of a search: the query, what each retriever found, the plan, and the ranked results. Frozen, without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, cast, runtime_checkable

from fourfold.frozen import value
from fourfold.hits import Hit as Hit
from fourfold.hits import Hits as Hits
from fourfold.hits import Numbers as Numbers
from fourfold.model import NO_FILTERS, Filters, Item, Vector

if TYPE_CHECKING:
    from fourfold.hits import Floats as Floats
    from fourfold.hits import Ints as Ints

FusionName = Literal["auto", "rrf", "weighted"]


# ---------------------------------------------------------------- what retrievers take and return


@value
class Query:
    """A query as retrievers see it."""

    namespace: str
    text: str
    vector: Vector | None = None
    filters: Filters = NO_FILTERS
    typed: str | None = None
    """The whole query, if `text` lacks a part that excludes something."""

    @property
    def whole(self) -> str:
        return self.text if self.typed is None else self.typed


class Background(NamedTuple):
    """Statistics of a retriever's scores over the whole namespace, against which a hit's score is judged."""

    mean: float


@value
class Ranking:
    """The result of one retriever: best first, ties by id, each id once."""

    hits: Sequence[Hit] = ()
    background: Background | None = None
    pending: int = 0
    """Number of items this retriever cannot find yet, such as those that wait for a vector."""
    notes: tuple[str, ...] = ()
    evidence: Mapping[int, float] = field(default_factory=dict[int, float])
    """Absolute evidence in 0..1 for some ids, e.g. the share of the query's rare words found in the item."""
    related: Mapping[int, float] = field(default_factory=dict[int, float])
    """Strength in 0..1 of items that the query names, and of items joined to those by a stored relation."""
    linked: Set[int] = frozenset()
    """Items to which only stored relations lead from what the query names."""
    answers: Mapping[int, float] = field(default_factory=dict[int, float])
    """Items at the other end of relations that the query asks for, with shares in 0..1."""
    names: tuple[str, ...] = ()
    """Names in the query (in normal form) that nodes have, without those that are part of a longer one."""
    unknown: float = 0.0
    """Share of the query's words, weighted by rarity, that occur in no item."""
    items: int = 0
    """Number of items ranked, listed or not; 0 if unknown."""
    code: float = 0.0
    """Share of the items that are source code, times the share of the query's words that are not identifiers."""
    foreign: float = 0.0
    """Share of the items that are in another language than the query, but have vectors that can be compared with it."""

    @staticmethod
    def of_keys(hits: Sequence[tuple[str, float]]) -> Ranking:
        """Build a ranking of item keys, best first; the search replaces the keys by ids."""
        return Ranking(cast("Sequence[Hit]", tuple(hits)))

    @cached_property
    def scores(self) -> Mapping[int, float]:
        return self.hits.by_id() if isinstance(self.hits, Hits) else dict(self.hits)


LinkKind = Literal["own", "edge", "mentions", "mentioned-by", "names"]


class Link(NamedTuple):
    """A link from a start (a node named by the query, or an item) to an item."""

    source: int
    item: int
    kind: LinkKind
    weight: float
    degree: int
    """Product of the numbers of links at both ends: a link through a hub is weak evidence."""


class Relation(NamedTuple):
    """An edge, from one of its nodes to the other."""

    node: int
    relation: str
    other: int
    weight: float
    forward: bool
    """Whether `node` is the source of the edge."""


@runtime_checkable
class Retriever(Protocol):
    """A method of ranking items. Any object with a name and this method can be injected."""

    @property
    def name(self) -> str: ...

    def search(self, query: Query, limit: int) -> Ranking: ...


@runtime_checkable
class ScoringRetriever(Retriever, Protocol):
    """A retriever that can also score items missing from its list; `auto` fusion uses these scores."""

    def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        """Score `ids` on the scale of `search`, in any order, omitting ids that have no score."""
        ...


@runtime_checkable
class ExpandingRetriever(Retriever, Protocol):
    """A retriever that can find further items from the hits of other retrievers; `auto` runs it before fusion."""

    def expand(self, query: Query, starts: Mapping[int, float], limit: int) -> Ranking:
        """Rank items reached from `starts`, which maps item ids to strengths in 0..1."""
        ...


# ---------------------------------------------------------------- plan, explanation, results


@dataclass(frozen=True, slots=True)
class Recency:
    """How age reduces a score; the formula is in `ranking/factors.py`."""

    decay: float
    """Per day."""
    floor: float = 0.3
    strength: float = 1.0
    """Share of the score that age acts on, in 0..1."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a tuned preset changes the weights that `auto` chooses; the defaults change nothing."""

    balance: float = 0.0
    """Added to the log odds of vectors against words."""
    graph: float = 1.0
    """Factor of the shares of the graph and its walk."""
    tags: float = 1.0
    """Factor of the shares of tags and shared tags."""
    name: str = ""
    """The name of the preset."""


@value
class Plan:
    """The retrievers to run, their weights, and the reason for them."""

    preset: str
    retrievers: tuple[str, ...]
    fusion: FusionName
    k: int
    top_k: int
    weights: Mapping[str, float] | None
    """None: `auto` chooses them per query."""
    fixed: Mapping[str, float] | None = None
    """Weights that `auto` does not change; it scales the weights it chooses to the semantic one."""
    recency: Recency | None = None
    query_type: Literal["standard", "relational"] = "standard"
    matched_keywords: tuple[str, ...] = ()
    if_related: Mapping[str, float] | None = None
    """Weights used if the thing asked about has relations; empty: the weights of the plan."""
    expand: bool = False
    """Whether graph and tags search from the best hits before fusion."""
    rerank: str | None = None
    """The reranker, or `auto`; None: off."""
    tuning: Tuning | None = None
    """The changes of a tuned preset, which is `auto` otherwise."""
    source_weights: Mapping[str, float] | None = None
    """Factors of scores by the source of the item; 1 for sources that are not named."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One term of a score; `value` is the amount it adds."""

    source: str
    """A retriever, `walk` or `shared` for items reached from the best hits, `relation`, `rerank`, `file name`."""
    rank: int | None
    raw: float | None
    """The retriever's own score: cosine, BM25, ..."""
    scaled: float
    """The number that the weight multiplies: 1 / (k + rank), a min-max score, ..."""
    weight: float
    value: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """A score as a tree; the details' values combine into `value` as the description says."""

    value: float
    description: str
    details: tuple[Explanation, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a long text whose vector is nearest to the query."""

    number: int
    """The number of the part, from 1."""
    count: int
    """The number of parts that have a vector."""
    start: int
    """Position in characters of the text (of the title, if the text is empty)."""
    end: int
    unread: int = 0
    """Characters at the end of the text that no vector reads, because it has more parts than a text may have."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The time that a query names, from `start` up to `end`, without the end; None: not limited on that side."""

    start: datetime | None
    end: datetime | None
    words: str
    """The part of the query that it was read from."""
    applied: Literal["filter", "boost"] | None = None
    """None: the query names a time, but does not ask for what was said or happened then."""
    empty: bool = False
    """Whether nothing was found in it; the results are then the nearest ones outside."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """A retriever that failed, or that could not see all items."""

    retriever: str
    reason: str
    pending: int = 0


@value
class Result:
    item: Item
    score: float
    confidence: float
    query: str
    contributions: Sequence[Contribution]
    recency: float = 1.0
    explanation: Explanation | None = None
    also_in: tuple[str, ...] = ()
    """Locations of the same text in other files, which are left out of the results."""
    window: float = 1.0
    """The factor of the time window, by which the score is multiplied as by `recency`."""
    outside_window: bool = False
    """Whether the item lies outside of the time that the query names."""
    graph_distance: int | None = None
    """Steps from what the query names: 0 for its own items, 1 over a relation or mention; None if not connected."""
    part: Part | None = None
    """The part that is nearest by meaning; None if the item has a single vector."""
    source_weight: float = 1.0
    """The factor of the item's source."""

    def __repr__(self) -> str:
        return f"Result({self.score:.4f}, confidence {self.confidence:.2f}, {self.item!r})"

    @property
    def factors(self) -> Mapping[str, float]:
        """What the sum of the contributions is multiplied by, in this order; factors of 1 are left out."""
        named = {
            "recency factor": self.recency,
            "factor for the time outside of the window": self.window,
            f"weight of the source {self.item.source or 'unknown'}": self.source_weight,
        }
        return {name: factor for name, factor in named.items() if factor != 1}

    @property
    def id(self) -> int:
        return self.item.id

    @property
    def key(self) -> str | None:
        return self.item.key

    @cached_property
    def snippet(self) -> str:
        """The passage of the text that best matches the query, with the query's words in bold."""
        from fourfold.text.snippets import WIDTH

        return self.excerpt(WIDTH)

    def excerpt(self, width: int) -> str:
        """Return a snippet of about `width` characters."""
        from fourfold.text.analysis import words_of_query
        from fourfold.text.snippets import snippet

        language = self.item.language
        words = words_of_query(self.query, language)
        return snippet(self.item.text or self.item.title, words, language, width, self.passage)

    @property
    def passage(self) -> tuple[int, int] | None:
        """The range in which a snippet is searched: the nearest part, if vectors decide; None: the whole text."""
        values = {line.source: line.value for line in self.contributions}
        if self.part is None or values.get("semantic", 0.0) <= values.get("keyword", 0.0):
            return None
        return self.part.start, self.part.end


@dataclass(frozen=True, slots=True)
class Candidates:
    """The inputs of fusion, for callers that want to try other weights themselves."""

    lists: Mapping[str, Ranking]
    """The lists by retriever and expansion (`walk`, `shared`)."""
    unlisted: Mapping[str, Ranking]
    """Scores of a retriever for items that only others listed."""
    weights: Mapping[str, float]
    """The weight of each list, as applied."""
    scaled: Mapping[str, Mapping[int, float]]
    """The number that the weight multiplies, by list and item."""
    recency: Mapping[int, float]
    """The recency factor by item; empty if the plan has no recency."""
    windows: Mapping[int, float]
    """The factor of the time window by item; empty if the query names none."""
    ages: Mapping[int, float]
    """The recency factor at strength 1 by item, whatever the plan; `ranking/factors.py` has the formula."""
    files: Mapping[str, Sequence[int]]
    """Files that the query names, with their chunks: the best chunk of each is ranked first."""
    items: Mapping[int, Item]
    """Every item of the lists."""
    order: Sequence[Hit]
    """The fused ranking, before `per_source` and `min_confidence`."""


@value
class SearchResponse:
    query: str
    plan: Plan
    applied_weights: Mapping[str, float]
    filters: Filters
    confidence: float
    counts: Mapping[str, int]
    """Length of each retriever's list."""
    overlap: int
    """Number of items listed by both semantic and keyword search."""
    degraded: tuple[Degraded, ...]
    notes: tuple[str, ...]
    timings_ms: Mapping[str, float]
    results: tuple[Result, ...]
    candidates: Candidates | None = None
    """On request, for one namespace."""
    time_window: TimeWindow | None = None

    def __repr__(self) -> str:
        """One line for each result: score, confidence, id and the beginning of the item."""
        lines = [f"SearchResponse({self.query!r}, confidence {self.confidence:.2f}, {len(self.results)} results)"]
        lines += (
            f"{each.score:8.4f}  {each.confidence:.2f}  [{each.item.id}] {each.item.summary}" for each in self.results
        )
        return "\n".join(lines + [f"degraded: {each.retriever}: {each.reason}" for each in self.degraded])
