"""By relations: what the query names, and what that is connected with (S4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.model import Query, Ranking
from fourfold.search.walk import PERHAPS, Link, linked, named, related
from fourfold.stores.base import Store
from fourfold.text.entities import query_names, spelled_names


class GraphRetriever:
    name = "graph"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def search(self, query: Query, limit: int) -> Ranking:
        """`evidence`: the items that the query names, by how surely it means them."""
        links = await self._links(query, query_names(query.text))
        sure = {link.source for link in await self._links(query, spelled_names(query.text))} if links else set[int]()
        strengths = {link.source: 1.0 if link.source in sure else PERHAPS for link in links}
        hits = linked(strengths, links, limit)
        relations = sum(link.kind == "edge" and link.source in sure for link in links)
        return Ranking(hits, evidence=named(strengths, links), related=related(strengths, links), relations=relations)

    async def _links(self, query: Query, names: Sequence[str]) -> list[Link]:
        return await self._store.node_links(query.namespace, names, query.filters) if names else []

    async def expand(self, query: Query, seeds: Mapping[int, float], limit: int) -> Ranking:
        """One hop from what the query names and from the best hits of other retrievers."""
        links = await self._store.item_links(query.namespace, list(seeds), query.filters)
        return Ranking(linked(seeds, links, limit))
