"""By meaning: cosine between the query's vector and the items' (S1.1)."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.model import Query, Ranking
from fourfold.stores.base import Store


class SemanticRetriever:
    name = "semantic"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def search(self, query: Query, limit: int) -> Ranking:
        if query.vector is None:
            return Ranking()
        return await self._store.nearest(query.namespace, query.vector, limit, query.filters)

    async def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        if query.vector is None:
            return Ranking()
        return await self._store.similarities(query.namespace, query.vector, ids)
