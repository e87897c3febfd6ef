"""Retrievers run concurrently on one snapshot, with deadlines and turns; injected ones beside the built-in ones."""

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from concurrently import begin
from engine_support import NOTES, Clock, Opener, WordEmbedder, eventually, ids, texts
from store_calls import StoreCalls

from fourfold import (
    Filters,
    Hit,
    HybridSearch,
    Memory,
    NewItem,
    Plan,
    Query,
    Ranking,
    Retriever,
    SearchResponse,
    scheduling,
)
from fourfold.engine import search as searching
from fourfold.engine.pipeline import Outcome
from fourfold.engine.retrievers import FACTORIES, KeywordRetriever
from fourfold.errors import DamagedStore, InvalidQuery, InvalidRanking, SearchFailed
from fourfold.model import NO_FILTERS
from fourfold.ranking import fusion
from fourfold.ranking.connections import BEST_HIT
from fourfold.scheduling import Turns
from fourfold.storage.protocols import Snapshot, Store

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


@pytest.mark.spec("S2.4")
def test_timings_measure_retrievers_also_failing_ones_and_the_fusion(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(fusion, "rrf", clock.slowed(fusion.rrf, 0.125))
    slow = Fake("semantic", clock.slowed(fixed("semantic", 1)._answer, 0.25))
    found = HybridSearch([slow], seconds=60).run(QUERY, plan("semantic"))
    assert found.timings_ms == {"semantic": 250, "fusion": 125}
    failed = Fake("semantic", clock.slowed(failing("semantic", OSError("gone"))._answer, 0.5))
    found = HybridSearch([failed, fixed("keyword", 1)], seconds=60).run(QUERY, plan("semantic", "keyword"))
    assert found.timings_ms["semantic"] == 500


@pytest.mark.spec("S2.6", "B3")
@pytest.mark.parametrize(
    "error", [OSError("no such device"), TimeoutError("the server is silent")], ids=lambda error: type(error).__name__
)
def test_a_failing_retriever_is_named_with_its_reason_and_the_others_answer(error: Exception) -> None:
    search = HybridSearch([failing("semantic", error), fixed("keyword", 7, 8)], seconds=60)
    found = search.run(QUERY, plan("semantic", "keyword"))
    assert found.fusion.ids == [7, 8]
    reasons = [(failure.retriever, failure.reason) for failure in found.degraded]
    assert reasons == [("semantic", f"{type(error).__name__}: {error}")]
    assert found.timings_ms["semantic"] < 60_000


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
def test_an_error_is_raised_when_every_retriever_fails() -> None:
    search = HybridSearch([failing("semantic", OSError("first")), endless("keyword")], seconds=0.001)
    with pytest.raises(SearchFailed, match=r"semantic.*keyword") as raised:
        search.run(QUERY, plan("semantic", "keyword"))
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


# ---------------------------------------------------------------- keys of items


def answering(folder: Path, answer: Any) -> Memory:
    """A memory of three items whose keyword retriever gives this answer."""
    memory = Memory.open(
        folder / "store", embedder="none", background=False, retrievers=lambda store: [Fake("keyword", lambda: answer)]
    )
    memory.add_many([NewItem(f"text {key}", key=key) for key in ("a", "b", "c")])
    return memory


@pytest.mark.spec("S2.1")
@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Ranking.of_keys([("b", 0.9), ("a", 0.5)]), [2, 1]),
        (Ranking((Hit("c", 3.0), Hit(1, 2.0), Hit("a", 1.0))), [3, 1]),  # type: ignore[arg-type]
        (Ranking((Hit(2, 1.0), Hit(2, 0.5), Hit(99, 0.2))), [2]),
        (Ranking(), []),
    ],
)
def test_hits_may_name_items_by_key(tmp_path: Path, answer: Ranking, found: list[int]) -> None:
    with answering(tmp_path, answer) as memory:
        response = memory.search("anything", only=["keyword"], fusion="rrf")
        assert ids(response) == found
        assert response.notes == ()


@pytest.mark.spec("S2.1")
def test_unknown_keys_are_dropped_and_counted(tmp_path: Path) -> None:
    answer = Ranking.of_keys([("gone", 0.9), ("b", 0.5), ("also gone", 0.1)])
    with answering(tmp_path, answer) as memory:
        response = memory.search("anything", only=["keyword"], fusion="weighted", explain=True)
        assert ids(response) == [2]
        assert response.notes == ("keyword: 2 of 3 keys belong to no item",)
        assert response.results[0].contributions[0].rank == 1


