"""What changed in names, links and tags since their columns were built, as columns that continue them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from fourfold.native.rankings import LinkColumns, Lists, TailedColumns

if TYPE_CHECKING:
    from fourfold.index.rows import Ints
    from fourfold.native.bindings import Places


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
        found = source.items(changed)
        fresh = {item: found.get(item, ItemLinks()) for item in changed}
        known = [*fresh.values(), *(self.items.get(item) or before.get(item, ItemLinks()) for item in changed)]
        of_nodes = {*nodes, *chain.from_iterable((*links.own, *links.said) for links in known)}
        of_tags = set(chain.from_iterable(links.tags for links in known))
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
        found = _places(self.changed, wanted) + self._count
        old = self._old(wanted)
        found = np.where(found >= self._count, found, old)
        if len(found) and found.min() < 0:
            raise ValueError("a row points to one that is missing")
        return found.astype(np.int32)

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


def ranks(names: Sequence[str], known: Sequence[str]) -> list[float]:
    """Places of names among sorted ones; new names lie between these."""
    found: dict[str, float] = {}
    for place, group in groupby(sorted(set(names)), key=lambda name: bisect_left(known, name)):
        between = list(group)
        if place < len(known) and between[-1] == known[place]:
            found[between.pop()] = place
        found.update((name, place - 1 + (1 + number) / (1 + len(between))) for number, name in enumerate(between))
    return [found[name] for name in names]


def _column(numbers: Sequence[int]) -> Places:
    return np.array(numbers, np.int32)


def _lists(members: Sequence[Sequence[int]], numbering: Numbering) -> Lists:
    ends = np.cumsum(np.array([len(each) for each in members], np.int64))
    return Lists(ends.astype(np.int64), numbering.numbers(list(chain.from_iterable(members))))


def _places(sorted_ids: Ints, wanted: Ints) -> Ints:
    """The places of ids in a sorted column, -1 for missing ones."""
    places = np.searchsorted(sorted_ids, wanted)
    if len(sorted_ids):
        return np.where(sorted_ids[np.minimum(places, len(sorted_ids) - 1)] == wanted, places, -1)
    return np.full(len(wanted), -1, np.int64)
