"""What indexes read: the items of one namespace, and the log of their changes. A store implements these protocols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from enum import IntFlag
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from fourfold.index.rows import Ints, Matrix

TextRow: TypeAlias = tuple[int, str, str, str]
"""(id, title, text, language) of an item as keyword search reads it: the fact that it states is part of its title."""


class Change(IntFlag):
    """What changed in an item."""

    TEXT = 1
    VECTOR = 2
    REMOVED = 4
    LABELS = 8
    """Tags, metadata or links. With the number 0: anything in the graph."""
    NODE = 16
    """Names or edges of a node, whose number takes the place of the item's."""


class SourceSnapshot(Protocol):
    """One read transaction."""

    @property
    def last_change(self) -> int: ...

    @property
    def pruned(self) -> int:
        """The log begins after this change."""
        ...

    def all_ids(self) -> list[int]:
        """Ids of all items, ascending."""
        ...

    def changed_ids(self, after: int, last: int, kinds: Change) -> list[int]:
        """Ids of the items that the log names for changes of these kinds, ascending."""
        ...

    def count_changes(self, after: int, limit: int, kinds: Change | None = None) -> int:
        """Changes after that one, of these kinds or of any, counted up to `limit`."""
        ...

    def texts(self, ids: Sequence[int]) -> Iterable[TextRow]:
        """The texts of those of these items that exist."""
        ...

    def vectors(self, ids: Sequence[int], dimension: int) -> tuple[Ints, Matrix]:
        """The vectors of those of these items that have one, with their ids; those of an item are adjacent."""
        ...

    def publication_marks(self, kind: str) -> Sequence[str]:
        """Marks of the latest publications of an index. A database that was restored lacks later ones."""
        ...


class Source(Protocol):
    """One namespace of a store."""

    def read(self) -> AbstractContextManager[SourceSnapshot]:
        """Begins a snapshot. Callers release it soon: SQLite cannot reset its write-ahead log while one is held."""
        ...

    def add_publication_mark(self, kind: str) -> str:
        """Records, durably, that a publication is about to take effect, and returns its mark."""
        ...
