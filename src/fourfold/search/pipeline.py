"""One search: retrievers side by side, graph and tags going on from their best hits, and one ranking of it all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fourfold.arguments import checks_arguments
from fourfold.errors import DamagedError, FourfoldError, RequestError, SearchFailed, StoreReplaced
from fourfold.immediate import immediately
from fourfold.limits import CANDIDATES, RETRIEVER_SECONDS
from fourfold.model import Degraded, ExpandingRetriever, Hit, Plan, Query, Ranking, Retriever, ScoringRetriever
from fourfold.search.auto import EXPANSIONS, SHARED, TEXTS, WALK, AutoInputs, fuse_auto
from fourfold.search.fusion import Fusion, columns, others, rrf, scores_of, weighted
from fourfold.search.injected import FindKeys, with_item_ids
from fourfold.search.routing import routed
from fourfold.search.walk import seeds

if TYPE_CHECKING:
    from fourfold.model import Ints


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that one search learned."""

    rankings: Mapping[str, Ranking]
    """By retriever, for those that answered; `walk` and `shared` where graph and tags went on from the best hits."""
    scores: Mapping[str, Ranking]
    """What a retriever says of items that it did not list."""
    fusion: Fusion
    coverage: Mapping[int, float]
    """Share of the query's words, by their rarity, that stand in an item."""
    degraded: tuple[Degraded, ...]
    notes: tuple[str, ...]
    timings_ms: Mapping[str, float]
    plan: Plan
    """As it was carried out: routing may depend on what the graph knows."""

    def raw(self, retriever: str, ids: Ints) -> list[float | None]:
        """A retriever's own score of each of some items, if it has one."""
        tables = [table[retriever] for table in (self.rankings, self.scores) if retriever in table]
        told = [scores_of(columns(ranking.hits), ids) for ranking in tables] or [[None] * len(ids)]
        return [next((score for score in scores if score is not None), None) for scores in zip(*told, strict=True)]


@dataclass(slots=True)
class _Progress:
    """What is known so far while one search runs."""

    here: bool = False
    rankings: dict[str, Ranking] = field(default_factory=dict[str, Ranking])
    degraded: list[Degraded] = field(default_factory=list[Degraded])
    timings: dict[str, float] = field(default_factory=dict[str, float])
    fatal: DamagedError | StoreReplaced | None = None
    """What is wrong with the store itself."""


@checks_arguments
class HybridSearch:
    """Retrievers are injected: anything with a name and an async `search` (S2.1)."""

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        *,
        seconds: float = RETRIEVER_SECONDS,
        find_keys: FindKeys | None = None,
    ) -> None:
        """`find_keys` (of a store) is for retrievers that rank by the keys of items instead of their ids."""
        self._retrievers = {each.name: each for each in retrievers}
        self._scoring = {each.name: each for each in retrievers if isinstance(each, ScoringRetriever)}
        self._expanding = [each for each in retrievers if isinstance(each, ExpandingRetriever)]
        self._seconds = seconds
        self._find_keys = find_keys

    async def run(self, query: Query, plan: Plan, degraded: Sequence[Degraded] = (), *, here: bool = False) -> Found:
        """`degraded` names retrievers that are known to be unable to answer; they are not asked.

        `here`: they answer without waiting, one after the other, in a thread without an event loop; what one raises
        ends it all.
        """
        progress = _Progress(here, degraded=list(degraded))
        lost = {failure.retriever for failure in degraded}
        asked = [self._retrievers[name] for name in plan.retrievers if name in self._retrievers and name not in lost]
        await self._all(progress, {each.name: self._asked(query, each) for each in asked})
        if not progress.rankings:
            raise progress.fatal or SearchFailed(
                _said(progress.degraded), "The store is there; mend what the message names, and try again"
            )
        plan = routed(plan, progress.rankings)
        scores, coverage = await self._true_scores(query, plan, progress)
        started = time.perf_counter()
        fusion = _fused(plan, progress.rankings, scores, coverage)
        progress.timings["fusion"] = (time.perf_counter() - started) * 1000
        return Found(
            progress.rankings,
            scores,
            fusion,
            coverage,
            tuple(progress.degraded),
            tuple(note for ranking in progress.rankings.values() for note in ranking.notes),
            progress.timings,
            plan,
        )

    async def _asked(self, query: Query, retriever: Retriever) -> Ranking:
        found = await retriever.search(query, CANDIDATES)
        return await with_item_ids(found, retriever.name, query.namespace, self._find_keys)

    async def scores(self, query: Query, plan: Plan, item: int) -> dict[str, float]:
        """What the planned retrievers that can score say of one item, listed or not."""
        answers = _Progress()
        asked = (each for name, each in self._scoring.items() if name in plan.retrievers)
        await self._all(answers, {each.name: each.score(query, [item]) for each in asked})
        return {name: ranking.scores[item] for name, ranking in answers.rankings.items() if item in ranking.scores}

    async def _true_scores(
        self, query: Query, plan: Plan, progress: _Progress
    ) -> tuple[dict[str, Ranking], dict[int, float]]:
        """For `auto`: the walk, then what each retriever says of all that the others listed."""
        coverage = _coverage(progress)
        if plan.fusion != "auto":
            return {}, coverage
        if plan.expand:
            await self._expand(query, plan, progress)
        answers = _Progress(progress.here, degraded=progress.degraded)
        await self._all(answers, self._questions(query, progress.rankings))
        for name, milliseconds in answers.timings.items():
            progress.timings[name] += milliseconds
        if "keyword" in answers.rankings:
            coverage |= answers.rankings["keyword"].evidence
        return answers.rankings, coverage

    def _questions(self, query: Query, rankings: Mapping[str, Ranking]) -> dict[str, Coroutine[Any, Any, Ranking]]:
        """For each retriever that can score: the items that only others listed."""
        listed = {name: columns(ranking.hits).ids for name, ranking in rankings.items()}
        unlisted = {name: others(listed[name], [*listed.values()]) for name in self._scoring if name in listed}
        return {name: self._scoring[name].score(query, ids) for name, ids in unlisted.items() if ids}

    async def _expand(self, query: Query, plan: Plan, progress: _Progress) -> None:
        """Graph and tags go on from what semantic and keyword find best together, and from what the query names."""
        able = {EXPANSIONS.get(each.name, WALK): each for each in self._expanding if each.name in progress.rankings}
        if plan.weights is not None or plan.fixed is not None:  # a weight of tags is for those that the query names
            able.pop(SHARED, None)
        if not able:
            return
        texts = {name: progress.rankings[name] for name in TEXTS if name in progress.rankings}
        named = progress.rankings[able[WALK].name].evidence if WALK in able else dict[int, float]()
        starts = seeds(_fused(plan, texts, {}, _coverage(progress)), named)
        if starts:
            await self._all(progress, {name: each.expand(query, starts, CANDIDATES) for name, each in able.items()})

    async def _all(self, progress: _Progress, calls: Mapping[str, Coroutine[Any, Any, Ranking]]) -> None:
        """Runs the calls side by side. One that fails or is late is named, and the others count (S2.6)."""
        if progress.here:
            return _here(progress, calls)
        if not calls:
            return
        tasks = {asyncio.ensure_future(_timed(name, call, progress.timings)): name for name, call in calls.items()}
        for task in tasks:
            task.add_done_callback(_noticed)
        try:
            done, late = await asyncio.wait(tasks, timeout=self._seconds)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            raise
        for task in late:
            task.cancel()
            progress.timings[tasks[task]] = self._seconds * 1000
            progress.degraded.append(Degraded(tasks[task], f"no answer within {self._seconds:g} s"))
        for task in sorted(done, key=lambda task: list(calls).index(tasks[task])):
            error = task.exception()
            if error is None:
                progress.rankings[tasks[task]] = task.result()
            elif isinstance(error, RequestError) or not isinstance(error, Exception):
                raise error
            else:
                progress.degraded.append(Degraded(tasks[task], _reason(error)))
                progress.fatal = error if isinstance(error, DamagedError | StoreReplaced) else progress.fatal


