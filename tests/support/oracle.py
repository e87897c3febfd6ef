"""The oracle: filters, rankings, paths and fusion computed from the records of an export, by brute force.

It uses no index, no SQL and no kernel: every search reads all texts, all vectors and all links. `Oracle(store)` can
take the place of a store. It writes through that store, and reads what the store exports; what has nothing to do with
retrieval (raw records, the queue, earlier versions) comes from the store itself. Mentions are not read from the
records but computed from the texts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

import numpy as np

from fourfold import Edge, Filters, Item, Neighbor, Node, Page, Ranking, limits
from fourfold.embed.base import check_dimension
from fourfold.embed.windows import Windows, body, rows_of
from fourfold.filters import Condition, Every, Field, Not, Some, Test
from fourfold.index.rows import in_sample
from fourfold.ranking.connections import rank_by_links, rank_by_shared_tags, rarity, selective_tags
from fourfold.ranking.fusion import BELOW_AVERAGE, Fusion, fuse, grid_of
from fourfold.ranking.fusion import Part as FusedPart
from fourfold.ranking.retrievers import LIST_SCALES
from fourfold.retrieval import Background, Hit, Hits, Link, Part, Relation
from fourfold.storage.protocols import Snapshot, Store, Transaction
from fourfold.storage.sql import records as formats
from fourfold.storage.sql.reading import nearest_part
from fourfold.storage.sql.rows import text_identity
from fourfold.storage.values import NeighborQuery, Record, Size, TagUse, ambiguous, no_node
from fourfold.text.analysis import analyse_item, code_share
from fourfold.text.bm25 import K1, norm
from fourfold.text.compounds import SortedLexicon
from fourfold.text.entities import NameFinder, links, normal_name, own_names, split_label, with_label
from fourfold.text.fold import fold
from fourfold.text.globs import matches
from fourfold.text.keyword_query import KeywordQuery, Word, keyword_query

MENTIONS = "mentions"
"""The relation of the edges that follow from texts."""
_QUERY_LANGUAGES = 8
"""A query is analysed in at most this many languages: the most frequent ones of its namespace."""


class Oracle:
    """Reads the export again after a write through the oracle; call `reread` after other writes."""

    concurrent_searches = 1

    def __init__(self, store: Store) -> None:
        self.store = store
        self._contents: dict[str, Content] = {}

    def __getattr__(self, name: str) -> Any:
        self.reread()  # `portable` may load records
        return getattr(self.store, name)

    def reread(self) -> None:
        self._contents.clear()

    @contextmanager
    def snapshot(self, namespace: str, *, seconds: float | None = None) -> Generator[OracleSnapshot]:
        if namespace not in self._contents:
            records: list[Record] = []
            self.store.portable.export(records.append, namespace=namespace)
            self._contents[namespace] = Content.read(records)
        content = self._contents[namespace]
        with self.store.snapshot(namespace, seconds=seconds) as at:
            yield OracleSnapshot(content, at)

    @contextmanager
    def transaction(self, namespace: str, *, names: bool = False) -> Generator[Transaction]:
        try:
            with self.store.transaction(namespace, names=names) as tx:
                yield tx
        finally:
            self.reread()


class _Facet:
    """Computes what it has methods for; the store answers the rest."""

    def __init__(self, content: Content, at: Any) -> None:
        self._ns = content
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._at, name)


class OracleSnapshot(_Facet):
    def __init__(self, content: Content, at: Snapshot) -> None:
        super().__init__(content, at)
        self.rows = Rows(content, at.rows)
        self.words = Words(content, at.words)
        self.vectors = Vectors(content, at.vectors)
        self.graph = Graph(content, at.graph)
        self.tags = Tags(content, at.tags)

    @property
    def size(self) -> Size:
        made = self._ns.vectors.values()
        return Size(len(self._ns.items), len(made), sum(len(rows_of(vector)) - 1 for vector in made))

    def expand(self, *_: object) -> None:
        return None

    def nearest_parts(self, query: Any, ids: Sequence[int]) -> dict[int, Part]:
        known = {id: (self._ns.items[id], self._ns.vectors.get(id)) for id in ids if id in self._ns.items}
        return {
            id: nearest_part(vector, query, len(body(item.title, item.text)))
            for id, (item, vector) in known.items()
            if isinstance(vector, Windows)
        }

    def keyword_query(self, text: str) -> KeywordQuery:
        return self.words.query(text)


# ---------------------------------------------------------------- one namespace of an export


@dataclass
class Content:
    items: dict[int, Item] = field(default_factory=dict)
    linked: set[int] = field(default_factory=set)
    """Items that were stored with links on: they own nodes and mention others."""
    vectors: dict[int, Any] = field(default_factory=dict)
    """A vector, or Windows."""
    dimension: int | None = None
    nodes: dict[int, Record] = field(default_factory=dict)
    own: dict[tuple[int, int], bool] = field(default_factory=dict)
    """(node, item): the item is the node's text. True: attached by a caller; False: by its title or a heading."""
    edges: dict[tuple[int, str, int], float] = field(default_factory=dict)
    """(source, relation, target) to weight."""
    paths: list[str] = field(default_factory=list)
    """Of known files."""
    mentioned: set[tuple[int, int]] = field(default_factory=set)
    """(item, node) as the store says."""

    @classmethod
    def read(cls, records: Iterable[Record]) -> Content:
        """Reads the records of one namespace."""
        ns = cls()
        for record in records:
            match record["type"]:
                case "namespace":
                    ns.dimension = record["dimension"]
                case "item":
                    id = record["id"]
                    ns.items[id] = formats.as_item(record)
                    if record["linked"]:
                        ns.linked.add(id)
                    if (vector := formats.vector(record)) is not None:
                        ns.vectors[id] = vector
                case "node":
                    ns.nodes[record["id"]] = record
                    ns.own |= {(record["id"], item): said for item, said in record["items"]}
                case "edge":
                    ns.edges[record["source"], record["relation"], record["target"]] = record["weight"]
                case "file":
                    ns.paths.append(record["path"])
                case "mention":
                    ns.mentioned.add((record["item"], record["node"]))
                case _:
                    pass
        return ns

    @cached_property
    def names(self) -> dict[int, list[str]]:
        """By node: its name and its aliases in normal form, the name first."""
        return {id: list(map(normal_name, [node["name"], *node["aliases"]])) for id, node in self.nodes.items()}

    @cached_property
    def mentions(self) -> dict[int, set[int]]:
        """By item: the nodes that its text names or links to, without its own ones."""
        nodes: dict[str, set[int]] = {}
        for node, names in self.names.items():
            for name in names:
                nodes.setdefault(name, set()).add(node)
        finder = NameFinder(nodes)
        found: dict[int, set[int]] = {}
        for id in sorted(self.linked):
            text = self.items[id].text
            named = {*finder.find(text), *map(normal_name, links(text))}
            of_names = {node for name in named for node in nodes.get(name, ())}
            found[id] = {node for node in of_names if (node, id) not in self.own}
        return found

    @cached_property
    def mentioning(self) -> dict[int, list[int]]:
        """By node: the items that mention it."""
        found: dict[int, list[int]] = {}
        for item, nodes in self.mentions.items():
            for node in nodes:
                found.setdefault(node, []).append(item)
        return found

    @cached_property
    def terms(self) -> dict[int, Counter[str]]:
        """By item: its analysed terms with their frequencies."""
        return {id: Counter(analyse_item(_titled(item), item.text, item.language)) for id, item in self.items.items()}

    @cached_property
    def uses(self) -> Counter[str]:
        """By tag. Superseded items count, so that the rarity of a tag does not depend on hidden items."""
        return Counter(fold(tag) for item in self.items.values() for tag in item.tags)

    @cached_property
    def owned(self) -> dict[int, list[int]]:
        """By node: its items."""
        found: dict[int, list[int]] = {}
        for node, item in sorted(self.own):
            found.setdefault(node, []).append(item)
        return found

    def passing(self, filters: Filters) -> list[int]:
        return [id for id, item in self.items.items() if passes(item, filters)]

    def node(self, node: int) -> Node:
        row = self.nodes[node]
        aliases = tuple(sorted(row["aliases"]))
        first = min(self.owned.get(node, ()), default=None)
        return Node(node, row["name"], row["label"], aliases, row["properties"], first)

    def required(self, reference: str, label: str | None = None) -> int:
        """The node of a name, an alias or `Name#label`; a node's own name wins over aliases of others."""
        name, label = split_label(reference) if label is None else (reference, label)
        folded = normal_name(name)
        known = [id for id, names in self.names.items() if folded in names]
        known = [id for id in known if label in (None, self.nodes[id]["label"])]
        found = [id for id in known if self.names[id][0] == folded] or known
        if len(found) > 1:
            raise ambiguous(name, (self.nodes[id]["label"] for id in found))
        if not found:
            raise no_node(reference if label is None else with_label(name, label))
        return found[0]


