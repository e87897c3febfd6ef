"""What the feeder and the search ask of a distributed index. One suite (tests/cluster) runs over every engine.

The rows of PostgreSQL are the truth; an engine proposes candidates. An object of an engine is one version of one item
and never changes: a late or repeated write cannot replace a newer version, and removing a version cannot remove another
one. A long item has a further object for each further window of its text. Scores of an engine are used for their order
only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fourfold.model import Vector

Required = Sequence[Sequence[int]]
"""Facts of which a candidate must have at least one of every group: a necessary condition of the search's filters."""


class Entry(NamedTuple):
    """The identity of an object."""

    item: int
    version: int


@dataclass(frozen=True, slots=True)
class Document:
    """One version of an item, as an engine stores it."""

    entry: Entry
    hashes: NDArray[np.uint32] = field(repr=False)
    """The terms of the text, in order, as hashes: the engine analyses nothing."""
    length: float
    """Of the text, relative to the average (`text.bm25` defines it)."""
    vectors: Sequence[Vector] = field(repr=False)
    """One, one per window, or none."""
    facts: Sequence[int] = field(repr=False)
    """Hashes of what filters test most: kind, language, tags."""


class Applied(NamedTuple):
    """The last batch that a node holds."""

    mark: str
    """Random, known to PostgreSQL; an unknown one means that either side was restored from a backup."""
    change: int


class Node(Protocol):
    """A server that answers searches from what it holds itself.

    IndexUnavailable if it does not answer within `seconds`, or does not have the collection.
    """

    @property
    def name(self) -> str: ...

    def applied(self, collection: str, seconds: float) -> Applied | None:
        """None if nothing was applied yet."""
        ...

    def match(
        self, collection: str, weights: Mapping[int, float], limit: int, required: Required, seconds: float
    ) -> list[int]:
        """Items that contain some of these terms, by any form of BM25, best first."""
        ...

    def nearest(self, collection: str, vector: Vector, limit: int, required: Required, seconds: float) -> list[int]:
        """The items of the `limit` nearest objects; an item occurs once for each of its windows among them."""
        ...

    def held(self, collection: str, entries: Sequence[Entry]) -> int:
        """How many of these versions the node has, be it in part."""
        ...

    def entries(self, collection: str, low: int, high: int) -> list[Entry]:
        """The objects of items from `low` to below `high`, in any order: an entry for each object of a version."""
        ...


class Engine(Protocol):
    """A cluster. A write returns the names of the nodes that do not have it; searches of all others find it.

    `without`: nodes that are not asked whether they have it. IndexUnavailable if a quorum of the cluster refuses.
    """

    @property
    def shown(self) -> str:
        """The address without secrets."""
        ...

    @property
    def nodes(self) -> Sequence[Node]: ...

    def create(self, collection: str, dimension: int | None) -> None:
        """Creates what is missing of a collection; called again when the dimension becomes known."""
        ...

    def exists(self, collection: str, dimension: int | None) -> bool:
        """Whether the cluster has all of a collection: it may have been emptied or replaced."""
        ...

    def objects(self, vectors: int) -> int:
        """The number of objects of an item that has this many vectors."""
        ...

    def drop(self, collection: str) -> None:
        """Removes a collection, if there is one."""
        ...

    def put(self, collection: str, documents: Sequence[Document], without: Collection[str] = ()) -> set[str]: ...

    def remove(self, collection: str, entries: Sequence[Entry], without: Collection[str] = ()) -> set[str]:
        """With all windows."""
        ...

    def apply(self, collection: str, applied: Applied, without: Collection[str] = ()) -> set[str]:
        """Notes the last batch."""
        ...

    def close(self) -> None: ...
