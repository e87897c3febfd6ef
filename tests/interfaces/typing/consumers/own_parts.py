"""An embedder and a retriever of the caller's own."""

from collections.abc import Sequence
from pathlib import Path

from fourfold import BaseEmbedder, Embedder, Hit, HybridSearch, Memory, NewItem, Query, Ranking, Retriever
from fourfold.storage.protocols import Store


class Small:
    """Only what the protocol names."""

    name = "small-1"
    dimension = 2

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]


class Complete(BaseEmbedder):
    name = "complete-1"
    dimension = 2

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    def truncates(self, text: str) -> bool:
        return len(text) > 1000


class Newest:
    """Ranks the newest items first, in place of keyword search."""

    name = "keyword"

    def __init__(self, store: Store) -> None:
        self._store = store

    def search(self, query: Query, limit: int) -> Ranking:
        with self._store.snapshot(query.namespace) as snapshot:
            items = snapshot.rows.list(query.filters, limit, 0)
        return Ranking(tuple(Hit(item.id, 1 / place) for place, item in enumerate(items, 1)))


class Elsewhere:
    """Ranks by the caller's own keys."""

    name = "semantic"

    def search(self, query: Query, limit: int) -> Ranking:
        return Ranking.of_keys([("second", 0.9), ("first", 0.4)][:limit])


def retrievers(store: Store) -> Sequence[Retriever]:
    return [Newest(store), Elsewhere()]


def blocking(folder: Path, embedder: Embedder) -> list[str]:
    with Memory.open(folder, embedder=embedder, retrievers=retrievers) as memory:
        memory.add_many([NewItem("one", key="first"), NewItem("two", key="second")], wait=True)
        return [result.item.text for result in memory.search("anything", fusion="rrf").results]


def by_hand(folder: Path) -> HybridSearch:
    with Memory.open(folder, embedder=Complete()) as memory:

        def find_keys(namespace: str, keys: Sequence[str]) -> dict[str, int]:
            with memory.store.snapshot(namespace) as snapshot:
                return snapshot.rows.find_keys(keys)

        return HybridSearch(retrievers(memory.store), seconds=1.0, find_keys=find_keys)


def both(folder: Path) -> list[str]:
    return [*blocking(folder / "small", Small()), *blocking(folder / "complete", Complete())]