def faults(records: Iterable[Record], *, removals: bool = False) -> list[str]:
    """What the records of one namespace say about links and identities that does not follow from its texts.

    `removals`: a caller has removed nodes, which items with their names do not own again until they change, or edges,
    without which a node of a forgotten title stays.
    """
    ns = Content.read(records)
    computed = {(item, node) for item, nodes in ns.mentions.items() for node in nodes}
    found = [f"item {item}, node {node}: mention" for item, node in sorted(computed ^ ns.mentioned)]
    named = {(names[0], ns.nodes[id]["label"]): id for id, names in ns.names.items()}
    for id, item in ns.items.items():
        wanted = own_names(item.title, item.text, item.metadata, item.kind) if id in ns.linked else []
        nodes = {named.get((normal_name(name), "entity"), 0) for name in wanted}
        said = {node for (node, owned), said in ns.own.items() if owned == id and not said}
        by_caller = {node for (node, owned), said in ns.own.items() if owned == id and said}
        missing = set[int]() if removals else nodes - by_caller - said
        found += [f"item {id}, node {node}: title" for node in sorted((said - nodes) | missing)]
    ends = {end for source, _, target in ns.edges for end in (source, target)}
    stale = [id for id, node in ns.nodes.items() if not node["made"] and id not in ns.owned and id not in ends]
    found += [f"node {id} has no reason" for id in stale if not removals]
    if len(named) < len(ns.nodes):
        found.append("two nodes have the same name and label")
    places = Counter(_identity(item) for item in ns.items.values() if item.superseded_at is None)
    return found + [f"{count} items: {place}" for place, count in places.items() if count > 1]


