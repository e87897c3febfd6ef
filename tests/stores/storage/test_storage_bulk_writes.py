"""Bulk writes do not block searches, and a search shows everything confirmed before it began."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from concurrently import begin
from engine_support import Opener, WordEmbedder, eventually, notes, texts

from fourfold import Memory, NewItem, scheduling
from fourfold.engine.pipeline import Pipeline
from fourfold.errors import StoreUnavailable
from fourfold.index.text_index import TextIndex
from fourfold.index.vector_index import VectorIndex
from fourfold.storage.sql.transaction import ItemTable
from fourfold.storage.sqlite import indexes
from fourfold.storage.sqlite.namespaces import SqliteItems
from fourfold.storage.sqlite.publishing import Publisher

MANY = 300


def given(count: int, word: str) -> list[NewItem]:
    """Notes with given vectors."""
    embedder = WordEmbedder()
    return [NewItem(item.text, vector=embedder.vector(item.text)) for item in notes(count, word)]


@pytest.fixture
def folding(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads that have folded changes into an index."""
    threads: list[str] = []

    def noted(fold: Callable[..., Any]) -> Callable[..., Any]:
        def folded(*args: Any) -> Any:
            threads.append(threading.current_thread().name)
            return fold(*args)

        return folded

    for kind in (TextIndex, VectorIndex):
        monkeypatch.setattr(kind, "_updated", noted(kind._updated))
    return threads


class Gate:
    """Blocks a write between its commit and its confirmation."""

    def __init__(self, fold_in: Callable[[indexes.Indexes], None]) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self._fold_in = fold_in

    def __call__(self, of: indexes.Indexes) -> None:
        if of._unconfirmed is not None:
            self.reached.set()
            assert self.open.wait(60)
        self._fold_in(of)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(indexes.Indexes.fold_in)
    monkeypatch.setattr(indexes.Indexes, "fold_in", lambda of: gate(of))
    yield gate
    gate.open.set()


# ---------------------------------------------------------------- bulk writes


@pytest.mark.spec("B6")
def test_a_large_write_is_folded_into_the_index_by_its_writer_and_found_by_the_next_search(memory, folding):
    memory.add_many(given(MANY, "first"))
    memory.search("heron")
    folding.clear()
    memory.add_many(given(MANY, "quince"))
    found = memory.search("quince 299")
    assert texts(found)[0].startswith("quince 299:")
    assert not found.degraded
    assert set(folding) == {threading.current_thread().name}
    assert len(folding) > 2  # in batches
    assert memory.check() == []


def test_changes_are_not_folded_into_an_index_that_is_not_searched(memory: Memory, folding: list[str]) -> None:
    memory.add_many(given(MANY, "first"))
    memory.add_many(given(MANY, "second"))
    assert not folding


def test_folding_in_batches_gives_the_same_index_as_folding_at_once(opened: Opener) -> None:
    searched, quiet = opened("searched"), opened("quiet")
    for word in ("first", "second"):
        searched.search("heron")
        for each in (searched, quiet):
            each.add_many(given(MANY, word))
    again = [NewItem("the lynx has changed", vector=WordEmbedder().vector("lynx")), *given(MANY, "first")]
    for each in (searched, quiet):
        each.add_many(again)
    asked = ("heron at gate 5", "lynx", "second 17")
    found = [[(hit.id, hit.score) for hit in m.search(q).results] for m in (searched, quiet) for q in asked]
    assert found[:3] == found[3:]


@pytest.mark.spec("B6")
def test_a_search_does_not_wait_for_unconfirmed_writes(memory: Memory, gate: Gate, folding: list[str]) -> None:
    gate.open.set()
    memory.add_many(given(MANY, "first"))
    before = texts(memory.search("heron quince 5"))
    gate.open.clear()
    gate.reached.clear()
    folding.clear()
    writing = begin(lambda: memory.add_many(given(MANY, "quince")))
    assert gate.reached.wait(60)
    meanwhile = memory.search("heron quince 5")
    assert texts(meanwhile) == before
    assert not meanwhile.degraded
    assert not folding
    gate.open.set()
    writing.result(60)
    assert texts(memory.search("quince 5"))[0].startswith("quince 5:")


