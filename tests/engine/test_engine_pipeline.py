"""HybridSearch runs injected retrievers concurrently with a deadline; a failing one does not fail the search."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from engine_support import Clock

from fourfold.engine import pipeline
from fourfold.engine.pipeline import HybridSearch
from fourfold.errors import DamagedStore, InvalidQuery, SearchFailed
from fourfold.ranking.connections import BEST_HIT
from fourfold.retrieval import Hit, Plan, Query, Ranking

QUERY = Query("default", "anything")


class Fake:
    """A retriever that does what the test says."""

    def __init__(self, name: str, answer: Callable[[], Ranking]) -> None:
        self.name = name
        self._answer = answer

    def search(self, query: Query, limit: int) -> Ranking:
        return self._answer()


def fixed(name: str, *found: int) -> Fake:
    def answer() -> Ranking:
        return Ranking(tuple(Hit(item, 1.0 - place / 10) for place, item in enumerate(found)))

    return Fake(name, answer)


def failing(name: str, error: Exception) -> Fake:
    def answer() -> Ranking:
        raise error

    return Fake(name, answer)


def endless(name: str) -> Fake:
    def answer() -> Ranking:
        threading.Event().wait(30)
        return Ranking()

    return Fake(name, answer)


def plan(*names: str, fusion: str = "rrf") -> Plan:
    return Plan("auto", names, fusion, 60, 10, {name: 1 / len(names) for name in names})  # type: ignore[arg-type]


@pytest.mark.spec("S2.1")
def test_retrievers_run_concurrently() -> None:
    started = {"semantic": threading.Event(), "keyword": threading.Event()}

    def waits_for(name: str, other: str) -> Fake:
        def answer() -> Ranking:
            started[name].set()
            assert started[other].wait(60)
            return Ranking((Hit(1, 1.0),))

        return Fake(name, answer)

    search = HybridSearch([waits_for("semantic", "keyword"), waits_for("keyword", "semantic")], seconds=60)
    found = search.run(QUERY, plan("semantic", "keyword"))
    assert found.fusion.ids == [1]
    assert found.degraded == ()


@pytest.mark.spec("S2.4", "B3")
@pytest.mark.parametrize("fusion", ["rrf", "weighted", "auto"])
def test_the_response_has_the_time_of_each_retriever_and_of_fusion(fusion: str) -> None:
    search = HybridSearch([fixed("semantic", 1), failing("keyword", OSError("gone")), fixed("tags")])
    found = search.run(QUERY, plan("semantic", "keyword", "tags", fusion=fusion))
    assert found.timings_ms.keys() == {"semantic", "keyword", "tags", "fusion"}


@pytest.mark.spec("S2.4")
def test_timings_measure_the_retriever_and_the_fusion(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(pipeline, "rrf", clock.slowed(pipeline.rrf, 0.125))
    slow = Fake("semantic", clock.slowed(fixed("semantic", 1)._answer, 0.25))
    found = HybridSearch([slow], seconds=60).run(QUERY, plan("semantic"))
    assert found.timings_ms == {"semantic": 250, "fusion": 125}


@pytest.mark.spec("S2.4")
def test_timings_measure_a_retriever_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    slow = Fake("semantic", clock.slowed(failing("semantic", OSError("gone"))._answer, 0.25))
    found = HybridSearch([slow, fixed("keyword", 1)], seconds=60).run(QUERY, plan("semantic", "keyword"))
    assert found.timings_ms["semantic"] == 250


@pytest.mark.spec("S2.6", "B3")
def test_a_failing_retriever_is_named_and_the_others_answer() -> None:
    search = HybridSearch([failing("semantic", OSError("no such device")), fixed("keyword", 7, 8)])
    found = search.run(QUERY, plan("semantic", "keyword"))
    assert found.fusion.ids == [7, 8]
    ((name, reason),) = [(failure.retriever, failure.reason) for failure in found.degraded]
    assert name == "semantic"
    assert "no such device" in reason


@pytest.mark.spec("S2.6", "B3")
@pytest.mark.parametrize("fusion", ["rrf", "weighted", "auto"])
def test_a_late_retriever_is_named_and_the_others_answer(fusion: str) -> None:
    search = HybridSearch([endless("semantic"), fixed("keyword", 7, 8)], seconds=1)
    found = search.run(QUERY, plan("semantic", "keyword", fusion=fusion))
    assert found.fusion.ids == [7, 8]
    assert [failure.retriever for failure in found.degraded] == ["semantic"]
    assert "within" in found.degraded[0].reason
    assert found.timings_ms["semantic"] > 0  # the time that the search waited


@pytest.mark.spec("S2.6")
def test_a_timeout_of_the_retriever_itself_keeps_its_reason() -> None:
    search = HybridSearch([failing("semantic", TimeoutError("the server is silent")), fixed("keyword", 7)], seconds=60)
    found = search.run(QUERY, plan("semantic", "keyword"))
    assert [failure.reason for failure in found.degraded] == ["TimeoutError: the server is silent"]
    assert found.timings_ms["semantic"] < 60_000


@pytest.mark.spec("S2.6")
def test_an_error_is_raised_when_every_retriever_fails() -> None:
    search = HybridSearch([failing("semantic", OSError("first")), endless("keyword")], seconds=0.001)
    with pytest.raises(SearchFailed) as raised:
        search.run(QUERY, plan("semantic", "keyword"))
    assert "semantic" in raised.value.message
    assert "keyword" in raised.value.message
    assert raised.value.remedy


@pytest.mark.spec("S2.6")
def test_a_retriever_that_finds_nothing_has_not_failed() -> None:
    search = HybridSearch([fixed("semantic"), failing("keyword", OSError())])
    found = search.run(QUERY, plan("semantic", "keyword"))
    assert found.fusion.ids == []


@pytest.mark.spec("S1.5")
def test_an_invalid_request_is_not_reported_as_a_failing_retriever() -> None:
    search = HybridSearch([failing("semantic", InvalidQuery("nonsense", "Ask again")), fixed("keyword", 7)])
    with pytest.raises(InvalidQuery):
        search.run(QUERY, plan("semantic", "keyword"))


def test_damage_is_reported_when_it_makes_every_retriever_fail() -> None:
    """The exit code is 4, not 3, because a retry will not help."""
    damage = DamagedStore("the file is damaged", "Restore a backup")
    search = HybridSearch([failing("semantic", damage), failing("keyword", OSError())])
    with pytest.raises(DamagedStore):
        search.run(QUERY, plan("semantic", "keyword"))


def test_ctrl_c_ends_a_search_whose_retriever_waits() -> None:
    """The signal arrives in the calling thread; the retriever waits in another one."""

    def interrupt() -> Ranking:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(30)
        return Ranking()

    with pytest.raises(KeyboardInterrupt):
        HybridSearch([Fake("semantic", interrupt)], seconds=60).run(QUERY, plan("semantic"))


# ---------------------------------------------------------------- the walk, the second stage of `auto`


class Walking(Fake):
    """A graph retriever that names one item and records the starts of its expansion."""

    def __init__(self, walk: Callable[[], Ranking]) -> None:
        super().__init__("graph", self._named)
        self._walk = walk
        self.starts: dict[int, float] = {}

    def _named(self) -> Ranking:
        return Ranking((Hit(7, 1.0), Hit(8, 0.1)), evidence={7: 1.0})

    def expand(self, query: Query, starts: Mapping[int, float], limit: int) -> Ranking:
        self.starts = dict(starts)
        return self._walk()


def walking_plan(*names: str) -> Plan:
    return replace(plan(*names, fusion="auto"), weights=None, expand=True)


@pytest.mark.spec("S4.2")
def test_the_walk_starts_from_the_fused_best_and_from_what_the_query_names() -> None:
    graph = Walking(fixed("walk", 9)._answer)
    search = HybridSearch([fixed("semantic", 1, 2), fixed("keyword", 2, 1), graph])
    found = search.run(QUERY, walking_plan("semantic", "keyword", "graph"))
    assert graph.starts.keys() == {1, 2, 7}
    assert graph.starts[7] == 1.0
    assert max(graph.starts[1], graph.starts[2]) == pytest.approx(BEST_HIT)
    assert 9 in found.fusion.ids


@pytest.mark.spec("S2.6")
@pytest.mark.parametrize("walk", [failing("walk", OSError("gone")), endless("walk")])
def test_a_walk_that_fails_or_is_late_is_named_and_the_rest_answers(walk: Fake) -> None:
    search = HybridSearch([fixed("semantic", 1), Walking(walk._answer)], seconds=1)
    found = search.run(QUERY, walking_plan("semantic", "graph"))
    assert [failure.retriever for failure in found.degraded] == ["walk"]
    assert set(found.fusion.ids) == {1, 7, 8}


@pytest.mark.spec("S5.2", "S2.6")
def test_tags_expand_from_the_best_hit_and_their_failure_is_named() -> None:
    tags = Walking(fixed("shared", 9)._answer)
    tags.name = "tags"
    search = HybridSearch([fixed("semantic", 1, 2), tags])
    found = search.run(QUERY, walking_plan("semantic", "tags"))
    assert tags.starts.keys() == {1}, "items listed by tags are not starts"
    assert 9 in found.fusion.ids
    given = replace(walking_plan("semantic", "tags"), weights={"semantic": 0.5, "tags": 0.5})
    tags.starts = {}
    assert 9 not in search.run(QUERY, given).fusion.ids
    assert tags.starts == {}, "with given weights, tags are not expanded"
    broken = Walking(failing("shared", OSError("gone"))._answer)
    broken.name = "tags"
    found = HybridSearch([fixed("semantic", 1), broken]).run(QUERY, walking_plan("semantic", "tags"))
    assert [failure.retriever for failure in found.degraded] == ["shared"]


@pytest.mark.spec("S2.6")
def test_without_text_hits_the_walk_starts_from_named_items_only() -> None:
    graph = Walking(fixed("walk", 9)._answer)
    search = HybridSearch([failing("semantic", OSError("gone")), graph])
    search.run(QUERY, walking_plan("semantic", "graph"))
    assert graph.starts == {7: 1.0}