def _here(progress: _Progress, calls: Mapping[str, Coroutine[Any, Any, Ranking]]) -> None:
    """What is nearest comes last: the store may be looking for it all the while."""
    answers: dict[str, Ranking] = {}
    try:
        for name in sorted(calls, key=lambda name: name == "semantic"):
            started = time.perf_counter()
            answers[name] = immediately(calls[name])
            progress.timings[name] = (time.perf_counter() - started) * 1000
        progress.rankings.update({name: answers[name] for name in calls})
    finally:
        for call in calls.values():
            call.close()


def _coverage(progress: _Progress) -> dict[int, float]:
    return dict(progress.rankings["keyword"].evidence) if "keyword" in progress.rankings else {}


def _noticed(task: asyncio.Future[Ranking]) -> None:
    """So that asyncio does not complain of an error that came too late for anybody to want it."""
    if not task.cancelled():
        task.exception()


async def _timed(name: str, call: Coroutine[Any, Any, Ranking], timings: dict[str, float]) -> Ranking:
    started = time.perf_counter()
    try:
        return await call
    finally:
        timings[name] = (time.perf_counter() - started) * 1000


def _fused(
    plan: Plan,
    rankings: Mapping[str, Ranking],
    scores: Mapping[str, Ranking],
    coverage: Mapping[int, float],
) -> Fusion:
    lists: dict[str, Sequence[Hit]] = {name: ranking.hits for name, ranking in rankings.items()}
    if plan.fusion == "auto":
        backgrounds = {name: ranking.background for name, ranking in rankings.items()}
        words, tags = rankings.get("keyword", Ranking()), rankings.get("tags", Ranking())
        tagged = max(tags.evidence.values(), default=1.0)
        unlisted = {name: ranking.hits for name, ranking in scores.items()}
        evidence = (coverage, words.unknown, words.items, tagged)
        return fuse_auto(AutoInputs(lists, unlisted, backgrounds, plan.weights, *evidence, plan.fixed))
    weights = plan.weights or {}
    return rrf(lists, weights, plan.k) if plan.fusion == "rrf" else weighted(lists, weights)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, FourfoldError) else f"{type(error).__name__}: {error}"


def _said(degraded: Sequence[Degraded]) -> str:
    reasons = "; ".join(f"{failure.retriever}: {failure.reason}" for failure in degraded)
    return f"no retriever could answer ({reasons})"