@pytest.mark.spec("S2.1")
@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        [Hit(1, 1.0)],
        Ranking((1, 2)),  # type: ignore[arg-type]
        Ranking((Hit(None, 1.0),)),  # type: ignore[arg-type]
        Ranking((Hit(True, 1.0),)),
        Ranking((Hit(1.5, 1.0),)),  # type: ignore[arg-type]
        Ranking((Hit(1, float("nan")),)),
        Ranking((Hit(1, "high"),)),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_result_that_is_not_a_ranking_raises_a_typed_error(tmp_path: Path, answer: Any) -> None:
    with answering(tmp_path, answer) as memory:
        with pytest.raises(InvalidRanking, match="the retriever 'keyword' returned") as refused:
            memory.search("anything")
        assert refused.value.remedy


@pytest.mark.spec("S2.1")
def test_hybrid_search_maps_keys_if_it_is_given_find_keys(tmp_path: Path) -> None:
    plan = Plan("mine", ("keyword",), "rrf", k=60, top_k=5, weights={"keyword": 1.0})
    answer = Ranking.of_keys([("b", 0.9)])
    with answering(tmp_path, answer) as memory:
        able = HybridSearch([Fake("keyword", lambda: answer)], find_keys=StoreCalls(memory.store).find_keys)
        assert list(able.run(Query("default", "x"), plan).fusion.ids) == [2]
        with pytest.raises(InvalidRanking, match="find_keys"):
            HybridSearch([Fake("keyword", lambda: answer)]).run(Query("default", "x"), plan)


# ---------------------------------------------------------------- one snapshot, and threads


QUERIES = ("router", "who has the cellar key", "Maria", "invoices of 2025", "nothing of that", "Drucker", "notes.md")


@pytest.mark.spec("B6")
def test_a_write_between_two_retrievers_is_not_seen(office, tmp_path, monkeypatch):
    written: list[int] = []

    class Written(KeywordRetriever):
        """A retriever during whose search another memory stores a matching item."""

        def search(self, query: Query, limit: int) -> Ranking:
            if not written:
                with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as other:
                    quince = NewItem("quince jam", title="Quince", tags=("quince",))
                    written.append(other.add(quince, wait=True).id)
            return super().search(query, limit)

    monkeypatch.setitem(FACTORIES, "keyword", lambda snapshot: Written(snapshot.words))
    before = office.search("quince", top_k=100)
    assert written
    assert written[0] not in [result.id for result in before.results]
    assert office.search("quince").results[0].id == written[0]


class OnItsOwnSnapshot:
    """An injected retriever that does what the built-in one does, on a snapshot of its own."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self._store = store
        self.threads: list[threading.Thread] = []

    def search(self, query: Query, limit: int) -> Ranking:
        self.threads.append(threading.current_thread())
        with self._store.snapshot(query.namespace) as snapshot:
            return FACTORIES[self.name](snapshot).search(query, limit)


class Scoring(OnItsOwnSnapshot):
    def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        with self._store.snapshot(query.namespace) as snapshot:
            return FACTORIES[self.name](snapshot).score(query, ids)  # type: ignore[attr-defined]


class Expanding(OnItsOwnSnapshot):
    def expand(self, query: Query, starts: Mapping[int, float], limit: int) -> Ranking:
        with self._store.snapshot(query.namespace) as snapshot:
            return FACTORIES[self.name](snapshot).expand(query, starts, limit)  # type: ignore[attr-defined]


KINDS = {"semantic": Scoring, "keyword": Scoring, "graph": Expanding, "tags": Expanding}


def said(response: SearchResponse) -> Any:
    results = [(result.id, result.score, result.confidence, result.contributions) for result in response.results]
    return results, response.counts, response.overlap, response.notes


@pytest.mark.spec("B2")
@pytest.mark.parametrize("filters", [NO_FILTERS, Filters(tags=("office",)), Filters(kind="fact")], ids=repr)
def test_built_in_and_injected_retrievers_give_the_same_answers(office, opened, filters):
    office.add(NewItem("Maria has the cellar key", title="Maria"), wait=True)
    office.add(NewItem("The cellar is locked at night", title="Cellar"), wait=True)
    office.add_edges([("Maria", "locks", "Cellar", 1.0)])
    office.index()
    injected = opened(retrievers=lambda store: [kind(name, store) for name, kind in KINDS.items()])
    for text in QUERIES:
        assert said(injected.search(text, filters=filters)) == said(office.search(text, filters=filters)), text


@pytest.mark.spec("S2.1")
@pytest.mark.parametrize("replaced", [(), ("tags",), ("semantic", "graph")])
def test_built_in_retrievers_run_once_in_the_calling_thread_beside_injected_ones(opened, replaced, monkeypatch):
    asked: dict[str, list[threading.Thread]] = {name: [] for name in FACTORIES}
    made = dict(FACTORIES)

    def watched(name: str, snapshot: Snapshot) -> Retriever:
        asked[name].append(threading.current_thread())
        return made[name](snapshot)

    injected: list[OnItsOwnSnapshot] = []

    def retrievers(store: Store) -> list[OnItsOwnSnapshot]:
        injected.extend(KINDS[name](name, store) for name in replaced)
        return injected

    memory = opened(retrievers=retrievers)
    memory.add_many(NOTES, wait=True)
    with monkeypatch.context() as patched:
        for name in set(made) - set(replaced):
            patched.setitem(FACTORIES, name, lambda snapshot, name=name: watched(name, snapshot))
        response = memory.search("office printer")
    assert response.results
    assert not response.degraded
    own = threading.current_thread()
    assert asked == {name: [] if name in replaced else [own] for name in made}
    for each in injected:
        assert len(each.threads) == 1
        assert own not in each.threads


@pytest.mark.spec("S2.1")
def test_a_stage_that_waits_does_not_run_the_search_twice(office: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reranker waits like this for a model or a server."""
    searched: list[str] = []

    class Watched(KeywordRetriever):
        def search(self, query: Query, limit: int) -> Ranking:
            searched.append(query.text)
            return super().search(query, limit)

    def waiting(snapshot: Snapshot, query: Query, found: Outcome) -> Outcome:
        answered = threading.Event()
        threading.Timer(0.02, answered.set).start()
        assert answered.wait(60)
        return found

    expected = texts(office.search("router"))
    monkeypatch.setitem(FACTORIES, "keyword", lambda snapshot: Watched(snapshot.words))
    monkeypatch.setattr(searching, "STAGES", [*searching.STAGES, waiting])
    assert texts(office.search("router")) == expected
    assert searched == ["router"]


