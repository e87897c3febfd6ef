"""What the feeder and the search ask of a distributed index. One suite (tests/cluster) runs over every engine.

The rows of PostgreSQL are the truth; an engine proposes candidates. An object of an engine is one version of one item
and never changes: a late or repeated write cannot replace a newer version, and removing a version cannot remove another
one. A long item has a further object for each further window of its text. Scores of an engine are used for their order
only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fourfold.filters import Condition, Every, Some, Test

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


# ---------------------------------------------------------------- facts about items, for filters


_FIELDS = ("kind", "language", "tags")


def fact_hash(field: str, value: str) -> int:
    """A number of 52 bits, which engines that count in floating point compare exactly. No text leaves the store."""
    digest = hashlib.blake2b(f"{field}\0{value}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 12


def item_facts(kind: str | None, language: str, tags: Sequence[str]) -> list[int]:
    facts = [fact_hash("language", language), *(fact_hash("tags", tag) for tag in tags)]
    return facts if kind is None else [*facts, fact_hash("kind", kind)]


def required(condition: Condition | None) -> Required:
    """Groups of facts of which every item that passes has at least one each. The condition itself may say more."""
    match condition:
        case Every():
            return [group for part in condition.parts for group in required(part)]
        case Some():
            parts = [required(part) for part in condition.parts]
            return [[fact for part in parts for fact in part[0]]] if all(parts) else []
        case Test() if condition.op == "in" and condition.field.column is not None:
            name, values = condition.field.column.name, condition.values
            if name in _FIELDS and all(isinstance(value, str) and "\0" not in value for value in values):
                return [[fact_hash(name, value) for value in values]]
            return []
        case _:
            return []
