"""Names, links and tags of a namespace in memory, as of one change: what a warm search reads instead of tables."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from fourfold import limits
from fourfold.index.rows import Scorers
from fourfold.limits import CANDIDATES, WALK_EDGES, WALK_STARTS
from fourfold.native import bindings
from fourfold.native.bindings import OutOfRange
from fourfold.native.rankings import Bounds, FusionList, LinkColumns, Lists, StartRules, TailedColumns, ends_of, ranges
from fourfold.native.rankings import expand as native_expand
from fourfold.ranking.connections import BEST_HIT, LEAST_START, MOST_TAGS, NEARNESS, Use, rarity
from fourfold.ranking.fusion import BELOW_AVERAGE, NO_HITS, SHARED, TEXTS, WALK, Expanded, Expansion
from fourfold.ranking.retrievers import LIST_SCALES
from fourfold.retrieval import Hits, Link, LinkKind, Ranking

if TYPE_CHECKING:
    from fourfold.index.rows import Floats, Ints
    from fourfold.native.bindings import Places

# ---------------------------------------------------------------- what changed since the columns were built


class ItemLinks(NamedTuple):
    """Of an item that was removed: nothing."""

    own: Sequence[int] = ()
    """Nodes whose text it is."""
    said: Sequence[int] = ()
    """Nodes that it mentions."""
    tags: Sequence[int] = ()


class NodeLinks(NamedTuple):
    """Of a node that was removed: nothing. The lists of a hub may be empty."""

    holders: int = 0
    mentioned: int = 0
    degree: int = 0
    owners: Sequence[int] = ()
    speakers: Sequence[int] = ()
    neighbours: Sequence[tuple[int, float]] = ()
    """The nodes at the other ends of its edges, with weights."""
    names: Sequence[int] = ()
    """Hashes."""


class TagLinks(NamedTuple):
    """Of a tag that was removed: nothing. The list of a hub may be empty."""

    name: str = ""
    """Folded."""
    uses: int = 0
    users: Sequence[int] = ()


class LinkSource(Protocol):
    """Rows of one snapshot. Each method leaves out what does not exist."""

    def items(self, ids: Sequence[int]) -> Mapping[int, ItemLinks]: ...

    def nodes(self, ids: Sequence[int]) -> Mapping[int, NodeLinks]: ...

    def tags(self, ids: Sequence[int]) -> Mapping[int, TagLinks]: ...


@dataclass(frozen=True, slots=True)
class LinkTail:
    """By id, all that changed."""

    items: Mapping[int, ItemLinks]
    nodes: Mapping[int, NodeLinks]
    tags: Mapping[int, TagLinks]

    def __len__(self) -> int:
        return len(self.items) + len(self.nodes) + len(self.tags)

    def with_changes(
        self, source: LinkSource, items: Iterable[int], nodes: Iterable[int], before: Mapping[int, ItemLinks]
    ) -> LinkTail:
        """The tail with these items and nodes as they are now. `before`: what the columns say of these items.

        Nodes and tags change with the items that have or had them.
        """
        changed = sorted(items)
        links_now = source.items(changed)
        fresh = {item: links_now.get(item, ItemLinks()) for item in changed}
        touched = [*fresh.values(), *(self.items.get(item) or before.get(item, ItemLinks()) for item in changed)]
        of_nodes = {*nodes, *chain.from_iterable((*links.own, *links.said) for links in touched)}
        of_tags = set(chain.from_iterable(links.tags for links in touched))
        now, tagged = source.nodes(sorted(of_nodes)), source.tags(sorted(of_tags))
        return LinkTail(
            {**self.items, **fresh},
            {**self.nodes, **{node: now.get(node, NodeLinks()) for node in of_nodes}},
            {**self.tags, **{tag: tagged.get(tag, TagLinks()) for tag in of_tags}},
        )


NO_TAIL = LinkTail({}, {}, {})


class Numbering:
    """Numbers of items, nodes or tags: the place in the columns, or after these one in the tail."""

    def __init__(self, published: Ints, order: Ints | None, changed: Iterable[int]) -> None:
        """`published`: ids in ascending order. `order`: their places, if these are others."""
        self.changed = np.array(sorted(changed), np.int64)
        self._published, self._order, self._count = published, order, len(published)

    def numbers(self, ids: Sequence[int]) -> Places:
        """Return the numbers of ids; ValueError if one is missing."""
        wanted = np.array(ids, np.int64)
        numbers = _places(self.changed, wanted) + self._count
        old = self._old(wanted)
        numbers = np.where(numbers >= self._count, numbers, old)
        if len(numbers) and numbers.min() < 0:
            raise ValueError("a row points to one that is missing")
        return numbers.astype(np.int32)

    def moved(self) -> Places:
        """By old number, the new one; -1 for what did not change."""
        made = np.full(self._count, -1, np.int32)
        old = self._old(self.changed)
        made[old[old >= 0]] = (np.arange(len(self.changed)) + self._count)[old >= 0]
        return made

    def _old(self, ids: Ints) -> Ints:
        places = _places(self._published, ids)
        if self._order is None or not self._count:
            return places
        return np.where(places >= 0, self._order[np.maximum(places, 0)], -1)


def tailed(published: LinkColumns, tag_ids: Ints, tag_names: Sequence[str], tail: LinkTail) -> TailedColumns:
    """The columns with a tail. `tag_ids`, `tag_names`: by number. ValueError if a row points to one that is missing."""
    by_id = np.argsort(tag_ids)
    items = Numbering(published.items, None, tail.items)
    nodes = Numbering(published.nodes, None, tail.nodes)
    tags = Numbering(tag_ids[by_id], by_id, tail.tags)
    of_items = [tail.items[item] for item in items.changed.tolist()]
    of_nodes = [tail.nodes[node] for node in nodes.changed.tolist()]
    of_tags = [tail.tags[tag] for tag in tags.changed.tolist()]
    edges = [sorted(links.neighbours, key=lambda end: (-end[1], end[0])) for links in of_nodes]
    made = LinkColumns(
        items.changed,
        nodes.changed,
        _column([links.holders for links in of_nodes]),
        _column([links.mentioned for links in of_nodes]),
        _column([links.degree for links in of_nodes]),
        own=_lists([links.own for links in of_items], nodes),
        said=_lists([links.said for links in of_items], nodes),
        tags=_lists([links.tags for links in of_items], tags),
        owners=_lists([links.owners for links in of_nodes], items),
        speakers=_lists([links.speakers for links in of_nodes], items),
        neighbours=_lists([[node for node, _ in ends] for ends in edges], nodes),
        weights=np.array([weight for ends in edges for _, weight in ends], np.float64),
        users=_lists([links.users for links in of_tags], items),
        bounds=published.bounds,
        before=(len(published.items), len(published.nodes), len(tag_ids)),
        tag_uses=_column([links.uses for links in of_tags]),
        ranks=np.array(ranks([links.name for links in of_tags], tag_names), np.float64),
    )
    return TailedColumns(published, made, nodes.moved(), tags.moved())


def ranks(names: Sequence[str], sorted_names: Sequence[str]) -> list[float]:
    """Places of names among sorted ones; new names lie between these."""
    places: dict[str, float] = {}
    for place, group in groupby(sorted(set(names)), key=lambda name: bisect_left(sorted_names, name)):
        between = list(group)
        if place < len(sorted_names) and between[-1] == sorted_names[place]:
            places[between.pop()] = place
        places.update((name, place - 1 + (1 + number) / (1 + len(between))) for number, name in enumerate(between))
    return [places[name] for name in names]


def _column(numbers: Sequence[int]) -> Places:
    return np.array(numbers, np.int32)


def _lists(members: Sequence[Sequence[int]], numbering: Numbering) -> Lists:
    ends = np.cumsum(np.array([len(each) for each in members], np.int64))
    return Lists(ends.astype(np.int64), numbering.numbers(list(chain.from_iterable(members))))


# ---------------------------------------------------------------- the state

_NONE = np.empty(0, np.int64)
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
    tag_ids: Sequence[int]
    tagged: Ints
    """Pairs (place of a tag in `tags`, item)."""


class _Node(NamedTuple):
    """A node, its place in the columns (-1 if it is not there), and the numbers of its items, mentions and edges."""

    id: int
    place: int
    holders: int
    mentioned: int
    degree: int


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
        self._tags = {tag: int(rank[place]) for place, tag in enumerate(rows.tags)}
        """The number of each tag."""
        self._tag_ids = np.array(rows.tag_ids, np.int64)[order]
        self._tag_names = [rows.tags[place] for place in order.tolist()]
        tagged = rank[rows.tagged[0]], _known(items, rows.tagged[1])
        near = _known(nodes, np.concatenate([rows.edges[0], rows.edges[1]]))
        far = _known(nodes, np.concatenate([rows.edges[1], rows.edges[0]]))
        weights = np.concatenate([rows.weights, rows.weights])
        heaviest = np.lexsort((far, -weights, near))
        counts = rows.counts[:, by_node].astype(np.int32)
        self._published = LinkColumns(
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
        self._columns: LinkColumns | TailedColumns = self._published
        self.tail = NO_TAIL
        self._new_names: dict[int, list[int]] = {}
        """By hash, the nodes of the tail that have the name."""
        self._new_tags: dict[str, TagLinks] = {}
        """By name, the tags of the tail that are in use."""

    def updated(self, source: LinkSource, items: Sequence[int], nodes: Sequence[int]) -> LinkState:
        """The state with these items and nodes as they are now.

        Raises ValueError if columns cannot say that; they have to be built again.
        """
        made = copy(self)
        made.tail = tail = self.tail.with_changes(source, items, nodes, self._as_published(items))
        made._columns = tailed(self._published, self._tag_ids, self._tag_names, tail)
        made._new_names, made._new_tags = {}, {links.name: links for links in tail.tags.values() if links.uses}
        for node, links in tail.nodes.items():
            for name in links.names:
                made._new_names.setdefault(name, []).append(node)
        return made

    def _as_published(self, items: Sequence[int]) -> dict[int, ItemLinks]:
        c, links = self._published, dict[int, ItemLinks]()
        for item, place in zip(items, _places(c.items, np.array(items, np.int64)).tolist(), strict=True):
            if place >= 0:
                own, said = (c.nodes[_members(lists, place)].tolist() for lists in (c.own, c.said))
                links[item] = ItemLinks(own, said, self._tag_ids[_members(c.tags, place)].tolist())
        return links

    def named(self, names: Sequence[str]) -> dict[str, list[int]]:
        """The names that exist, with their nodes."""
        nodes_by_name: dict[str, list[int]] = {}
        hashes = list(map(hash, names))
        for place, begin, end in ranges(self._names, hashes):
            nodes_by_name[names[place]] = self._named[begin:end].tolist()
        if not self.tail.nodes:
            return nodes_by_name
        changed = self.tail.nodes
        nodes_by_name = {name: [node for node in nodes if node not in changed] for name, nodes in nodes_by_name.items()}
        for name, hashed in zip(names, hashes, strict=True):
            if hashed in self._new_names:
                nodes_by_name[name] = sorted({*nodes_by_name.get(name, ()), *self._new_names[hashed]})
        return {name: nodes for name, nodes in nodes_by_name.items() if nodes}

    def node_links(self, nodes: Sequence[int]) -> list[Link]:
        """From nodes to their own items, to those that mention them, and over one edge to their neighbours' items."""
        starts = self._numbered(sorted(nodes))
        own = [link for node in starts for link in self._to_items(node, "own", node.holders)]
        naming = [link for node in starts for link in self._to_items(node, "names", node.mentioned)]
        return [*own, *naming, *self._over_edges(starts)]

    def _numbered(self, nodes: Sequence[int]) -> list[_Node]:
        c, tail = self._published, self.tail.nodes
        places = {nodes[index]: place for index, place, _ in ranges(c.nodes, nodes)}
        numbered: list[_Node] = []
        for node in nodes:
            if (changed := tail.get(node)) is not None:
                numbered.append(_Node(node, places.get(node, -1), *changed[:3]))
            elif (place := places.get(node)) is not None:
                counts = c.holders.item(place), c.mentioned.item(place), c.degrees.item(place)
                numbered.append(_Node(node, place, *counts))
        return numbered

    def _to_items(self, node: _Node, kind: LinkKind, count: int) -> list[Link]:
        if count > limits.HUB:
            return []
        return [Link(node.id, item, kind, 1.0, count) for item in self._items_of(node, kind)]

    def _items_of(self, node: _Node, kind: LinkKind) -> Sequence[int]:
        if (changed := self.tail.nodes.get(node.id)) is not None:
            return changed.owners if kind == "own" else changed.speakers
        c = self._published
        return c.items[_members(c.owners if kind == "own" else c.speakers, node.place)].tolist()

    def _over_edges(self, starts: Sequence[_Node]) -> list[Link]:
        edges = [(-weight, near.id, near.degree, far) for near in starts for far, weight in self._edges(near)]
        heaviest = sorted(edges)[:WALK_EDGES]
        ends = {node.id: node for node in self._numbered([far for *_, far in heaviest])}
        return [
            Link(near, item, "edge", -weight, degree * end.degree * end.holders)
            for weight, near, degree, far in heaviest
            if (end := ends.get(far)) is not None and end.holders <= limits.HUB
            for item in self._items_of(end, "own")
        ]

    def _edges(self, node: _Node) -> Sequence[tuple[int, float]]:
        """The nodes at the other ends of its edges, with weights; of a hub, the heaviest."""
        if (changed := self.tail.nodes.get(node.id)) is not None:
            ends = sorted(changed.neighbours, key=lambda end: (-end[1], end[0]))
        else:
            c = self._published
            span = slice(_start(c.neighbours, node.place), c.neighbours.ends[node.place])
            ends = list(zip(c.nodes[c.neighbours.members[span]].tolist(), c.weights[span].tolist(), strict=True))
        return ends[: limits.HUB] if node.degree > limits.HUB else ends

    def tag_uses(self, candidates: Sequence[str], allowed: Ints | None, limit: int) -> list[Use]:
        """Uses of those candidates that are tags, by the `limit` items that carry the most and rarest of them."""
        named = [tag for tag in candidates if tag in self._tags or tag in self._new_tags]
        if not (in_use := [(tag, *items) for tag in named if (items := self._users(tag)) is not None]):
            return []
        rarest = sorted(in_use, key=lambda each: each[1])[:MOST_TAGS]
        users = [_passing(ids, allowed) for _, _, ids in rarest]
        if len(users) > 1 or len(users[0]) > limit:
            weights = np.repeat([rarity(count) for _, count, _ in rarest], [len(ids) for ids in users])
            items, sums = bindings.sums(np.concatenate(users), weights)
            best = np.sort(items[bindings.order(items, sums)[:limit]])
            users = [_passing(ids, best) for ids in users]
        carried = zip(rarest, users, strict=True)
        return sorted([(item, tag, uses) for (tag, uses, _), ids in carried for item in ids.tolist()])

    def _users(self, tag: str) -> tuple[int, Ints] | None:
        """How many items carry a tag, and these; None if it is not in use."""
        c, number, changed = self._published, self._tags.get(tag), self._new_tags.get(tag)
        if changed is None and (number is None or int(self._tag_ids[number]) in self.tail.tags):
            return None
        ids = _NONE if number is None else c.items[_members(c.users, number)]
        if changed is None:
            return len(ids), ids
        if len(changed.users) == changed.uses:
            return changed.uses, np.array(changed.users, np.int64)
        tagged = {id for id, links in self.tail.tags.items() if links is changed}
        own = [item for item, links in self.tail.items.items() if not tagged.isdisjoint(links.tags)]
        others = ids[_places(np.array(sorted(self.tail.items), np.int64), ids) < 0]
        return changed.uses, np.concatenate([others, np.array(own, np.int64)])

    def walk(self, strengths: Mapping[int, float], allowed: Ints | None, limit: int, mentions: float = 1.0) -> Hits:
        """What `rank_by_links` makes of the links of these items."""
        return Hits(*self._columns.walk(strengths, _nearness(mentions), allowed, limit))

    def expand(self, expansion: Expansion, allowed: Ints | None, scorers: Scorers) -> Expanded:
        """All steps of the expansion in `ranking/fusion.py` in one call.

        Without the scores, if rows are damaged: the index that has them is then read alone, and repaired.
        """
        acting = {name: scorers[name] for name in expansion.texts if name in scorers and scorers[name].alone}
        first, second = [
            FusionList(expansion.texts.get(name, NO_HITS), None, LIST_SCALES[name], expansion.weights.get(name, 0.0))
            for name in TEXTS
        ]
        try:
            reached = native_expand(
                self._columns,
                (first, second),
                (expansion.average, BELOW_AVERAGE, expansion.grid),
                expansion.named,
                _STARTS,
                _nearness(expansion.mentions) if WALK in expansion.wanted else None,
                expansion.others,
                allowed,
                expansion.limit,
                [acting[name].kernel if name in acting else None for name in TEXTS],
                shares=SHARED in expansion.wanted,
            )
        except OutOfRange:
            if not acting:
                raise
            return self.expand(expansion, allowed, {})
        made = {WALK: reached.walk, SHARED: reached.shared} if reached.starts else {}
        scores: dict[str, Ranking] = {}
        unlisted: dict[str, Ints] = {}
        for name, ids, scored in zip(TEXTS, reached.unlisted, reached.scored, strict=True):
            if name not in expansion.texts:
                continue
            if scored is None:
                unlisted[name] = ids
            elif len(ids):
                scores[name] = acting[name].ranking(scored)
        return Expanded({name: hits for name, hits in made.items() if name in expansion.wanted}, unlisted, scores)

    def shared(self, strengths: Mapping[int, float], allowed: Ints | None, limit: int) -> Hits:
        """What `rank_by_shared_tags` makes of the tags of these items."""
        return Hits(*self._columns.shared(strengths, allowed, limit))


