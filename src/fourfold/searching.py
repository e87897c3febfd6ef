"""One question to one namespace: plan, vector, retrievers, rows, and what the response says of it all."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from fourfold import limits
from fourfold.config import Settings
from fourfold.embed.queue import Vectorizer
from fourfold.embed.vectors import check_vector
from fourfold.errors import EmbedderUnavailable
from fourfold.filters.unknown import unknown_names
from fourfold.model import NO_FILTERS, Degraded, Filters, Hits, Item, Plan, Query, Result, Retriever, SearchResponse
from fourfold.retrievers.graph import GraphRetriever
from fourfold.retrievers.keyword import KeywordRetriever
from fourfold.retrievers.semantic import SemanticRetriever
from fourfold.retrievers.tags import TagRetriever, tag_candidates
from fourfold.search import answer, file_names
from fourfold.search.answer import Fetch, Wish
from fourfold.search.pipeline import Found, HybridSearch
from fourfold.search.plan import PlanRequest, StoreFacts, make_plan
from fourfold.search.why import folded, reasons
from fourfold.stores.base import Store

if TYPE_CHECKING:
    from fourfold.model import RawRecord, Vector

    Given = Sequence[float] | Vector | None

log = logging.getLogger("fourfold")


@dataclass(frozen=True, slots=True)
class Why:
    """Why an item is where it is in the answer to a query, or why it is not there."""

    item: Item
    rank: int | None
    result: Result | None
    reasons: tuple[str, ...]
    sources: tuple[RawRecord, ...] = ()
    """The words that the item is drawn from."""


@dataclass(frozen=True, slots=True)
class Question:
    """What retrievers are asked, and how their answers are put together."""

    query: Query
    plan: Plan
    degraded: Sequence[Degraded]
    """Retrievers that are known to be unable to answer."""
    embed_ms: float
    notes: Sequence[str]


class Searching:
    """Searches of a store, in any of its namespaces."""

    def __init__(
        self,
        store: Store,
        vectorizer: Vectorizer | None,
        settings: Settings,
        troubles: Mapping[str, str],
        retrievers: Sequence[Retriever] | None = None,
    ) -> None:
        self._store = store
        self._vectorizer = vectorizer
        self._settings = settings
        self._troubles = troubles
        self._foreign = retrievers is not None
        own = [SemanticRetriever(store), KeywordRetriever(store), GraphRetriever(store), TagRetriever(store)]
        self._search = HybridSearch(retrievers or own, seconds=settings.retriever_seconds, find_keys=store.find_keys)

    async def answer(
        self, namespace: str, request: PlanRequest, wish: Wish, vector: Given, filters: Filters, now: datetime
    ) -> SearchResponse:
        started = time.perf_counter()
        question = await self._question(namespace, request, vector, filters)
        found, ranked, chosen = await self._answered(question, wish, now)
        if not ranked and namespace not in await self._store.namespaces():
            found = replace(found, notes=(*found.notes, f"nothing was ever stored in the namespace {namespace!r}"))
        elif filters.condition is not None:
            unknown = await unknown_names(self._store, namespace, filters.condition, negated_only=bool(ranked))
            found = replace(found, notes=(*found.notes, *unknown))
        total = (time.perf_counter() - started) * 1000
        response = answer.response(request.text, found.plan, filters, found, chosen, total)
        log.info("search", extra={"fourfold": answer.log_fields(response)})
        return response

    async def why(self, stored: Item, request: PlanRequest, vector: Given, filters: Filters, now: datetime) -> Why:
        question = await self._question(stored.namespace, request, vector, filters)
        plan, fetch = question.plan, self._fetch(stored.namespace)
        found = await self._found(question)
        passes = filters == NO_FILTERS or stored.id in await self._store.matching(stored.namespace, filters)
        order = await answer.ordered(found, plan, fetch, now)
        ids = order.hits.ids.tolist()
        rank = ids.index(stored.id) + 1 if stored.id in ids else None
        result = None
        if rank is not None:
            alone = replace(order, hits=order.hits[rank - 1 : rank])
            (result,) = await answer.results(found, plan, alone, fetch, Wish(explain=True), request.text)
        scored = await self._search.scores(question.query, plan, stored.id)
        told = reasons(stored.id, plan, found, scored, passes)
        better = list((await fetch(ids[: min(rank - 1, limits.FOLD_DEPTH)])).values()) if rank else []
        return Why(stored, rank, result, (*told, *folded(stored, better)))

    # ------------------------------------------------------------ the question

    async def _question(self, namespace: str, request: PlanRequest, given: Given, filters: Filters) -> Question:
        plan = make_plan(request, self._settings.plan, await self._facts(namespace, request))
        started = time.perf_counter()
        vector, degraded = await self._query_vector(namespace, plan, request.text, given)
        embed_ms = (time.perf_counter() - started) * 1000
        notes = self._notes(request.text, embedded=vector is not None and given is None)
        return Question(Query(namespace, request.text, vector, filters), plan, degraded, embed_ms, notes)

    async def _facts(self, namespace: str, request: PlanRequest) -> StoreFacts:
        """Only adaptive alpha asks for them."""
        if request.preset != "memories":
            return StoreFacts()
        counts = await self._store.tag_counts(namespace)
        named = [tag for tag in tag_candidates(request.text) if tag in counts]
        return StoreFacts((await self._store.size(namespace)).items, len(named))

    async def _query_vector(
        self, namespace: str, plan: Plan, text: str, given: Given
    ) -> tuple[Vector | None, list[Degraded]]:
        if given is not None:
            return check_vector(given), []  # whether it fits the namespace is for the store to say
        if "semantic" not in plan.retrievers:
            return None, []
        if self._vectorizer is None:
            return None, [Degraded("semantic", "there is no embedder, and the query came without a vector")]
        try:
            await self._vectorizer.check_space(namespace)
            return await self._vectorizer.query(text), []
        except EmbedderUnavailable as error:
            return None, [Degraded("semantic", str(error))]

    def _notes(self, text: str, *, embedded: bool) -> list[str]:
        notes = [f"{what}: {why}" for what, why in self._troubles.items()]
        embedder = self._vectorizer.embedder if self._vectorizer is not None and embedded else None
        if embedder is not None and len(text) > limits.MODEL_TOKENS and embedder.truncates(text):
            notes.append("the model read only the beginning of the query")
        return notes

    # ------------------------------------------------------------ the answer

    async def _answered(self, question: Question, wish: Wish, now: datetime) -> tuple[Found, Hits, list[Result]]:
        """At once where that is possible, else with the retrievers apart."""
        query, plan = question.query, question.plan
        fetch = self._fetch(query.namespace)

        async def searching(*, here: bool) -> tuple[Found, Hits, list[Result]]:
            found = await self._found(question, here=here)
            order = await answer.ordered(found, plan, fetch, now)
            return found, order.hits, await answer.results(found, plan, order, fetch, wish, query.text)

        if not self._foreign:  # others may have to wait for something
            beside = {"semantic"} < set(plan.retrievers)
            asked = query if beside else replace(query, vector=None)
            seconds = self._settings.retriever_seconds / 2
            done = await self._store.at_once(asked, partial(searching, here=True), seconds)
            if done is not None:
                return done
        return await searching(here=False)

    def _fetch(self, namespace: str) -> Fetch:
        async def fetch(ids: Sequence[int]) -> Mapping[int, Item]:
            return await self._store.get(namespace, ids)

        return fetch

    async def _found(self, question: Question, *, here: bool = False) -> Found:
        query, plan = question.query, question.plan
        found = await self._search.run(query, plan, question.degraded, here=here)
        fusion = found.fusion
        if plan.preset in file_names.PRESETS:
            spelled = file_names.candidates(query.text)
            named = await self._store.named_chunks(query.namespace, list(spelled), query.filters) if spelled else []
            fusion = file_names.with_file_names(fusion, file_names.chosen(spelled, named))
        timings = {"embed": question.embed_ms, **found.timings_ms}
        return replace(found, fusion=fusion, notes=(*found.notes, *question.notes), timings_ms=timings)
