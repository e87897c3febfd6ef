"""The stores under test, all behind the one protocol, and each in a state that a store may be in when it is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import postgres_servers

from fourfold import items as rules
from fourfold.model import NO_FILTERS, Filters, Item, ItemPatch, NewItem, Query, Ranking
from fourfold.retrievers.graph import GraphRetriever
from fourfold.retrievers.keyword import KeywordRetriever
from fourfold.retrievers.semantic import SemanticRetriever
from fourfold.retrievers.tags import TagRetriever
from fourfold.stores.base import Store
from fourfold.stores.memory import MemoryStore
from fourfold.stores.postgres.store import PostgresStore
from fourfold.stores.sqlite.store import SqliteStore

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 3, 2, 12, tzinfo=UTC)
NS = "notes"

WRITES = ("put", "patch", "forget", "load", "add_", "remove_", "set_", "reset_")
"""How the names of the methods that write begin."""


class Settled:
    """A store that gets ready between a write and the next read: it publishes its indexes, or is opened anew."""

    def __init__(self, store: Store, settle: Callable[[Store], Awaitable[Store]]) -> None:
        self._store = store
        self._settle = settle
        self._written = False

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._written and not name.startswith(WRITES):
                self._store = await self._settle(self._store)
            self._written = name.startswith(WRITES)
            return await getattr(self._store, name)(*args, **kwargs)

        return call


class TakingTurns:
    """Two stores open on one folder or server: what one of them wrote, the other one is asked for (B6)."""

    def __init__(self, *stores: Store) -> None:
        self._stores = list(stores)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        self._stores.reverse()
        return getattr(self._stores[0], name)

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


async def publish(store: Store) -> Store:
    for namespace in await store.namespaces():
        await store.maintain(namespace, wholly=True)
    return store


def make(kind: str, folder: Path) -> Any:
    match kind:
        case "memory":
            return MemoryStore()
        case "sqlite":
            return SqliteStore(folder)
        case "published":
            return Settled(SqliteStore(folder), publish)
        case "reopened":

            async def reopen(store: Store) -> Store:
                await store.close()
                return SqliteStore(folder)

            return Settled(SqliteStore(folder), reopen)
        case "two":
            return TakingTurns(SqliteStore(folder), SqliteStore(folder))
        case "postgres-two":
            return TakingTurns(*(PostgresStore(dsn_of("postgres", folder)) for _ in range(2)))
        case "postgres":
            return PostgresStore(dsn_of(kind, folder))
        case "textsearch":  # its indexes are made for the smallest of namespaces: see conftest.py
            return Settled(PostgresStore(dsn_of(kind, folder)), publish)
        case _:
            raise ValueError(kind)


KINDS = ("memory", "sqlite", "published", "reopened", *postgres_servers.KINDS)

_stores: dict[tuple[str, Path], str] = {}


def dsn_of(kind: str, folder: Path) -> str:
    """A store on a server, the same for the same folder."""
    return _stores.setdefault((kind, folder), postgres_servers.fresh(kind))


# ---------------------------------------------------------------- shorthand for calls


def item(text: str = "", **fields: Any) -> NewItem:
    """An item as Memory hands it to a store."""
    return rules.checked(NewItem(text, **fields))


async def add(store: Store, *items: NewItem | str, now: datetime = NOW, links: bool = True) -> list[int]:
    checked = [item(new) if isinstance(new, str) else new for new in items]
    return [stored.id for stored in await store.put(NS, checked, now, links=links)]


async def edit(store: Store, id: int, *, links: bool = True, **change: Any) -> None:
    """A patch as Memory hands it to a store."""
    await store.patch(NS, id, rules.checked_patch(ItemPatch(**change)), LATER, links=links)


async def one(store: Store, id: int) -> Item:
    return (await store.get(NS, [id]))[id]


RETRIEVERS = {kind.name: kind for kind in (SemanticRetriever, KeywordRetriever, GraphRetriever, TagRetriever)}


async def search(
    store: Store, name: str, text: str = "", *, vector: Any = None, filters: Filters = NO_FILTERS, limit: int = 200
) -> list[int]:
    """The ids that a retriever finds."""
    ranking = await RETRIEVERS[name](store).search(Query(NS, text, vector, filters), limit)
    return ids(ranking)


def ids(ranking: Ranking) -> list[int]:
    return [hit.id for hit in ranking.hits]


def unit(*numbers: float) -> Any:
    vector = np.array(numbers, np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)
