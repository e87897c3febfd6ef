"""What the retrievers ask of a store, each in as few ways to the server as it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fourfold import limits
from fourfold.embed.vectors import check_dimension
from fourfold.model import NO_FILTERS, Filters, Query, Ranking
from fourfold.search.sharing import telling
from fourfold.search.walk import Link
from fourfold.stores.base import TagUse
from fourfold.stores.keyword_query import KeywordQuery
from fourfold.stores.postgres import graph_search, items, keyword, scores, spaces, tags, vectors
from fourfold.stores.postgres.access import Access
from fourfold.stores.postgres.cache import Cache
from fourfold.stores.postgres.filters import Condition, where
from fourfold.stores.postgres.keyword import Preparation
from fourfold.stores.postgres.packed import Packed
from fourfold.stores.postgres.postings import Shelf
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Answer, Db, Statement, rows, together

if TYPE_CHECKING:
    from fourfold.model import Vector

F = TypeVar("F", Link, TagUse)
T = TypeVar("T")

_NARROW = 5000
"""So few items pass a filter: score them all instead of asking an index."""


class Retrieval(Access):
    """Remembers what holds until something changes; a look at the namespace, with every question, tells whether."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._languages = Cache[dict[str, int]]()
        self._queries = Cache[KeywordQuery]()
        self._samples = Cache[vectors.Sample]()
        self._narrow = Cache[list[int] | None]()
        self._shelf = Shelf()
        self._tags = Cache[tuple[float, Mapping[str, int]]]()

    async def nearest(self, namespace: str, vector: Vector, limit: int, filters: Filters) -> Ranking:
        def asked(ns: Namespace) -> list[Statement]:
            if filters != NO_FILTERS or not vectors.fits(ns, vector):
                return []
            return [vectors.proposal(ns, vector, limit)]

        async def searching(db: Db, ns: Namespace, found: list[list[Answer]]) -> Ranking:
            if ns.space is None:
                return Ranking(pending=ns.size.pending)
            check_dimension(len(vector), ns.space.dimension)
            near = Packed.read(found[0][0]) if found else await self._near(db, ns, vector, limit, filters)
            hits = vectors.scored(near, ns.space.dimension, vector)[:limit]
            sample = await self._samples.get(ns.id, ns.vector_changes, "", lambda: vectors.sample(db, ns))
            return Ranking(hits, sample.background(vector), ns.size.pending)

        return await self._ask(namespace, Ranking(), asked, searching)

    async def _near(self, db: Db, ns: Namespace, vector: Vector, limit: int, filters: Filters) -> Packed:
        """Rows among which the nearest are that satisfy the filters."""
        condition, narrow = await self._filtered(db, ns, filters)
        if narrow is not None:
            return await vectors.read(db, vectors.among(ns, vector, narrow, limit))
        found = await vectors.read(db, vectors.proposal(ns, vector, limit, condition))
        if found.proposed < limit:  # the index gave up before enough rows passed
            found = await vectors.read(db, vectors.of_items(ns, await items.matching(db, ns, filters)))
        return found

    async def similarities(self, namespace: str, vector: Vector, ids: Sequence[int]) -> Ranking:
        def asked(ns: Namespace) -> list[Statement]:
            return [vectors.of_items(ns, ids)]

        async def scoring(db: Db, ns: Namespace, found: list[list[Answer]]) -> Ranking:
            if ns.space is None:
                return Ranking()
            check_dimension(len(vector), ns.space.dimension)
            return Ranking(vectors.scored(Packed.read(found[0][0]), ns.space.dimension, vector))

        return await self._ask(namespace, Ranking(), asked, scoring)

    async def match(self, namespace: str, text: str, limit: int, filters: Filters) -> Ranking:
        search = keyword.Beginning(text, limit, self._languages, self._queries, self._shelf)

        async def searching(db: Db, ns: Namespace, found: list[list[Answer]]) -> Ranking:
            begun, early = search.learn(found)
            query = await self._query(db, ns, text, begun)
            condition, narrow = await self._filtered(db, ns, filters)
            return await keyword.match(db, ns, query, limit, condition, narrow, self._shelf, early)

        return await self._ask(
            namespace, Ranking(), lambda ns: search.asked(ns, early=filters == NO_FILTERS), searching
        )

    async def match_scores(self, namespace: str, text: str, ids: Sequence[int]) -> Ranking:
        def asked(ns: Namespace) -> list[Statement]:
            return [scores.of_items(ns, ids)]

        async def scoring(db: Db, ns: Namespace, found: list[list[Answer]]) -> Ranking:
            return scores.match_scores(ns, await self._query(db, ns, text), Packed.read(found[0][0]))

        return await self._ask(namespace, Ranking(), asked, scoring)

    async def _query(self, db: Db, ns: Namespace, text: str, begun: Preparation | None = None) -> KeywordQuery:
        """Remembered while no text changes: search and score ask for the same one."""

        async def prepared() -> KeywordQuery:
            preparing = begun
            if preparing is None:
                languages = await self._languages.get(ns.id, ns.text_changes, "", lambda: spaces.languages(db, ns.id))
                preparing = Preparation(ns, text, languages)
            while not preparing.is_complete:
                preparing.learn(await together(db, preparing.questions()))
            return preparing.query

        return await self._queries.get(ns.id, ns.text_changes, text, prepared)

    async def _filtered(self, db: Db, ns: Namespace, filters: Filters) -> tuple[Condition, Sequence[int] | None]:
        """The filters as a condition, and the items that satisfy it where they are few."""
        if filters == NO_FILTERS:
            return ("", ()), None

        async def few() -> list[int] | None:
            found = await items.matching(db, ns, filters, _NARROW + 1)
            return found if len(found) <= _NARROW else None

        narrow = await self._narrow.get(ns.id, ns.changes, repr(filters), few)
        return (await where(db, filters, ns.id) if narrow is None else ("", ())), narrow

    async def node_links(self, namespace: str, names: Sequence[str], filters: Filters) -> list[Link]:
        async def linking(db: Db) -> list[Link]:
            nodes = graph_search.named(await rows(db, *graph_search.naming(namespace, names)))
            if not nodes:
                return []
            links = graph_search.node_links(*await together(db, graph_search.around_nodes(nodes)))
            return await self._passing(db, namespace, filters, links)

        return await self._in_time(linking)

    async def item_links(self, namespace: str, ids: Sequence[int], filters: Filters) -> list[Link]:
        async def linking(db: Db) -> list[Link]:
            links = graph_search.item_links(*await together(db, graph_search.around_items(namespace, ids)))
            return await self._passing(db, namespace, filters, links)

        return await self._in_time(linking)

    async def _passing(self, db: Db, namespace: str, filters: Filters, found: list[F]) -> list[F]:
        """Those links or uses whose item satisfies the filters."""
        ns = await spaces.find(db, namespace) if filters != NO_FILTERS and found else None
        if ns is None:
            return found
        wanted = sorted({row.item for row in found})
        kept = await items.passing(db, ns, filters, wanted)
        return [row for row in found if row.item in kept]

    async def tag_counts(self, namespace: str) -> Mapping[str, int]:
        async def counting(db: Db, ns: Namespace) -> Mapping[str, int]:
            async def fresh() -> tuple[float, Mapping[str, int]]:
                return time.monotonic(), await tags.counts(db, ns)

            known = await self._tags.get(ns.id, ns.changes, "", fresh)
            if time.monotonic() - known[0] > limits.TAG_CACHE_SECONDS:
                self._tags.clear()
                known = await self._tags.get(ns.id, ns.changes, "", fresh)
            return known[1]

        return await self._read(namespace, {}, counting)

    async def tagged(self, namespace: str, candidates: Sequence[str], filters: Filters) -> list[TagUse]:
        async def using(db: Db) -> list[TagUse]:
            found = tags.tagged(await rows(db, *tags.using(namespace, candidates)))
            return await self._passing(db, namespace, filters, found)

        return await self._in_time(using)

    async def sharing(self, namespace: str, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        async def using(db: Db) -> list[TagUse]:
            shared = telling(dict(await rows(db, *tags.carried(namespace, ids))))
            found = tags.tagged(await rows(db, *tags.using(namespace, shared))) if shared else []
            return await self._passing(db, namespace, filters, found)

        return await self._in_time(using)

    async def at_once(self, query: Query, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T | None:
        return None