@pytest.mark.spec("B6")
def test_a_search_during_a_write_sees_writes_that_others_confirmed(opened: Opener, gate: Gate) -> None:
    gate.open.set()
    mine, other = opened(), opened(background=False)
    mine.add_many(given(MANY, "first"))
    mine.search("heron")
    gate.open.clear()
    gate.reached.clear()
    writing = begin(lambda: mine.add_many(given(MANY, "quince")))
    assert gate.reached.wait(60)
    other.add(NewItem("a medlar from elsewhere"))
    assert texts(mine.search("medlar"))[:1] == ["a medlar from elsewhere"]
    gate.open.set()
    writing.result(60)
    assert texts(mine.search("quince 5"))[0].startswith("quince 5:")


@pytest.mark.spec("B6")
def test_a_failed_write_does_not_hide_the_next_write_of_another_process(opened, monkeypatch):
    mine, other = opened(), opened(background=False)
    mine.add_many(given(MANY, "first"))
    mine.search("heron")
    put = ItemTable.put

    def failing(*args: Any, **options: Any) -> None:
        put(*args, **options)
        raise OSError("the disk is gone")

    monkeypatch.setattr(ItemTable, "put", failing)
    with pytest.raises(StoreUnavailable, match="the disk is gone"):
        mine.add_many(given(MANY, "quince"))
    monkeypatch.setattr(ItemTable, "put", put)
    other.add_many(given(MANY, "medlar"))  # takes the same numbers in the log
    assert texts(mine.search("medlar 5"))[0].startswith("medlar 5:")
    assert not any("quince" in text for text in texts(mine.search("quince")))


@pytest.mark.parametrize("searched", [False, True])
def test_a_bulk_load_is_published_while_it_runs_and_more_often_if_it_is_searched(opened, searched, tuning, monkeypatch):
    tuning |= {"load_at_items": 3 * MANY, "searched_every_changes": 2 * MANY}
    memory = opened(background=False, embedder="none")
    publisher: Publisher = memory.store.indexes.publisher  # type: ignore[attr-defined]
    published: list[dict[str, Any]] = []
    publish = publisher.publish

    def noting(ns: int, **how: Any) -> bool:
        published.append(how)
        return publish(ns, **how)

    loads: list[Any] = []
    publish_load = publisher._publish_load

    def noting_load(*args: Any) -> None:
        loads.append(args)
        publish_load(*args)

    monkeypatch.setattr(publisher, "publish", noting)
    monkeypatch.setattr(publisher, "_publish_load", noting_load)
    monkeypatch.setattr(memory._maintenance, "_publish_soon", lambda: None)
    counts: list[int] = []
    for word in ("first", "second", "third"):
        if searched:
            memory.search("heron")
        memory.add_many(given(MANY, word))
        if publisher._loader is not None:
            eventually(lambda: bool(loads))
        counts.append(len(loads))
    assert counts == ([0, 1, 1] if searched else [0, 0, 1])
    with publisher.turn():
        pass
    assert publisher._loader.done.wait(60)
    assert [(how["faiss"], how["load"].every_changes) for how in published] == [
        (False, 2 * MANY if searched else 20_000)
    ]
    assert texts(memory.search("third 299"))[0].startswith("third 299:")


def test_a_reopened_index_does_not_fall_behind(memory, folding, monkeypatch):
    """Changes folded in during the reopening are folded in again before searches get the new state."""
    memory.add_many(given(MANY, "first"))
    memory.index()
    memory.search("heron")
    index = memory.store.indexes._texts[1]  # type: ignore[attr-defined]
    adopt, rounds = index.adopt, list[int]()

    def late(state: Any, *, force: bool) -> bool:
        rounds.append(state.seq)
        if len(rounds) == 1:
            begin(lambda: memory.add_many(given(MANY, "quince"))).result(60)
        return adopt(state, force=force)

    monkeypatch.setattr(index, "adopt", late)
    memory.store.indexes._reopen(index)  # type: ignore[attr-defined]
    assert len(rounds) == 2
    assert rounds[0] < rounds[1] == index.state.seq
    folding.clear()
    assert texts(memory.search("quince 299"))[0].startswith("quince 299:")
    assert not folding