def _sorted_pairs(pairs: Ints) -> tuple[Ints, Ints]:
    order = np.lexsort((pairs[1], pairs[0]))
    return pairs[0][order], pairs[1][order]


def _nearness(mentions: float) -> tuple[float, float, float]:
    """Of what an item mentions, of what mentions it, and of edges."""
    return mentions * NEARNESS["mentions"], mentions * NEARNESS["mentioned-by"], NEARNESS["edge"]


def _members(lists: Lists, number: int) -> Places:
    return lists.members[_start(lists, number) : lists.ends[number]]


def _start(lists: Lists, number: int) -> int:
    return int(lists.ends[number - 1]) if number else 0


def _passing(ids: Ints, allowed: Ints | None) -> Ints:
    """Those of the ids that are allowed; `allowed` ascends."""
    return ids if allowed is None else ids[_places(allowed, ids) >= 0]


def _places(sorted_ids: Ints, wanted: Ints) -> Ints:
    """The places of ids in a sorted column, -1 for missing ones."""
    places = sorted_ids.searchsorted(wanted)
    if len(sorted_ids):
        return np.where(sorted_ids.take(places, mode="clip") == wanted, places, -1)
    return np.full(len(wanted), -1, np.int64)


def _known(sorted_ids: Ints, wanted: Ints) -> Ints:
    """The places of ids; ValueError if one is missing."""
    places = _places(sorted_ids, wanted)
    if len(places) and places.min() < 0:
        raise ValueError("a row points to one that is missing")
    return places