def test_a_search_waits_for_an_index_that_is_being_opened(opened: Opener) -> None:
    first = opened()
    first.add_many([NewItem(f"{note.text} {n}") for n in range(100) for note in NOTES], wait=True)
    first.close()
    found = opened().search("router")
    assert found.results
    assert not found.degraded


# ---------------------------------------------------------------- turns


class Entered:
    """Threads that each hold a turn until told to end, listed in the order of their turns."""

    def __init__(self, turns: Turns, count: int, seconds: float = 60.0) -> None:
        self.order: list[int] = []
        self.ends = [threading.Event() for _ in range(count)]
        self._turns = turns
        self._seconds = seconds
        self.calls = []
        for number in range(count):
            self.calls.append(begin(lambda number=number: self._enter(number)))
            eventually(lambda number=number: len(turns._waiting) + len(self.order) > number)

    def _enter(self, number: int) -> None:
        with self._turns.turn(self._seconds):
            self.order.append(number)
            assert self.ends[number].wait(60)

    def end(self, *numbers: int) -> None:
        for number in numbers:
            self.ends[number].set()
        for number in numbers:
            self.calls[number].result(60)


def test_a_limited_number_enters_and_the_others_follow_in_order() -> None:
    entered = Entered(Turns(2), 5)
    assert entered.order == [0, 1]
    entered.end(1)
    eventually(lambda: len(entered.order) == 3)
    entered.end(0)
    eventually(lambda: len(entered.order) == 4)
    entered.end(2)
    eventually(lambda: len(entered.order) == 5)
    assert entered.order == [0, 1, 2, 3, 4]
    entered.end(3, 4)


def test_a_caller_proceeds_without_a_turn_after_the_maximum_wait() -> None:
    turns = Turns(1)
    entered = Entered(turns, 3, 0.01)
    eventually(lambda: len(entered.order) == 3)
    entered.end(0, 1, 2)
    with turns.turn(60) as granted, turns.turn(0) as second:
        assert (granted, second) == (True, False)  # callers without a turn release none


def test_a_turn_is_released_by_a_block_that_raises() -> None:
    turns = Turns(1)
    with pytest.raises(ZeroDivisionError), turns.turn(60):
        raise ZeroDivisionError
    begin(turns.turn(60).__enter__).result(10)


def test_ctrl_c_while_waiting_for_a_turn_takes_none() -> None:
    turns = Turns(1)
    with turns.turn(60):
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt), turns.turn(60):
            raise AssertionError("a second turn was granted")
    assert not turns._waiting
    begin(turns.turn(60).__enter__).result(10)


def test_ctrl_c_that_arrives_with_the_turn_releases_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        """A lock that is granted and then interrupted before the waiting thread can continue."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self.release = self._lock.release

        def acquire(self, timeout: float = -1) -> bool:
            assert self._lock.acquire(timeout=timeout)
            if timeout > 0:
                raise KeyboardInterrupt
            return True

    turns = Turns(1)
    holding = turns.turn(60)
    holding.__enter__()
    with monkeypatch.context() as patched:
        patched.setattr(scheduling, "threading", SimpleNamespace(Lock=Interrupted))
        waiting = begin(turns.turn(60).__enter__)
        eventually(lambda: turns._waiting)
    holding.__exit__(None, None, None)
    assert isinstance(waiting.exception(60), KeyboardInterrupt)
    begin(turns.turn(60).__enter__).result(10)
