"""Names, links and tags of a namespace in memory, as of one change: what a warm search reads instead of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import limits
from fourfold.limits import CANDIDATES, WALK_EDGES, WALK_STARTS
from fourfold.native.fusion import StartRules
from fourfold.native.fusion import expand as native_expand
from fourfold.native.links import Bounds, LinkColumns, Lists, ends_of
from fourfold.ranking.auto import BELOW_AVERAGE, TEXTS, WALK, as_lists, mean_of
from fourfold.ranking.connections import BEST_HIT, LEAST_START, NEARNESS
from fourfold.ranking.expansion import SHARED, Expanded, Expansion
from fourfold.ranking.fusion import NO_HITS, grid_of
from fourfold.retrieval import Hits, Link

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.index.rows import Floats, Ints


_STARTS = StartRules(WALK_STARTS, BEST_HIT, LEAST_START)


@dataclass(frozen=True, slots=True)
class LinkRows:
    """Columns of the tables, in any order; pairs are arrays with two rows."""

    items: Ints
    nodes: Ints
    counts: Ints
    """By node: items that it is the title of, items that mention it, edges."""
    names: Ints
    """Pairs (hash of a name, node)."""
    owned: Ints
    """Pairs (node, item)."""
    mentions: Ints
    """Pairs (node, item)."""
    edges: Ints
    """Pairs of nodes."""
    weights: Floats
    tags: Sequence[str]
    """Folded."""
    tagged: Ints
    """Pairs (place of a tag in `tags`, item)."""


class LinkState:
    """Immutable. Names are kept as hashes of 64 bits with the random key of this process."""

    def __init__(self, rows: LinkRows) -> None:
        by_node = np.argsort(rows.nodes)
        nodes, items = rows.nodes[by_node], np.sort(rows.items)
        self._names, self._named = _sorted_pairs(rows.names)
        """Hashes of names, ascending, and the node of each."""
        owned, mentions = ((_known(nodes, pair[0]), _known(items, pair[1])) for pair in (rows.owned, rows.mentions))
        order = np.argsort(np.array(rows.tags, object), kind="stable") if rows.tags else np.empty(0, np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        tagged = rank[rows.tagged[0]], _known(items, rows.tagged[1])
        near = _known(nodes, np.concatenate([rows.edges[0], rows.edges[1]]))
        far = _known(nodes, np.concatenate([rows.edges[1], rows.edges[0]]))
        weights = np.concatenate([rows.weights, rows.weights])
        heaviest = np.lexsort((far, -weights, near))
        counts = rows.counts[:, by_node].astype(np.int32)
        self._columns = LinkColumns(
            items,
            nodes,
            *(np.ascontiguousarray(count) for count in counts),
            own=Lists.of_pairs(owned[1], owned[0], len(items)),
            said=Lists.of_pairs(mentions[1], mentions[0], len(items)),
            tags=Lists.of_pairs(tagged[1], tagged[0], len(items)),
            owners=Lists.of_pairs(*owned, len(nodes)),
            speakers=Lists.of_pairs(*mentions, len(nodes)),
            neighbours=Lists(ends_of(near, len(nodes)), far[heaviest].astype(np.int32)),
            weights=weights[heaviest],
            users=Lists.of_pairs(*tagged, len(order)),
            bounds=Bounds(limits.HUB, WALK_EDGES, CANDIDATES),
        )

    def named(self, names: Sequence[str]) -> dict[str, list[int]]:
        """The names that exist, with their nodes."""
        found: dict[str, list[int]] = {}
        if not len(self._names):
            return found
        wanted = np.array([hash(name) for name in names], np.int64)
        first = np.searchsorted(self._names, wanted)
        known = self._names[np.minimum(first, len(self._names) - 1)] == wanted
        for place in np.flatnonzero(known).tolist():
            last = int(np.searchsorted(self._names, wanted[place : place + 1], side="right")[0])
            found[names[place]] = self._named[first[place] : last].tolist()
        return found

    def node_links(self, nodes: Sequence[int]) -> list[Link]:
        """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
        c = self._columns
        places = [place for place in _places(c.nodes, np.array(sorted(nodes), np.int64)).tolist() if place >= 0]
        own = (link for place in places for link in self._to_items(place, c.owners, c.holders, "own"))
        naming = (link for place in places for link in self._to_items(place, c.speakers, c.mentioned, "names"))
        return [*own, *naming, *self._over_edges(places)]

    def _to_items(self, place: int, lists: Lists, counts: NDArray[Any], kind: Any) -> Iterator[Link]:
        c, count = self._columns, int(counts[place])
        node = int(c.nodes[place])
        if count <= limits.HUB:
            yield from (Link(node, item, kind, 1.0, count) for item in c.items[lists.of(place)].tolist())

    def _over_edges(self, places: Sequence[int]) -> Iterator[Link]:
        c = self._columns
        edges: list[tuple[float, int, int]] = []
        for place in places:
            start, end = c.neighbours.start(place), int(c.neighbours.ends[place])
            if c.degrees[place] > limits.HUB:
                end = min(end, start + limits.HUB)
            far, weights = c.neighbours.members[start:end].tolist(), c.weights[start:end].tolist()
            edges += ((-weight, place, other) for other, weight in zip(far, weights, strict=True))
        for weight, near, far in sorted(edges)[:WALK_EDGES]:
            holders = int(c.holders[far])
            if holders <= limits.HUB:
                node, degree = int(c.nodes[near]), int(c.degrees[near]) * int(c.degrees[far]) * holders
                for item in c.items[c.owners.of(far)].tolist():
                    yield Link(node, item, "edge", -weight, degree)

    def walk(self, strengths: Mapping[int, float], allowed: Ints | None, limit: int, mentions: float = 1.0) -> Hits:
        """What `rank_by_links` makes of the links of these items."""
        return Hits(*self._columns.walk(strengths, _nearness(mentions), allowed, limit))

    def expand(self, given: Expansion, allowed: Ints | None) -> Expanded:
        """All steps of `ranking/expansion.py` in one call."""
        texts = {name: given.texts.get(name, NO_HITS) for name in TEXTS}
        semantic, keyword = as_lists(texts, {}, {name: given.weights.get(name, 0.0) for name in TEXTS})
        found = native_expand(
            self._columns,
            (semantic, keyword),
            (mean_of(given.average), BELOW_AVERAGE, grid_of(given.weights)),
            given.named,
            _STARTS,
            _nearness(given.mentions) if WALK in given.wanted else None,
            given.others,
            allowed,
            CANDIDATES,
            shares=SHARED in given.wanted,
        )
        lists = {WALK: Hits(*found.walk), SHARED: Hits(*found.shared)} if found.starts else {}
        wanted = {name: hits for name, hits in lists.items() if name in given.wanted}
        return Expanded(wanted, dict(zip(TEXTS, found.unlisted, strict=True)))

    def shared(self, strengths: Mapping[int, float], allowed: Ints | None, limit: int) -> Hits:
        """What `rank_by_shared_tags` makes of the tags of these items."""
        return Hits(*self._columns.shared(strengths, allowed, limit))


def _sorted_pairs(pairs: Ints) -> tuple[Ints, Ints]:
    order = np.lexsort((pairs[1], pairs[0]))
    return pairs[0][order], pairs[1][order]


def _nearness(mentions: float) -> tuple[float, float, float]:
    """Of what an item mentions, of what mentions it, and of edges."""
    return mentions * NEARNESS["mentions"], mentions * NEARNESS["mentioned-by"], NEARNESS["edge"]


def _places(sorted_ids: Ints, wanted: Ints) -> Ints:
    """The places of ids in a sorted column, -1 for missing ones."""
    places = np.searchsorted(sorted_ids, wanted)
    if len(sorted_ids):
        return np.where(sorted_ids[np.minimum(places, len(sorted_ids) - 1)] == wanted, places, -1)
    return np.full(len(wanted), -1, np.int64)


def _known(sorted_ids: Ints, wanted: Ints) -> Ints:
    """The places of ids; ValueError if one is missing."""
    places = _places(sorted_ids, wanted)
    if len(places) and places.min() < 0:
        raise ValueError("a row points to one that is missing")
    return places
