"""By relations: what the query names, and what that is connected with (S4.2)."""

from __future__ import annotations

from collections.abc import Mapping

from fourfold.model import Query, Ranking
from fourfold.search.walk import linked, named
from fourfold.stores.base import Store
from fourfold.text.entities import query_names


class GraphRetriever:
    name = "graph"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def search(self, query: Query, limit: int) -> Ranking:
        links = await self._store.node_links(query.namespace, query_names(query.text), query.filters)
        strengths = dict.fromkeys((link.source for link in links), 1.0)
        return Ranking(linked(strengths, links, limit), evidence=named(links))

    async def expand(self, query: Query, seeds: Mapping[int, float], limit: int) -> Ranking:
        """One hop from what the query names and from the best hits of other retrievers."""
        links = await self._store.item_links(query.namespace, list(seeds), query.filters)
        return Ranking(linked(seeds, links, limit))
