"""The exact store in memory: plain dicts and brute force, the oracle that every other store is compared with."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from fourfold.errors import RequestError, StoreBusy, StoreNotEmpty
from fourfold.limits import BUSY_SECONDS
from fourfold.model import Json
from fourfold.scheduling import Turns
from fourfold.storage.memory import graph, portable
from fourfold.storage.memory.snapshot import MemorySnapshot
from fourfold.storage.memory.state import Counters, Namespace
from fourfold.storage.memory.transaction import MemoryTransaction
from fourfold.storage.record_reader import Audit, accepted
from fourfold.storage.values import Pace, Record


class MemoryStore:
    """Keeps nothing after it is closed. For up to a few thousand items: every search reads all of them."""

    concurrent_searches = 1
    """Searches compute in Python only, and the GIL lets one run at a time."""

    def __init__(self) -> None:
        self._namespaces: dict[str, Namespace] = {}
        """Never changed in place: a write replaces a namespace by a changed copy."""
        self._counters = Counters()
        self._writer = Turns(1)
        self.maintenance = MemoryMaintenance(self)
        self.portable = MemoryPortable(self)

    @contextmanager
    def snapshot(self, namespace: str, *, seconds: float | None = None) -> Generator[MemorySnapshot]:
        known = self._namespaces.get(namespace)
        yield MemorySnapshot(known or Namespace(namespace, Counters()), exists=known is not None)

    @contextmanager
    def transaction(self, namespace: str, *, names: bool = False) -> Generator[MemoryTransaction]:
        with self.writing():
            known = self._namespaces.get(namespace)
            draft = (known or Namespace(namespace, Counters())).copy()
            draft.counters = self._counters.copy()
            yield MemoryTransaction(draft)
            if known is not None or draft.space is not None or not draft.is_empty:
                self.replace({**self._namespaces, namespace: draft}, draft.counters)

    @contextmanager
    def writing(self) -> Generator[None]:
        """Excludes other writers."""
        with self._writer.turn(BUSY_SECONDS) as mine:
            if not mine:
                raise StoreBusy("another write to this store has not ended", "Try again")
            yield

    def replace(self, namespaces: dict[str, Namespace], counters: Counters) -> None:
        self._namespaces, self._counters = namespaces, counters

    def content(self) -> dict[str, Namespace]:
        """All namespaces at one moment, in order of their names."""
        return dict(sorted(self._namespaces.items()))

    def namespaces(self) -> dict[str, int]:
        return {name: visible(ns) for name, ns in self.content().items()}

    def status(self) -> dict[str, Json]:
        namespaces = {name: _status(ns) for name, ns in self.content().items()}
        return {"store": "memory", "namespaces": namespaces, "embedding_worker": False}

    def close(self) -> None:
        """Does nothing."""


class MemoryMaintenance:
    pace = Pace()

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def queues(self) -> list[str]:
        content = self._store.content()
        return [name for name, ns in content.items() if MemorySnapshot(ns, exists=True).pending(1)]

    @contextmanager
    def lease(self, namespace: str | None) -> Generator[bool]:
        yield True

    def publish(self, namespace: str, *, everything: bool = False, amid_writes: bool = False) -> bool:
        """Always True: nothing here is ever due."""
        return True

    def check(self) -> list[str]:
        audit = Audit()
        self._store.portable.export(audit.look)
        return audit.problems

    def repair(self, *, purge: bool = False) -> list[str]:
        return []

    def backup(self, target: Path) -> None:
        raise RequestError("a store in memory cannot be backed up", "Export it, or use a store in a folder")


class MemoryPortable:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        content = self._store.content()
        for record in portable.records({name: ns for name, ns in content.items() if namespace in (None, name)}):
            write(record)

    def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        with self._store.writing():
            if not all(ns.is_empty for ns in self._store.content().values()):
                raise StoreNotEmpty("this store is not empty", "An export can only be loaded into an empty store")
            self._store.replace(*portable.load(accepted(records)))

    def load_namespace(self, records: Iterable[Record], namespace: str) -> None:
        with self._store.transaction(namespace) as tx:
            if not tx.draft.is_empty:
                raise StoreNotEmpty(f"the namespace {namespace!r} is not empty", "Import the export into another one")
            portable.load_namespace(accepted(records), tx.draft)

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        raise RequestError("a store in memory has no files to remove", "Close it: it keeps nothing")


def visible(ns: Namespace) -> int:
    """The number of items that are not superseded."""
    return sum(stored.item.superseded_at is None for stored in ns.items.values())


def _status(ns: Namespace) -> dict[str, Json]:
    return {
        "items": visible(ns),
        "vectors": ns.size.vectors,
        "windows": ns.size.windows,
        "pending_vectors": ns.size.pending,
        "languages": list(ns.languages),
        "embedder": None if ns.space is None else ns.space.fingerprint,
        "dimension": None if ns.space is None else ns.space.dimension,
        "nodes": len(ns.nodes),
        "edges": len(ns.edges),
        "mentions": sum(map(len, graph.mentions(ns).values())),
    }
