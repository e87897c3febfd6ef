"""What the engine asks of storage. One conformance suite (tests/stores/conformance) runs over every implementation.

A search reads one `Snapshot` of one namespace; a write is one `Transaction`. What both databases do alike is written
once in `storage.sql`, with the contract of each method; the protocols below are what differs. Each is small, and an
engine implements only those that it can: a distributed index is `Words` and `Vectors`, a store is all of them.
Isolation: nothing of one namespace, no row and no statistic, reaches another. A namespace is created by the first write
that stores something in it. Reading one that does not exist finds nothing.
Durability: when the block of a transaction has ended, its effect survives the death of the process and, on the stores
that say so, of the machine. It happens as a whole or not at all. A snapshot that is opened after a commit, in any
process, sees it.
Threads: everything here blocks. A store may be used by any number of threads; a snapshot or a transaction belongs to
the thread that opened it.
Errors: a wrong argument is a RequestError; a failure of the disk, the server or another process is a WorldError or a
DamagedError. A read that exceeds its time is TimedOut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from fourfold import model
from fourfold.model import Vector
from fourfold.retrieval import Hits, Ranking
from fourfold.storage import values

if TYPE_CHECKING:
    from fourfold.storage.sql.portable import SqlPortable
    from fourfold.storage.sql.reading import SqlSnapshot
    from fourfold.storage.sql.transaction import SqlTransaction

Snapshot: TypeAlias = "SqlSnapshot[Any]"
Transaction: TypeAlias = "SqlTransaction[Any, Any]"


class Words(Protocol):
    """Keyword search."""

    def match(self, text: str, limit: int, filters: model.Filters) -> Ranking:
        """By BM25 of the query's words, best first, ties by id."""
        ...

    def scores(self, text: str, ids: Sequence[int]) -> Ranking:
        """The same scores for given items; zero where nothing matches."""
        ...

    def having(self, words: Sequence[str], limit: int, filters: model.Filters) -> Sequence[int]:
        """At most `limit` candidates for items that have all of these words; some may have only a part of them."""
        ...


class Vectors(Protocol):
    """Vector search. InvalidVector if a vector does not have the namespace's dimension.

    An item with several vectors has the score of the nearest one.
    """

    def begin_nearest(self, vector: Vector, limit: int, filters: model.Filters) -> Callable[[], Ranking]:
        """Starts a search by cosine, beside the caller if possible; the result has the nearest first, ties by id.

        Vectors whose search costs more beside the caller also have `nearest`, with the same arguments, for callers that
        have nothing else to do: it returns the result.
        """
        ...

    def cosines(self, vector: Vector, ids: Sequence[int]) -> Ranking:
        """The same scores for those of the given items that have vectors."""
        ...


class Tags(Protocol):
    def counts(self) -> Mapping[str, int]:
        """Folded tag to the number of items that carry it and are not superseded.

        May be cached until the namespace changes.
        """
        ...

    def uses(self, candidates: Sequence[str], filters: model.Filters, limit: int) -> list[values.TagUse]:
        """Uses of those of these folded strings that are tags, by at most `limit` items.

        The items are those that carry the most and rarest of them (by the sum of `ranking.connections.rarity`, ties by
        id); all uses of these items are listed, so that their scores are exact.
        """
        ...

    def shared(self, ids: Sequence[int], filters: model.Filters) -> list[values.TagUse]:
        """Uses of those tags of these items that lead to others (`selective_tags`); `rank_shared`: their ranking."""
        ...

    def rank_shared(self, strengths: Mapping[int, float], filters: model.Filters, limit: int) -> Hits: ...


# ---------------------------------------------------------------- the store


class Maintenance(Protocol):
    """Maintenance of a store. Several processes may offer it; the holder of the lease does it."""

    @property
    def pace(self) -> values.Pace: ...

    def queues(self, replaced: Sequence[str] = ()) -> list[str]:
        """Namespaces in which items wait for a vector, or whose space has a fingerprint that begins with `replaced`."""
        ...

    def lease(self, namespace: str | None) -> AbstractContextManager[bool]:
        """The right to work on indexes and vectors for all processes; False if another one has it. It never waits.

        None: the right to be the embedding worker of the store, which `status` reports as `embedding_worker`.
        """
        ...

    def publish(self, namespace: str, *, everything: bool = False, amid_writes: bool = False) -> bool:
        """Publishes indexes and postponed links that are due, or `everything`; False if another process is doing it.

        `amid_writes`: writes have not paused. Leaves what would slow down a bulk load until they do: links, and the
        first index of vectors of a server. False also if this process is publishing a bulk load as it is written.
        """
        ...

    def check(self) -> list[str]:
        """Lists what is wrong, one line each."""
        ...

    def repair(self, *, purge: bool = False) -> list[str]:
        """Rebuilds what can be rebuilt; lists what was done. `purge`: removes every byte of what was forgotten."""
        ...

    def backup(self, target: Path) -> None: ...


class Store(Protocol):
    @property
    def concurrent_searches(self) -> int:
        """Searches that are worth running at the same time; further ones wait for their turn."""
        ...

    def snapshot(self, namespace: str, *, seconds: float | None = None) -> AbstractContextManager[Snapshot]:
        """Opens one namespace for reading; a read that takes longer than `seconds` (READ_SECONDS) is TimedOut."""
        ...

    def transaction(self, namespace: str, *, names: bool = False) -> AbstractContextManager[Transaction]:
        """Opens one namespace for writing. Writers take turns; StoreBusy if another process writes for BUSY_SECONDS.

        `names`: the write brings new names, which are looked up in older texts; a store may prepare for that before it
        makes others wait.
        """
        ...

    def add_receipts(
        self, namespace: str, supplies: Mapping[str, values.Receipt], items: Mapping[int, int], now: datetime
    ) -> bool:
        """Adds to the receipts of a namespace: by interface, and how often each item was given.

        False, and nothing added, if it would have to wait for another writer. Not a change of the namespace.
        """
        ...

    @property
    def maintenance(self) -> Maintenance: ...
    @property
    def portable(self) -> SqlPortable[Any]: ...

    def namespaces(self) -> dict[str, int]:
        """Every namespace with its number of items."""
        ...

    def status(self) -> dict[str, model.Json]: ...
    def close(self) -> None: ...


class Peer(Protocol):
    """A namespace of a store, here or on a server, that another one can synchronise with."""

    def sync_step(self, lines: Sequence[Mapping[str, model.Json]]) -> list[dict[str, model.Json]]: ...
