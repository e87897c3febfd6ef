"""Stored values: items, raw records, graph nodes, and the filters that select items. Frozen, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from fourfold.fields import Details, History, Source, column_options
from fourfold.filters import Condition, Every, Field, Where, field_at, key_path, make_test, read_where
from fourfold.frozen import quickly_made

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

Vector: TypeAlias = "NDArray[np.float32]"

Json: TypeAlias = Any
"""A value that `json.loads` can return."""


@dataclass(frozen=True, slots=True)
class Space:
    """The vector space of a namespace: all its vectors come from one embedder."""

    fingerprint: str
    dimension: int


@quickly_made
@dataclass(frozen=True, slots=True)
class NewItem(Details):
    """An item to store. Its identity is `key`, else `path` and `chunk_index`, else the text itself."""

    text: str = ""
    title: str = ""
    key: str | None = None
    tags: tuple[str, ...] = ()
    kind: str | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    language: str | None = None
    """ISO 639-1 code; None: detected from the text."""
    created_at: datetime | None = None
    source_ids: tuple[int, ...] = ()
    path: str | None = None
    chunk_index: int | None = None
    vector: Sequence[float] | Vector | None = None


SUMMARY_CHARACTERS: Final = 72


@dataclass(frozen=True, slots=True)
class Item(History):
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
    """Time of the last change of the text; other changes leave it alone."""
    source_ids: tuple[int, ...]
    path: str | None
    chunk_index: int | None
    similar: tuple[int, ...] = field(default=(), compare=False)
    """Items that say nearly the same, the most similar first. `add` and `update` fill it; it is not stored."""

    def __repr__(self) -> str:
        tags = f", tags={self.tags}" if self.tags else ""
        return f"Item({self.id}, {self.summary!r}{tags})"

    @property
    def summary(self) -> str:
        """Title and text in one short line."""
        return shorten(
            f"{self.title}: {self.text}" if self.title else self.text, SUMMARY_CHARACTERS, placeholder=" ..."
        )

    def given(self) -> NewItem:
        """What storing the item again would have to be given."""
        names = (each.name for each in fields(NewItem) if each.name != "vector")
        return NewItem(**{name: getattr(self, name) for name in names})

    @property
    def location(self) -> str | None:
        """Position of the text in its file: `path:line`, or `path#page=3` in a PDF; None if it has no file."""
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
    source: Source | None = None
    """Where new text comes from; None: `user`. An item that keeps a part of what it said stays as little trusted."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """An original (dialogue turn, page, file) that items refer to in `source_ids`."""

    id: int
    namespace: str
    content: str
    speaker: str | None
    session_id: str | None
    metadata: Mapping[str, Json]
    created_at: datetime
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a session may have left to remember. It is not stored as an item before it is accepted."""

    id: int
    """Of the raw record that it is kept in, too."""
    namespace: str
    text: str
    """What would be stored."""
    said: str
    """What the speaker said; `text`, unless that was edited."""
    kind: str | None
    tags: tuple[str, ...]
    session: str
    speaker: str | None
    metadata: Mapping[str, Json]
    """Such as `confidence` and `turn`."""
    created_at: datetime
    """When it was said."""


@dataclass(frozen=True, slots=True)
class Supply:
    """What was asked through one interface, and what it was given."""

    via: str
    """`prompt` and `session-start` (hooks), `mcp`, `http` or `command`."""
    asked: int
    answered: int
    """By at least one item with the confidence of the setting `hook_min_confidence`."""
    unknown: int
    """The others."""
    items: int
    """Given with that confidence."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What a namespace supplied since receipts are kept."""

    since: datetime | None
    supplies: tuple[Supply, ...]
    items: int
    never_retrieved: int
    """Items that were no answer to anything yet."""
    oldest_unused: tuple[int, ...]
    """Ids of some of these, the oldest first."""


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
    """A node in a list, with the numbers of its items and edges."""

    name: str
    label: str
    items: int
    """Items about the node: their title or a heading is its name, or they were attached to it."""
    mentions: int
    """Items whose text names the node."""
    edges: int


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with the ids of its items and mentions, oldest first, and its edges, heaviest first."""

    node: Node
    items: tuple[int, ...]
    mentions: tuple[int, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A node reached from another one; `weight` is the product of the edge weights on the path."""

    node: Node
    relation: str
    distance: int
    weight: float


class Page(list[T]):
    """Some rows of a longer list."""

    def __init__(self, rows: Iterable[T], total: int, offset: int = 0) -> None:
        super().__init__(rows)
        self.total = total
        """Number of rows of the whole list."""
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
    """Conditions on items, applied inside every retriever. Empty fields match everything."""

    tags: tuple[str, ...] = ()
    any_tag: bool = False
    created_from: datetime | None = None
    created_to: datetime | None = None
    kind: str | None = None
    language: str | None = None
    path: str | None = None
    """A glob: `*` matches within a folder, `**` across folders, `?` one character."""
    metadata: tuple[MetadataTest, ...] = ()
    where: Where | None = None
    """A condition as text, `line >= 10 and kind != code`, or as a mapping, {"line": {"gte": 10}}."""
    source: str | None = None
    subject: str | None = None

    @classmethod
    def of_options(cls, options: Mapping[str, Json]) -> Filters:
        """The filters that options mean, by name; an option without a field here becomes part of `where`."""
        names = {field.name for field in fields(cls)}
        own = {name: value for name, value in options.items() if name in names}
        parts = [
            make_test(Field(column), option.op, options[option.name])
            for column, option in column_options()
            if option.name not in names and options.get(option.name) is not None
        ]
        if parts and (condition := read_where(own.get("where") or {})) is not None:
            parts.append(condition)
        if parts:
            own["where"] = Every(tuple(parts))
        return cls(**own)

    @cached_property
    def condition(self) -> Condition | None:
        """All fields combined into one condition; None if no field is set."""
        parts = tuple(self._parts())
        return parts[0] if len(parts) == 1 else Every(parts) if parts else None

    def _parts(self) -> Iterator[Condition]:
        tags = field_at(["tags"])
        if self.tags and self.any_tag:
            yield make_test(tags, "in", self.tags)
        else:
            yield from (make_test(tags, "eq", tag) for tag in dict.fromkeys(self.tags))
        for column, option in column_options():
            if (wanted := getattr(self, option.name, None)) is not None:
                yield make_test(Field(column), option.op, wanted)
        for test in self.metadata:
            yield make_test(Field(None, key_path(test.key)), test.op, test.value)
        if self.where is not None and (condition := read_where(self.where)) is not None:
            yield condition


NO_FILTERS = Filters()

GivenFilters: TypeAlias = Filters | Mapping[str, Json] | str
"""Filters as callers pass them: `Filters`, or a bare condition as a mapping or as text."""
