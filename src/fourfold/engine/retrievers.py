"""The built-in retrievers, and how each is made from a snapshot.

`register` adds one: a description and a class are all that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fourfold.model import Filters, Vector
from fourfold.ranking import connections
from fourfold.ranking.fusion import NO_HITS
from fourfold.ranking.questions import answering_nodes, is_question
from fourfold.ranking.retrievers import RetrieverSpec, register_spec, unregister_spec
from fourfold.retrieval import Query, Ranking, Retriever
from fourfold.storage.protocols import Snapshot, Tags, Vectors, Words
from fourfold.storage.values import TagUse
from fourfold.text.entities import query_names, spelled_names
from fourfold.text.fold import folded_words
from fourfold.text.language import stop_words

if TYPE_CHECKING:
    from fourfold.storage.sql.graph import GraphReader

_NOTHING: Final = Ranking(NO_HITS)


@dataclass(eq=False)
class SemanticRetriever:
    """By meaning: cosine between the vector of the query and those of the items."""

    name = "semantic"
    reads_snapshot = True

    _vectors: Vectors

    def search(self, query: Query, limit: int) -> Ranking:
        return Ranking() if query.vector is None else nearest(self._vectors, query.vector, limit, query.filters)

    def begin(self, query: Query, limit: int) -> Callable[[], Ranking]:
        """Starts the search; the returned function waits for its result."""
        return Ranking if query.vector is None else self._vectors.begin_nearest(query.vector, limit, query.filters)

    def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        return Ranking() if query.vector is None else self._vectors.cosines(query.vector, ids)


def nearest(vectors: Vectors, vector: Vector, limit: int, filters: Filters) -> Ranking:
    """The nearest items, for a caller that has nothing else to do meanwhile."""
    search: Callable[[Vector, int, Filters], Ranking] | None = getattr(vectors, "nearest", None)
    return vectors.begin_nearest(vector, limit, filters)() if search is None else search(vector, limit, filters)


@dataclass(eq=False)
class KeywordRetriever:
    """By words: BM25 over analysed text."""

    name = "keyword"
    reads_snapshot = True

    _words: Words

    def search(self, query: Query, limit: int) -> Ranking:
        return self._words.match(query.text, limit, query.filters)

    def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        return self._words.scores(query.text, ids)


class GraphRetriever:
    """By relations: what the query names, and what is connected with that."""

    name = "graph"
    reads_snapshot = True

    def __init__(self, graph: GraphReader[Any]) -> None:
        self._graph = graph
        self._named: Mapping[int, float] = {}

    def search(self, query: Query, limit: int) -> Ranking:
        """`evidence`: the items that the query names, by how surely it means them."""
        names = query_names(query.text)
        by_name = self._graph.named(names)
        if not by_name:
            return _NOTHING
        named = tuple(connections.longest_names(by_name, names))
        longest = {node for name in named for node in by_name[name]}
        links = self._graph.node_links(sorted(longest), query.filters)
        sure = connections.longest_named(by_name, spelled_names(query.text))
        strengths = {link.source: 1.0 if link.source in sure else connections.PERHAPS for link in links}
        self._named = connections.named_items(strengths, links)
        means = {name: longest.intersection(nodes) for name, nodes in by_name.items()}
        answering = answering_nodes(query.text, means, self._graph.relations)
        around = self._graph.node_links(sorted(answering), query.filters) if answering else ()
        answers = connections.answering_items(answering, around, self._named)
        hits = connections.rank_by_links(strengths, connections.unless_asked(links, answers), limit)
        return Ranking(
            hits,
            evidence=self._named,
            related=connections.related_items(strengths, links),
            linked=connections.only_linked(links),
            answers=answers,
            names=named,
        )

    def expand(self, query: Query, starts: Mapping[int, float], limit: int) -> Ranking:
        """One hop from what the query names and from the best hits of other retrievers."""
        factor = connections.mention_factor(self._named, asks=is_question(query.whole))
        return Ranking(self._graph.walk(starts, query.filters, limit, factor))


_STOP_WORDS: Final = stop_words("en") | stop_words("de")
_JOINTS: Final = ("-", " ", "_")


@dataclass(eq=False)
class TagRetriever:
    """By tags: words of the query that are tags rank the items that carry them."""

    name = "tags"
    reads_snapshot = True

    _tags: Tags

    def search(self, query: Query, limit: int) -> Ranking:
        carried = self._tags.uses(tag_candidates(query.text), query.filters, limit)
        if not carried:
            return _NOTHING
        hits = connections.rank_by_tags(carried, limit)
        covered = coverage(query.text, carried)
        return Ranking(hits, evidence={item: covered[item] for item in hits.ids.tolist()})

    def expand(self, query: Query, starts: Mapping[int, float], limit: int) -> Ranking:
        """Items that carry the same tags as the best hits of other retrievers."""
        return Ranking(self._tags.rank_shared(starts, query.filters, limit))


def tag_candidates(text: str) -> list[str]:
    """The tags that a query may name: words of it, and adjacent words joined."""
    spelled = folded_words(text)
    single = [word for word in spelled if word not in _STOP_WORDS]
    pairs, triples = list(pairwise(spelled)), list(zip(spelled, spelled[1:], spelled[2:], strict=False))
    joined = [joint.join(words) for words in (*pairs, *triples) for joint in _JOINTS]
    return list(dict.fromkeys(single + joined))


def coverage(text: str, carried: Sequence[TagUse]) -> dict[int, float]:
    """By item, the share of the query's words that its tags say."""
    words = set(folded_words(text))
    words = words - _STOP_WORDS or words
    spelled = {tag: folded_words(tag) for tag in {use.tag for use in carried}}
    said: dict[int, set[str]] = {}
    for use in carried:
        said.setdefault(use.item, set()).update(spelled[use.tag])
    return {item: len(words & tags) / len(words) for item, tags in said.items()}


# ---------------------------------------------------------------- registry

Factory: TypeAlias = Callable[[Snapshot], Retriever]

FACTORIES: Final[dict[str, Factory]] = {
    "semantic": lambda snapshot: SemanticRetriever(snapshot.vectors),
    "keyword": lambda snapshot: KeywordRetriever(snapshot.words),
    "graph": lambda snapshot: GraphRetriever(snapshot.graph),
    "tags": lambda snapshot: TagRetriever(snapshot.tags),
}
"""By the name of the description; made for each search, inside its snapshot."""


def register(spec: RetrieverSpec, make: Factory) -> None:
    """Makes a retriever part of every search, of weights and `only`, JSON, tables, help texts and tool schemas."""
    register_spec(spec)
    FACTORIES[spec.name] = make


def unregister(name: str) -> None:
    unregister_spec(name)
    del FACTORIES[name]
