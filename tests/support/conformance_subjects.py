"""The stores under test, behind one protocol, each in one of the states in which a store can be read."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import index_servers
import numpy as np
import postgres_servers
from oracle import Oracle
from store_calls import StoreCalls

from fourfold import validation as rules
from fourfold.engine.retrievers import FACTORIES as RETRIEVERS
from fourfold.model import NO_FILTERS, Filters, Item, ItemPatch, NewItem
from fourfold.retrieval import Query, Ranking
from fourfold.storage.protocols import Store, Transaction
from fourfold.storage.values import Record

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 3, 2, 12, tzinfo=UTC)
NS = "notes"


class Settled:
    """A store that publishes its indexes, or is reopened, before a read that follows a write.

    Only the thread that created it does so, because a store must not be closed while another thread uses it,
    and not inside a transaction, for which closing would wait.
    """

    def __init__(self, store: Store, settle: Callable[[Store], Store]) -> None:
        self._store = store
        self._settle = settle
        self._written = False
        self._writing = False
        self._thread = threading.get_ident()

    @contextmanager
    def transaction(self, namespace: str, **options: bool) -> Iterator[Transaction]:
        with self._store.transaction(namespace, **options) as transaction:
            self._writing = True
            try:
                yield transaction
            finally:
                self._writing = False
                self._written = True

    def __getattr__(self, name: str) -> Any:
        if self._written and not self._writing and threading.get_ident() == self._thread:
            self._written = False
            self._store = self._settle(self._store)
        self._written = self._written or name == "portable"
        return getattr(self._store, name)


class TakingTurns:
    """Two stores on one folder or server, used in turn, so that one reads what the other wrote."""

    def __init__(self, *stores: Store) -> None:
        self._stores = list(stores)

    def __getattr__(self, name: str) -> Any:
        self._stores.reverse()
        return getattr(self._stores[0], name)

    def close(self) -> None:
        for store in self._stores:
            store.close()


def publish(store: Store) -> Store:
    for namespace in store.namespaces():
        store.maintenance.publish(namespace, everything=True)
    return store


def make(kind: str, folder: Path) -> StoreCalls:
    return StoreCalls(_store(kind, folder))


def _store(kind: str, folder: Path) -> Any:
    match kind:
        case "oracle":
            return Oracle(_sqlite(folder.with_name(f"{folder.name}-oracle")))
        case "sqlite":
            return _sqlite(folder)
        case "published":
            return Settled(_sqlite(folder), publish)
        case "reopened":

            def reopen(store: Store) -> Store:
                store.close()
                return _sqlite(folder)

            return Settled(_sqlite(folder), reopen)
        case "two":
            return TakingTurns(_sqlite(folder), _sqlite(folder))
        case "postgres-two":
            return TakingTurns(_postgres(folder), _postgres(folder))
        case "postgres":
            return _postgres(folder)
        case "postgres-published":
            return Settled(_postgres(folder, published=True), publish)
        case "milvus" | "weaviate":
            return Settled(_indexed(kind, folder), publish_to_index)
        case _:
            raise ValueError(kind)


# Each engine is imported where it is needed: the tests of one run without the packages of the others.


def _sqlite(folder: Path) -> Store:
    from fourfold.storage.sqlite.store import SqliteStore

    return SqliteStore(folder)


def _postgres(folder: Path, *, published: bool = False) -> Store:
    """If published, even the smallest namespaces have indexes; otherwise words are read in many stages."""
    from fourfold.storage.postgres.database import Tuning
    from fourfold.storage.postgres.store import PostgresStore

    indexed, staged = Tuning(postings_items=1, vector_index_items=1), Tuning(first_stage_uses=3)
    return PostgresStore(dsn_of(folder), indexed if published else staged)


def _indexed(kind: str, folder: Path) -> Store:
    """PostgreSQL with a distributed index that every search uses."""
    from fourfold.storage.engines import open_engine
    from fourfold.storage.postgres.database import Tuning
    from fourfold.storage.postgres.store import PostgresStore

    engine = open_engine(index_servers.address(kind))
    return PostgresStore(dsn_of(folder), Tuning(narrow_items=0, vector_index_items=1), engine)


def publish_to_index(store: Any) -> Store:
    """Gives every namespace an index."""
    for namespace in store.namespaces():
        store.feeder.create(namespace)
    return publish(store)


POSTGRES = ("postgres", "postgres-published")
KINDS = ("oracle", "sqlite", "published", "reopened", *POSTGRES, *index_servers.KINDS)

_stores: dict[Path, str] = {}


def dsn_of(folder: Path) -> str:
    """The address of a store on a server; a folder always gets the same address."""
    return _stores.setdefault(folder, postgres_servers.fresh())


# ---------------------------------------------------------------- shorthand for calls


def item(text: str = "", **fields: Any) -> NewItem:
    """An item as Memory passes it to a store."""
    return rules.checked(NewItem(text, **fields))


def add(store: StoreCalls, *items: NewItem | str, now: datetime = NOW, links: bool = True) -> list[int]:
    checked = [item(new) if isinstance(new, str) else new for new in items]
    return [stored.id for stored in store.put(NS, checked, now, links=links)]


def edit(store: StoreCalls, id: int, *, links: bool = True, **change: Any) -> None:
    """A patch as Memory passes it to a store."""
    store.patch(NS, id, rules.checked_patch(ItemPatch(**change)), LATER, links=links)


def exported(store: StoreCalls, namespace: str | None = None) -> list[Record]:
    records: list[Record] = []
    store.export(records.append, namespace=namespace)
    return records


def reloaded(store: StoreCalls, empty: StoreCalls) -> list[Record]:
    """Loads the export of a store into an empty one, whose export has to be the same; returns it."""
    records = exported(store)
    empty.load(records)
    assert exported(empty) == records
    return records


def one(store: StoreCalls, id: int) -> Item:
    return store.get(NS, [id])[id]


def search(
    store: StoreCalls, name: str, text: str = "", *, vector: Any = None, filters: Filters = NO_FILTERS, limit: int = 200
) -> list[int]:
    """The ids that a retriever finds."""
    with store.snapshot(NS) as snapshot:
        return ids(RETRIEVERS[name](snapshot).search(Query(NS, text, vector, filters), limit))


def ids(ranking: Ranking) -> list[int]:
    return [hit.id for hit in ranking.hits]


def unit(*numbers: float) -> Any:
    vector = np.array(numbers, np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)