# ---------------------------------------------------------------- yielding to searches


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes bulk work yield after every batch, for as long as a search runs."""
    monkeypatch.setattr(scheduling, "_PIECE", 0.0)
    monkeypatch.setattr(scheduling, "_PATIENCE", 1e9)


def worked(done: list[int], *, in_bulk: bool) -> threading.Thread:
    def working() -> None:
        if in_bulk:
            with scheduling.in_bulk():
                done.extend(scheduling.paced(range(3)))
        done.extend(scheduling.paced(range(3)))

    thread = threading.Thread(target=working, daemon=True)
    thread.start()
    return thread


def test_bulk_work_waits_for_searches(patient: None) -> None:
    done: list[int] = []
    with scheduling.Turns(1).search(0):
        with scheduling.Turns(1).search(0):
            waiting = worked(done, in_bulk=True)
        waiting.join(0.05)
        assert waiting.is_alive()
        assert not done
    waiting.join(60)
    assert done == [0, 1, 2, 0, 1, 2]


def test_other_work_does_not_wait_for_searches(patient: None) -> None:
    done: list[int] = []
    with scheduling.Turns(1).search(0):
        worked(done, in_bulk=False).join(60)
    assert done == [0, 1, 2]


def test_endless_searches_do_not_stop_bulk_work() -> None:
    done: list[int] = []
    with scheduling.Turns(1).search(0), scheduling.in_bulk():
        for number in scheduling.paced(range(200)):
            done.append(sum(range(number * 100)))
    assert len(done) == 200


def test_running_searches_are_registered(office: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []
    retrieve = Pipeline.run

    def noting(*arguments: Any) -> Any:
        running.append(len(scheduling._searches))
        return retrieve(*arguments)

    monkeypatch.setattr(Pipeline, "run", noting)
    office.search("router")
    assert running == [1]
    assert len(scheduling._searches) == 0


# ---------------------------------------------------------------- counters and foreign keys of many new rows


def counters(memory: Memory) -> dict[str, list[Any]]:
    """The rows that count others."""
    with memory.store.snapshot(memory.namespace) as at:
        return {
            "tags": sorted(at.db.execute("SELECT folded, uses FROM tags")),
            "namespaces": list(at.db.execute("SELECT items, expiring, superseded FROM namespaces")),
            "item_tags": sorted(at.db.execute("SELECT item, folded, name FROM item_tags JOIN tags ON tag = id")),
        }


def test_many_new_items_are_counted_like_single_ones(opened: Opener) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    new = [
        NewItem(f"note {n}", tags=("Red", "red", f"t{n % 7}"), expires_at=later if n % 3 else None) for n in range(MANY)
    ]
    together, singly = opened("together"), opened("singly")
    together.add_many(new)
    for item in new:
        singly.add_many([item])
    assert counters(together) == counters(singly)
    assert together.check() == []


def test_rows_of_items_that_came_together_go_with_their_items(memory: Memory) -> None:
    stored = memory.add_many([NewItem(f"note {n}", tags=("red", f"t{n % 7}")) for n in range(MANY)])
    memory.forget([item.id for item in stored[1:]])
    found = counters(memory)
    assert [row[:2] for row in found["item_tags"]] == [(stored[0].id, "red"), (stored[0].id, "t0")]
    assert {tag: uses for tag, uses in found["tags"] if uses} == {"red": 1, "t0": 1}
    assert memory.check() == []


def test_an_interrupted_load_leaves_foreign_keys_and_triggers_on(memory, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SqliteItems, "_count_for_triggers", interrupted)
        memory.add_many(notes(MANY))
    assert memory.count() == 0
    (item,) = memory.add_many([NewItem("a note", tags=("red",))])
    memory.forget([item.id])
    assert counters(memory)["item_tags"] == []
    assert memory.check() == []
