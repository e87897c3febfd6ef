"""By words: BM25 over analysed text (S1.2)."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.model import Query, Ranking
from fourfold.stores.base import Store


class KeywordRetriever:
    name = "keyword"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def search(self, query: Query, limit: int) -> Ranking:
        return await self._store.match(query.namespace, query.text, limit, query.filters)

    async def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        return await self._store.match_scores(query.namespace, query.text, ids)
