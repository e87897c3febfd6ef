"""HybridSearch with injected retrievers: side by side, timed, and never taken down by one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pytest

from fourfold.errors import DamagedStore, InvalidQuery, SearchFailed
from fourfold.model import Hit, Plan, Query, Ranking
from fourfold.search.pipeline import HybridSearch
from fourfold.search.walk import BEST_HIT

QUERY = Query("default", "anything")


class Fake:
    """A retriever that does what the test says."""

    def __init__(self, name: str, answer: Callable[[], Awaitable[Ranking]]) -> None:
        self.name = name
        self._answer = answer

    async def search(self, query: Query, limit: int) -> Ranking:
        return await self._answer()


def fixed(name: str, *found: int) -> Fake:
    async def answer() -> Ranking:
        return Ranking(tuple(Hit(item, 1.0 - place / 10) for place, item in enumerate(found)))

    return Fake(name, answer)


def failing(name: str, error: Exception) -> Fake:
    async def answer() -> Ranking:
        raise error

    return Fake(name, answer)


def endless(name: str) -> Fake:
    async def answer() -> Ranking:
        await asyncio.Event().wait()
        raise AssertionError

    return Fake(name, answer)


def plan(*names: str, fusion: str = "rrf") -> Plan:
    return Plan("auto", names, fusion, 60, 10, {name: 1 / len(names) for name in names})  # type: ignore[arg-type]


@pytest.mark.spec("S2.1")
async def test_retrievers_run_side_by_side() -> None:
    started = {"semantic": asyncio.Event(), "keyword": asyncio.Event()}

    def waits_for(name: str, other: str) -> Fake:
        async def answer() -> Ranking:
            started[name].set()
            await started[other].wait()
            return Ranking((Hit(1, 1.0),))

        return Fake(name, answer)

    search = HybridSearch([waits_for("semantic", "keyword"), waits_for("keyword", "semantic")], seconds=60)
    found = await search.run(QUERY, plan("semantic", "keyword"))
    assert found.fusion.ids == [1]
    assert found.degraded == ()


@pytest.mark.spec("S2.4", "B3")
@pytest.mark.parametrize("fusion", ["rrf", "weighted", "auto"])
async def test_the_time_of_each_retriever_and_of_fusion_is_known(fusion: str) -> None:
    search = HybridSearch([fixed("semantic", 1), failing("keyword", OSError("gone")), fixed("tags")])
    found = await search.run(QUERY, plan("semantic", "keyword", "tags", fusion=fusion))
    assert found.timings_ms.keys() == {"semantic", "keyword", "tags", "fusion"}
    assert all(spent >= 0 for spent in found.timings_ms.values())


@pytest.mark.spec("S2.6", "B3")
async def test_one_that_fails_is_named_and_the_others_answer() -> None:
    search = HybridSearch([failing("semantic", OSError("no such device")), fixed("keyword", 7, 8)])
    found = await search.run(QUERY, plan("semantic", "keyword"))
    assert found.fusion.ids == [7, 8]
    ((name, reason),) = [(failure.retriever, failure.reason) for failure in found.degraded]
    assert name == "semantic"
    assert "no such device" in reason


@pytest.mark.spec("S2.6", "B3")
@pytest.mark.parametrize("fusion", ["rrf", "weighted", "auto"])
async def test_one_that_is_late_is_named_and_the_others_answer(fusion: str) -> None:
    search = HybridSearch([endless("semantic"), fixed("keyword", 7, 8)], seconds=0.001)
    found = await search.run(QUERY, plan("semantic", "keyword", fusion=fusion))
    assert found.fusion.ids == [7, 8]
    assert [failure.retriever for failure in found.degraded] == ["semantic"]
    assert "within" in found.degraded[0].reason
    assert found.timings_ms["semantic"] > 0  # how long it was waited for


@pytest.mark.spec("S2.6")
async def test_when_every_retriever_fails_that_is_an_error() -> None:
    search = HybridSearch([failing("semantic", OSError("first")), endless("keyword")], seconds=0.001)
    with pytest.raises(SearchFailed) as raised:
        await search.run(QUERY, plan("semantic", "keyword"))
    assert "semantic" in raised.value.message
    assert "keyword" in raised.value.message
    assert raised.value.remedy


@pytest.mark.spec("S2.6")
async def test_one_that_finds_nothing_has_not_failed() -> None:
    search = HybridSearch([fixed("semantic"), failing("keyword", OSError())])
    found = await search.run(QUERY, plan("semantic", "keyword"))
    assert found.fusion.ids == []


@pytest.mark.spec("S1.5")
async def test_a_wrong_request_is_not_a_failing_retriever() -> None:
    search = HybridSearch([failing("semantic", InvalidQuery("nonsense", "Ask again")), fixed("keyword", 7)])
    with pytest.raises(InvalidQuery):
        await search.run(QUERY, plan("semantic", "keyword"))


async def test_a_damaged_store_is_said_when_it_silences_every_retriever() -> None:
    """Exit code 4, not 3: trying again will not help."""
    damage = DamagedStore("the file is damaged", "Restore a backup")
    search = HybridSearch([failing("semantic", damage), failing("keyword", OSError())])
    with pytest.raises(DamagedStore):
        await search.run(QUERY, plan("semantic", "keyword"))


async def test_cancelling_a_search_cancels_its_retrievers() -> None:
    running, stopped = asyncio.Event(), asyncio.Event()

    async def answer() -> Ranking:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    search = HybridSearch([Fake("semantic", answer)], seconds=60)
    task = asyncio.create_task(search.run(QUERY, plan("semantic")))
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(stopped.wait(), 60)


# ---------------------------------------------------------------- the walk, the second stage of `auto`


class Walking(Fake):
    """A graph that names one item, and notes where it is sent from."""

    def __init__(self, walk: Callable[[], Awaitable[Ranking]]) -> None:
        super().__init__("graph", self._named)
        self._walk = walk
        self.starts: dict[int, float] = {}

    async def _named(self) -> Ranking:
        return Ranking((Hit(7, 1.0), Hit(8, 0.1)), evidence={7: 1.0})

    async def expand(self, query: Query, seeds: Mapping[int, float], limit: int) -> Ranking:
        self.starts = dict(seeds)
        return await self._walk()


def walking_plan(*names: str) -> Plan:
    return replace(plan(*names, fusion="auto"), weights=None, expand=True)


@pytest.mark.spec("S4.2")
async def test_the_walk_starts_from_the_fused_best_and_from_what_the_query_names() -> None:
    graph = Walking(fixed("walk", 9)._answer)
    search = HybridSearch([fixed("semantic", 1, 2), fixed("keyword", 2, 1), graph])
    found = await search.run(QUERY, walking_plan("semantic", "keyword", "graph"))
    assert graph.starts.keys() == {1, 2, 7}
    assert graph.starts[7] == 1.0
    assert max(graph.starts[1], graph.starts[2]) == pytest.approx(BEST_HIT)
    assert 9 in found.fusion.ids


@pytest.mark.spec("S2.6")
@pytest.mark.parametrize("walk", [failing("walk", OSError("gone")), endless("walk")])
async def test_a_walk_that_fails_or_is_late_is_named_and_the_rest_answers(walk: Fake) -> None:
    search = HybridSearch([fixed("semantic", 1), Walking(walk._answer)], seconds=0.05)
    found = await search.run(QUERY, walking_plan("semantic", "graph"))
    assert [failure.retriever for failure in found.degraded] == ["walk"]
    assert set(found.fusion.ids) == {1, 7, 8}


@pytest.mark.spec("S5.2", "S2.6")
async def test_tags_go_on_from_the_best_by_text_and_their_failure_is_named() -> None:
    tags = Walking(fixed("shared", 9)._answer)
    tags.name = "tags"
    search = HybridSearch([fixed("semantic", 1, 2), tags])
    found = await search.run(QUERY, walking_plan("semantic", "tags"))
    assert tags.starts.keys() == {1}, "what tags list is not what the query names"
    assert 9 in found.fusion.ids
    given = replace(walking_plan("semantic", "tags"), weights={"semantic": 0.5, "tags": 0.5})
    tags.starts = {}
    assert 9 not in (await search.run(QUERY, given)).fusion.ids
    assert tags.starts == {}, "it is not even asked"
    broken = Walking(failing("shared", OSError("gone"))._answer)
    broken.name = "tags"
    found = await HybridSearch([fixed("semantic", 1), broken]).run(QUERY, walking_plan("semantic", "tags"))
    assert [failure.retriever for failure in found.degraded] == ["shared"]


@pytest.mark.spec("S2.6")
async def test_without_texts_the_walk_starts_from_what_is_named_alone() -> None:
    graph = Walking(fixed("walk", 9)._answer)
    search = HybridSearch([failing("semantic", OSError("gone")), graph])
    await search.run(QUERY, walking_plan("semantic", "graph"))
    assert graph.starts == {7: 1.0}
