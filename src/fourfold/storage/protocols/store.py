"""A store: snapshots to read, transactions to write, maintenance, and records to move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from fourfold.model import Json
from fourfold.storage.protocols.reading import Snapshot
from fourfold.storage.protocols.writing import Transaction
from fourfold.storage.values import Pace, Record


class Maintenance(Protocol):
    """Maintenance of a store. Several processes may offer it; the holder of the lease does it."""

    @property
    def pace(self) -> Pace: ...

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


class Portable(Protocol):
    """The store as a whole, as records that any store can load."""

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        """Hands over the records of one snapshot, of all namespaces or of one, in an order that the content decides."""
        ...

    def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        """Fills an empty store, ids included: all or nothing; with a `mark` of checked records, in batches."""
        ...

    def load_namespace(self, records: Iterable[Record], namespace: str) -> None:
        """Fills one empty namespace with the records of another, under new ids; all or nothing."""
        ...

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        """Removes the store if its records are copied; RequestError if they are not, or if it cannot remove itself."""
        ...


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

    @property
    def maintenance(self) -> Maintenance: ...

    @property
    def portable(self) -> Portable: ...

    def namespaces(self) -> dict[str, int]:
        """Every namespace with its number of items."""
        ...

    def status(self) -> dict[str, Json]: ...

    def close(self) -> None: ...