def _identity(item: Item) -> tuple[Any, ...]:
    if item.key is not None:
        return ("key", item.key)
    if item.path is not None:
        return ("path", item.path, item.chunk_index)
    return ("text", text_identity(item.title, item.text, item.subject, item.attribute))


# ---------------------------------------------------------------- rows and filters


class Rows(_Facet):
    def get(self, ids: Sequence[int]) -> dict[int, Item]:
        return {id: self._ns.items[id] for id in ids if id in self._ns.items}

    def list(self, filters: Filters, limit: int, offset: int) -> list[Item]:
        found = [self._ns.items[id] for id in self._ns.passing(filters)]
        newest = sorted(found, key=lambda item: (item.created_at, item.id), reverse=True)
        return newest[offset : offset + limit]

    def ids(self, filters: Filters, among: Sequence[int] | None = None) -> list[int]:
        return sorted(id for id in self._ns.passing(filters) if among is None or id in among)

    def count(self, filters: Filters) -> int:
        return len(self.ids(filters))

    def chunks(self, path: str, first: int, last: int) -> list[Item]:
        return [item for item in self._of_file(path) if first <= (item.chunk_index or 0) <= last]

    def named_chunks(self, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        paths = [path for path in sorted(self._ns.paths) if fold(path.rpartition("/")[2]) in names]
        found = [(item.id, path) for path in paths for item in self._of_file(path) if passes(item, filters)]
        return found[: limits.CANDIDATES]

    def _of_file(self, path: str) -> list[Item]:
        found = [item for item in self._ns.items.values() if item.path == path and item.key is None]
        return sorted(found, key=lambda item: item.chunk_index or 0)


_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {"lt": lt, "lte": le, "gt": gt, "gte": ge}


def passes(item: Item, filters: Filters) -> bool:
    return (condition := filters.condition) is None or holds(condition, item)


def holds(condition: Condition, item: Item) -> bool:
    match condition:
        case Every():
            return all(holds(part, item) for part in condition.parts)
        case Some():
            return any(holds(part, item) for part in condition.parts)
        case Not():
            return not holds(condition.part, item)
        case Test():
            return _tested(condition, item)


def _tested(test: Test, item: Item) -> bool:
    column = test.field.column
    if column is not None and column.holds == "glob":
        return _globbed(test, getattr(item, column.name))
    found = list(_values(test.field, item))
    if test.op == "exists":
        return any(value is not None for value in found) if column is not None else bool(found)
    wanted = [_comparable(value) for value in test.values]
    compared = map(_comparable, found)
    if test.op == "in":
        return any(value in wanted for value in compared)
    ((kind, bound),) = wanted
    return any(value[0] == kind and _ORDERS[test.op](value[1], bound) for value in compared)


def _globbed(test: Test, path: str | None) -> bool:
    if test.op == "exists" or path is None:
        return path is not None if test.op == "exists" else None in test.values
    return any(glob is not None and matches(glob, path) for glob in test.values)


def _values(field: Field, item: Item) -> Iterator[Any]:
    """The value of a field and, of a list, its scalar elements; nothing if the item lacks it."""
    if field.column is not None and field.column.holds == "tags":
        yield from [fold(tag) for tag in item.tags] or [None]
    elif field.column is not None:
        yield getattr(item, field.column.name)
    else:
        found: Any = item.metadata
        for key in field.path:
            if not isinstance(found, Mapping) or key not in found:
                return
            found = found[key]
        yield found
        if isinstance(found, list | tuple):
            yield from (value for value in found if not isinstance(value, list | tuple | Mapping))


def _comparable(data: Any) -> tuple[str, Any]:
    """The value with its type: only values of one type compare."""
    match data:
        case None:
            return "null", None
        case bool():
            return "bool", data
        case int() | float():
            return "number", data
        case str():
            return "text", data
        case list() | tuple() | Mapping():
            return "json", json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        case _:
            return "time", data


# ---------------------------------------------------------------- tags


class Tags(_Facet):
    def counts(self) -> Mapping[str, int]:
        known = [item for item in self._ns.items.values() if item.superseded_at is None]
        return dict(sorted(Counter(fold(tag) for item in known for tag in item.tags).items()))

    def uses(self, candidates: Sequence[str], filters: Filters, limit: int) -> list[TagUse]:
        counts, items = self._ns.uses, self._ns.items
        carried = {id: sorted({*map(fold, items[id].tags)} & {*candidates}) for id in self._ns.passing(filters)}
        scores = {id: sum(rarity(counts[tag]) for tag in tags) for id, tags in carried.items() if tags}
        best = sorted(scores, key=lambda id: (-scores[id], id))[:limit]
        return [TagUse(id, tag, counts[tag]) for id in sorted(best) for tag in carried[id]]

    def shared(self, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        carried = {fold(tag) for id in ids if id in self._ns.items for tag in self._ns.items[id].tags}
        chosen = selective_tags({tag: self._ns.uses[tag] for tag in carried})
        return self.uses(chosen, filters, len(self._ns.items))

    def rank_shared(self, strengths: Mapping[int, float], filters: Filters, limit: int) -> Hits:
        return rank_by_shared_tags(strengths, self.shared(list(strengths), filters), limit)


# ---------------------------------------------------------------- BM25 by reading every text


class Words(_Facet):
    def match(self, text: str, limit: int, filters: Filters) -> Ranking:
        query = self.query(text)
        if not query.words:
            return Ranking(notes=query.notes)
        found = self._scored(query, self._ns.passing(filters))
        hits = sorted((hit for hit in found.hits if hit.score > 0), key=lambda hit: (-hit.score, hit.id))[:limit]
        evidence = {hit.id: found.evidence[hit.id] for hit in hits}
        return replace(found, hits=tuple(hits), notes=query.notes, evidence=evidence)

    def scores(self, text: str, ids: Sequence[int]) -> Ranking:
        return self._scored(self.query(text), [id for id in ids if id in self._ns.items])

    def having(self, words: Sequence[str], limit: int, filters: Filters) -> list[int]:
        return [hit.id for hit in self.match(" ".join(words), limit, filters).hits]

    def query(self, text: str) -> KeywordQuery:
        items, terms = self._ns.items, self._ns.terms
        german = {term for id, of_item in terms.items() if items[id].language == "de" for term in of_item}
        lexicon = SortedLexicon(german) if german else None
        counts = Counter(item.language for item in items.values())
        common = sorted(counts.items(), key=lambda language: (-language[1], language[0]))[:_QUERY_LANGUAGES]
        code = code_share(self._frequencies, len(terms))
        return keyword_query(text, dict(common), lexicon, self._frequencies, len(terms), code)

    def _frequencies(self, terms: Sequence[str]) -> list[int]:
        return [sum(term in of_item for of_item in self._ns.terms.values()) for term in terms]

    def _scored(self, query: KeywordQuery, ids: Sequence[int]) -> Ranking:
        terms = self._ns.terms
        average = sum(of_item.total() for of_item in terms.values()) / max(len(terms), 1)
        hits: list[Hit] = []
        evidence: dict[int, float] = {}
        for id in ids:
            score = covered = 0.0  # not sum(), which compensates rounding: equal texts must tie as in other stores
            for word in query.words:
                value = _value(word, terms[id], average)
                score += value
                covered += word.idf if value > 0 else 0.0
            hits.append(Hit(id, score))
            evidence[id] = covered / (query.weight or 1.0)
        return Ranking(
            tuple(hits),
            evidence=evidence,
            unknown=query.unknown_share,
            items=query.documents,
            code=query.code,
            foreign=query.foreign,
        )


def saturation(tf: float, length: float, average_length: float) -> float:
    """Factor on the idf of a term that occurs `tf` times in a document of this length."""
    base, slope = norm(average_length)
    return tf * (K1 + 1) / (tf + (base + slope * length)) if tf > 0 else 0.0


def _value(word: Word, terms: Counter[str], average: float) -> float:
    """The score of a word: that of its best variant."""
    values = zip(word.terms, word.values, strict=True)
    return max(value * saturation(terms[term], terms.total(), average) for term, value in values)


# ---------------------------------------------------------------- cosines with every vector


class Vectors(_Facet):
    def begin_nearest(self, vector: Any, limit: int, filters: Filters) -> Callable[[], Ranking]:
        if self._ns.dimension is not None:
            check_dimension(len(vector), self._ns.dimension)
        found = self.cosines(vector, self._ns.passing(filters)).hits
        hits = sorted(found, key=lambda hit: (-hit.score, hit.id))[:limit]
        pending = len(self._ns.items) - len(self._ns.vectors)
        ranking = Ranking(tuple(hits), self._background(vector), pending)
        return lambda: ranking

    def nearest(self, vector: Any, limit: int, filters: Filters) -> Ranking:
        return self.begin_nearest(vector, limit, filters)()

    def cosines(self, vector: Any, ids: Sequence[int]) -> Ranking:
        """Rounded: equal vectors tie whatever the order of summation was."""
        known = [id for id in ids if id in self._ns.vectors]
        return Ranking(tuple(Hit(id, max(np.round(self._products(id, vector), 6).tolist())) for id in known))

    def _products(self, id: int, query: Any) -> Any:
        """The cosines with each vector of an item."""
        return rows_of(self._ns.vectors[id]).astype(np.float64) @ np.asarray(query, np.float64)

    def _background(self, vector: Any) -> Background | None:
        """The mean cosine of a sample that every store chooses alike; of several vectors of an item, the first."""
        ids = np.array(list(self._ns.vectors), np.int64)
        sample = [float(self._products(id, vector)[0]) for id in ids[in_sample(ids, len(ids))].tolist()]
        return Background(sum(sample) / len(sample)) if sample else None


# ---------------------------------------------------------------- links and paths


class Step(NamedTuple):
    source: int
    relation: str
    target: int
    weight: float
    forward: bool


class Graph(_Facet):
    def named(self, names: Sequence[str]) -> dict[str, list[int]]:
        having = {name: [id for id, known in self._ns.names.items() if name in known] for name in names}
        return {name: nodes for name, nodes in having.items() if nodes}

    def node_links(self, nodes: Sequence[int], filters: Filters) -> list[Link]:
        mentioning = self._ns.mentioning
        own = [Link(node, item, "own", 1.0, degree) for node in nodes for item, degree in self._own(node, filters)]
        naming = [
            Link(node, item, "names", 1.0, degree)
            for node in nodes
            for item, degree in self._unless_hub(mentioning.get(node, ()), filters)
        ]
        return [*own, *naming, *self._over_edges([(node, node) for node in nodes], filters)]

    def relations(self, nodes: Sequence[int]) -> list[Relation]:
        edges = [Relation(*edge, weight, True) for edge, weight in self._ns.edges.items()]
        back = [Relation(edge.other, edge.relation, edge.node, edge.weight, False) for edge in edges]
        each = [
            sorted(
                (edge for edge in way if edge.node == node), key=lambda edge: (-edge.weight, edge.other, edge.relation)
            )
            for node in sorted(nodes)[: limits.HUB]
            for way in (edges, back)
        ]
        return sorted(edge for ranked in each for edge in ranked[: limits.HUB])

    def item_links(self, ids: Sequence[int], filters: Filters) -> list[Link]:
        """From items to what they mention, to what mentions them, and over one edge from their nodes."""
        ns = self._ns
        wanted = sorted(set(ids) & ns.items.keys())
        out = [
            Link(id, item, "mentions", 1.0, len(ns.mentioning[node]) * owners)
            for id in wanted
            for node in ns.mentions.get(id, ())
            if len(ns.mentioning[node]) <= limits.HUB
            for item, owners in self._own(node, filters)
        ]
        owned = [(id, node) for node, id in ns.own if id in wanted]
        back = [
            Link(id, item, "mentioned-by", 1.0, len(ns.owned[node]) * degree)
            for id, node in owned
            for item, degree in self._unless_hub(ns.mentioning.get(node, ()), filters)
        ]
        found = [*out, *back, *self._over_edges(owned, filters)]
        return [link for link in found if link.source != link.item]

    def walk(self, strengths: Mapping[int, float], filters: Filters, limit: int, mentions: float = 1.0) -> Hits:
        return rank_by_links(strengths, self.item_links(list(strengths), filters), limit, mentions)

    def _over_edges(self, starts: Iterable[tuple[int, int]], filters: Filters) -> list[Link]:
        """Links over one edge. `starts`: pairs of the source of the links and its node."""
        edges = self._ns.edges
        sources: dict[int, list[int]] = {}
        for source, node in starts:
            sources.setdefault(node, []).append(source)
        found = [edge for node in sources for edge in self._heaviest_edges(node)]
        followed = sorted(found, key=lambda edge: (-edge[2], edge[0], edge[1]))[: limits.WALK_EDGES]
        degree = Counter(end for source, _, target in edges for end in {source, target})
        return [
            Link(source, item, "edge", weight, degree[node] * degree[target] * owners)
            for node, target, weight in followed
            for item, owners in self._own(target, filters)
            for source in sources[node]
        ]

    def _heaviest_edges(self, node: int) -> list[tuple[int, int, float]]:
        """The heaviest edges of a node, as (node, other end, weight)."""
        edges = self._ns.edges.items()
        out = [(node, target, weight) for (source, _, target), weight in edges if source == node]
        back = [(node, source, weight) for (source, _, target), weight in edges if target == node]
        return sorted([*out, *back], key=lambda edge: (-edge[2], edge[1]))[: limits.HUB]

    def _own(self, node: int, filters: Filters) -> list[tuple[int, int]]:
        return self._unless_hub(self._ns.owned.get(node, ()), filters)

    def _unless_hub(self, items: Sequence[int], filters: Filters) -> list[tuple[int, int]]:
        """Those of a node's items that pass, each with the number of all of them; nothing for a hub."""
        if len(items) > limits.HUB:
            return []
        return [(item, len(items)) for item in items if passes(self._ns.items[item], filters)]

    def neighbors(self, wanted: NeighborQuery) -> Page[Neighbor]:
        """Nodes at one distance are ordered by the best product of weights on a shortest path."""
        start = self._ns.required(wanted.name, wanted.label)
        relation, direction = wanted.relation, wanted.direction
        steps = [
            step
            for step in self._steps()
            if relation in (None, step.relation) and (direction == "both" or step.forward == (direction == "out"))
        ]
        found: dict[int, Neighbor] = {}
        border = {start: 1.0}
        for distance in range(1, wanted.depth + 1):
            reached: dict[int, Neighbor] = {}
            for step in steps:
                weight = border.get(step.source, 0.0) * step.weight
                known = reached[step.target].weight if step.target in reached else 0.0
                if weight > known and step.target != start and step.target not in found:
                    reached[step.target] = Neighbor(self._ns.node(step.target), step.relation, distance, weight)
            found |= reached
            border = {node: near.weight for node, near in reached.items()}
        ordered = sorted(found.values(), key=lambda near: (near.distance, -near.weight, near.node.id))
        return Page(ordered[wanted.offset :][: wanted.limit], len(ordered), wanted.offset)

    def path(self, start: str, goal: str, max_depth: int) -> list[Edge]:
        """A shortest path along edges in either direction; empty if there is none."""
        source, target = self._ns.required(start), self._ns.required(goal)
        steps = sorted(self._steps(), key=lambda step: (-step.weight, step.target, not step.forward, step))
        paths: dict[int, list[Edge]] = {source: []}
        for _ in range(max_depth):
            reached: dict[int, list[Edge]] = {}
            for step in steps:
                if step.source in paths and step.target not in paths:
                    reached.setdefault(step.target, [*paths[step.source], self._edge(step)])
            paths |= reached
        return paths.get(target, [])

    def _steps(self) -> list[Step]:
        """All edges, stored ones and those of mentions, in both directions."""
        edges = {(source, relation, target, weight) for (source, relation, target), weight in self._ns.edges.items()}
        for item, nodes in self._ns.mentions.items():
            owners = [node for node, owned in self._ns.own if owned == item]
            edges |= {(owner, MENTIONS, node, 1.0) for owner in owners for node in nodes}
        forward = [Step(*edge, True) for edge in edges]
        back = [Step(step.target, step.relation, step.source, step.weight, False) for step in forward]
        return sorted([*forward, *back])

    def _edge(self, step: Step) -> Edge:
        ends = (step.source, step.target) if step.forward else (step.target, step.source)
        source, target = (self._ns.nodes[node]["name"] for node in ends)
        return Edge(source, step.relation, target, step.weight)


# ---------------------------------------------------------------- fusion


def fused(
    lists: Mapping[str, Hits],
    unlisted: Mapping[str, Hits],
    weights: Mapping[str, float],
    average: Background | None,
    reported: Mapping[str, float],
) -> Fusion:
    """The arithmetic of `fuse_scaled`, which computes it in the kernel."""
    raw = {name: _joined(hits, unlisted[name]) if name in unlisted else hits for name, hits in lists.items()}
    grid = grid_of(weights)
    parts = [_part(name, len(lists[name].ids), raw[name], average, weight, grid) for name, weight in weights.items()]
    return fuse(parts, reported)


def _joined(hits: Hits, more: Hits) -> Hits:
    """Listed and unlisted hits; a listed score takes precedence."""
    new = ~np.isin(more.ids, hits.ids)
    return Hits(np.concatenate([hits.ids, more.ids[new]]), np.concatenate([hits.scores, more.scores[new]]))


def _part(name: str, listed: int, raw: Hits, average: Background | None, weight: float, grid: float) -> FusedPart:
    scale = LIST_SCALES[name]
    if scale == "cosine":
        return FusedPart(name, weight, listed, raw, _cosine_values(raw.scores, average, weight, grid))
    positive = raw.scores > 0
    listed = int(np.count_nonzero(positive[:listed]))
    raw = Hits(raw.ids[positive], raw.scores[positive])
    if scale == "absolute":  # graph scores as they are, at most 1: a distant relation stays weak even if it is the best
        scaled = weight * np.minimum(raw.scores, 1.0)
    else:
        scaled = raw.scores * (weight / raw.scores.max()) if len(raw.scores) else raw.scores
    return FusedPart(name, weight, listed, raw, (scaled + grid) - grid)


def _cosine_values(scores: Any, background: Background | None, weight: float, grid: float) -> Any:
    """Cosines scaled from the store's average to the query's best; lower ones share the bottom of the scale.

    If no cosine is above the average (a narrow filter), the worst cosine replaces the average.
    """
    best, worst = float(scores.max()), float(scores.min())
    if best == worst:
        return np.full(len(scores), (weight + grid) - grid)
    average = background.mean if background is not None and -1 < background.mean < best else worst
    above = weight * (1 - BELOW_AVERAGE) / (best - average)
    below = weight * BELOW_AVERAGE / max(1 + average, 1e-9)
    base = weight * BELOW_AVERAGE + grid
    return ((scores - average) * np.where(scores >= average, above, below) + base) - grid


def _titled(item: Item) -> str:
    """The title with the fact that the item states, which keyword search reads with it."""
    return " ".join(filter(None, (item.title, item.subject, item.attribute)))
