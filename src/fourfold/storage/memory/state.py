"""The content of a namespace: dicts of frozen values, so that a copy of the dicts is a snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from fourfold.embed.windows import Windows, rows_of
from fourfold.model import Item, Json, NewItem, Node, RawRecord, Space
from fourfold.storage.codec import KINDS, block_of, bounds, check_room, text_identity
from fourfold.storage.values import FileState, Size, Version
from fourfold.text.entities import normal_name

if TYPE_CHECKING:
    from fourfold.model import Vector

_QUERY_LANGUAGES = 8
"""A query is analysed in at most this many languages: the most frequent ones of its namespace."""


@dataclass
class Counters:
    """The last assigned ids by namespace and kind, and the block of each namespace (fourfold.storage.codec)."""

    last: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    blocks: dict[str, int] = field(default_factory=dict[str, int])

    def copy(self) -> Counters:
        return Counters(dict(self.last), dict(self.blocks))

    def new(self, namespace: str, kind: str) -> int:
        if namespace not in self.blocks:
            self.blocks[namespace] = next(block for block in count() if block not in self.blocks.values())
        last = self.last.get((namespace, kind), bounds(self.blocks[namespace])[0])
        check_room(last, 1)
        self.last[namespace, kind] = last + 1
        return last + 1

    def restore(self, used: Mapping[str, Mapping[str, Iterable[int]]]) -> None:
        """Chooses blocks after a load. `used`: the loaded ids by namespace and kind."""
        filled = {block_of(id) for kinds in used.values() for ids in kinds.values() for id in ids}
        for namespace, kinds in sorted(used.items()):
            first = block_of(max((id for ids in kinds.values() for id in ids), default=0))
            free = (block for block in count(first) if block not in self.blocks.values())
            self.blocks[namespace] = next(block for block in free if block == first or block not in filled)
        for namespace, block in self.blocks.items():
            low, high = bounds(block)
            for kind in KINDS:
                given = [id for kinds in used.values() for id in kinds[kind] if low < id < high]
                self.last[namespace, kind] = max(given, default=low)


@dataclass(frozen=True, slots=True)
class Stored:
    item: Item
    linked: bool
    """Whether its text was stored with links on: it then owns nodes and mentions others."""
    vector: Vector | Windows | None = None

    @property
    def identity(self) -> str | None:
        return identity(self.item)


def identity(item: Item | NewItem) -> str | None:
    """The text itself identifies an item that has neither key nor path."""
    if item.key is not None or item.path is not None or (isinstance(item, Item) and item.superseded_at is not None):
        return None
    return text_identity(item.title, item.text, item.subject, item.attribute)


@dataclass(frozen=True, slots=True)
class NodeRow:
    id: int
    name: str
    label: str
    made: bool
    """Whether it was created by name; otherwise it exists because of a title and is removed with it."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Normal form to spelling."""
    properties: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def names(self) -> list[str]:
        return [normal_name(self.name), *self.aliases]


@dataclass
class Namespace:
    name: str
    counters: Counters
    space: Space | None = None
    items: dict[int, Stored] = field(default_factory=dict[int, Stored])
    raw: dict[int, RawRecord] = field(default_factory=dict[int, RawRecord])
    nodes: dict[int, NodeRow] = field(default_factory=dict[int, NodeRow])
    own: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])
    """(node, item): the item is the node's text. True: attached by a caller; False: by its title or a heading."""
    edges: dict[tuple[int, str, int], float] = field(default_factory=dict[tuple[int, str, int], float])
    """(source, relation, target) to weight."""
    files: dict[str, FileState] = field(default_factory=dict[str, FileState])
    """By path."""
    rejected: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    """By item: the title and text that the embedder rejected."""
    versions: dict[int, Version] = field(default_factory=dict[int, Version])
    """Earlier versions and merged items, by their ids."""

    def copy(self) -> Namespace:
        return Namespace(
            self.name,
            self.counters.copy(),
            self.space,
            dict(self.items),
            dict(self.raw),
            dict(self.nodes),
            dict(self.own),
            dict(self.edges),
            dict(self.files),
            dict(self.rejected),
            dict(self.versions),
        )

    @property
    def is_empty(self) -> bool:
        return not (self.items or self.raw or self.nodes or self.files)

    @property
    def size(self) -> Size:
        made = [stored.vector for stored in self.items.values() if stored.vector is not None]
        return Size(len(self.items), len(made), sum(len(rows_of(vector)) - 1 for vector in made))

    @property
    def languages(self) -> dict[str, int]:
        """The languages with the number of their items, most frequent first."""
        counts = Counter(stored.item.language for stored in self.items.values())
        return dict(sorted(counts.items(), key=lambda language: (-language[1], language[0]))[:_QUERY_LANGUAGES])

    def items_of(self, node: int) -> list[int]:
        return sorted(item for owner, item in self.own if owner == node)

    def node(self, node: int) -> Node:
        row = self.nodes[node]
        aliases = tuple(sorted(row.aliases.values()))
        return Node(node, row.name, row.label, aliases, row.properties, min(self.items_of(node), default=None))
