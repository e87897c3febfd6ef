"""Ctrl-C at every step of what calls share between threads leaves nothing locked, counted or held."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from concurrently import begin, every_interruption, interrupted
from engine_support import WordEmbedder

from fourfold import AsyncMemory, Memory, Settings, scheduling, threads
from fourfold.cli import main
from fourfold.errors import WorldError
from fourfold.index.locks import Lease
from fourfold.scheduling import Turns
from fourfold.storage.sqlite.database import Database, Tuning
from fourfold.storage.sqlite.store import SqliteStore

pytestmark = pytest.mark.spec("S1.8", "B6")


def enter(block: Callable[[], AbstractContextManager[Any]]) -> None:
    with block():
        pass


def in_time(call: Callable[[], Any]) -> Any:
    """The result of the call in another thread, which fails if it waits for a lock."""
    return begin(call).result(10)


def test_interrupted_wait_leaves_the_flag_usable() -> None:
    flag = threads.Flag()
    for _ in every_interruption(partial(flag.wait, 0.001)):
        pass
    others = [begin(partial(flag.wait, 10)) for _ in range(3)]
    flag.set()
    assert [other.result(10) for other in others] == [True] * 3
    assert flag.wait(0)


def test_interrupted_set_wakes_every_waiting_thread() -> None:
    for step in range(40):
        flag = threads.Flag()
        others = [begin(partial(flag.wait, 10)) for _ in range(2)]
        while len(flag.waiting) < 2:
            time.sleep(0.0005)
        if not interrupted(step, flag.set):
            break
        flag.set()
        assert [other.result(10) for other in others] == [True] * 2
    else:
        raise AssertionError("set has more steps than this test looks at")


def test_wait_for_any_ends_with_the_first_flag() -> None:
    first, second = threads.Flag(), threads.Flag()
    waiting = begin(partial(threads.wait_for_any, first, second, seconds=10))
    second.set()
    assert waiting.result(10)
    assert not threads.wait_for_any(first, seconds=0.001)
    first.set()
    assert not first.waiting


def test_task_has_the_result_or_the_error_of_its_call() -> None:
    assert threads.start(lambda: 3, "fourfold-test").result(10) == 3
    with pytest.raises(ZeroDivisionError):
        threads.start(lambda: 1 / 0, "fourfold-test").result(10)
    go = threads.Flag()
    slow = threads.start(go.wait, "fourfold-test")
    with pytest.raises(TimeoutError):
        slow.result(0.001)
    go.set()
    assert slow.result(10)


def test_the_last_thread_that_the_system_gives_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threads.threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads.threading.Thread, "start", refused)
    assert threads.start(lambda: 3, "fourfold-test").result(10) == 3


def test_interrupted_submit_leaves_the_workers_usable() -> None:
    workers = threads.Workers(2, "fourfold-test")
    for _ in every_interruption(lambda: workers.submit(lambda: 1).result(10)):
        assert in_time(lambda: workers.submit(lambda: 2).result(10)) == 2
    assert in_time(lambda: [task.result(10) for task in [workers.submit(lambda: 3)] * 9]) == [3] * 9
    in_time(workers.close)
    with pytest.raises(RuntimeError):
        workers.submit(lambda: 4)


def test_workers_run_at_most_their_number_of_calls_at_a_time_and_all_before_they_close() -> None:
    workers = threads.Workers(2, "fourfold-test")
    go, begun, done = threads.Flag(), list[int](), list[int]()

    def work(number: int) -> None:
        begun.append(number)
        go.wait(10)
        done.append(number)

    tasks = [workers.submit(partial(work, number)) for number in range(5)]
    while len(begun) < 2:
        time.sleep(0.0005)
    time.sleep(0.01)
    assert sorted(begun) == [0, 1]
    go.set()
    in_time(workers.close)
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert all(task.done.is_set for task in tasks)


def test_interrupted_turn_is_given_back() -> None:
    turns = Turns(1)

    def is_free() -> bool:
        with turns.turn(0.5) as granted:
            return granted

    for take in (turns.turn, turns.search):
        for step in every_interruption(partial(enter, partial(take, 1))):
            assert in_time(is_free), step


def test_interrupted_search_no_longer_counts_as_running() -> None:
    for step in every_interruption(partial(enter, partial(Turns(1).search, 1))):
        assert not scheduling._searches, step


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # between `open` and what follows; it is closed
def test_interrupted_holder_of_a_lease_gives_it_back(tmp_path: Path) -> None:
    mine, other = Lease(tmp_path / "lease"), Lease(tmp_path / "lease")

    def is_held(lease: Lease) -> bool:
        with lease.held() as held:
            return held

    for step in every_interruption(partial(enter, mine.held)):
        assert in_time(partial(is_held, mine)), step  # and gives back what an interruption left
        assert in_time(partial(is_held, other)), step


def test_interrupted_read_leaves_the_database_usable_and_closes_at_once(tmp_path: Path) -> None:
    database = Database(tmp_path / "fourfold.db")
    enter(database.read)
    for step in every_interruption(partial(enter, database.read)):
        in_time(partial(enter, database.read))
        in_time(partial(enter, database.write))
        assert not database.has_readers(), step
    in_time(database.close)


def test_interrupted_write_leaves_the_database_usable(tmp_path: Path) -> None:
    database = Database(tmp_path / "fourfold.db")
    for _ in every_interruption(partial(enter, database.write)):
        in_time(partial(enter, database.write))
    in_time(database.close)


def test_close_also_ends_a_thread_that_ctrl_c_kept_out_of_the_list() -> None:
    workers = threads.Workers(1, "test")
    unlisted = threads.start(workers._work, "unlisted")  # pyright: ignore[reportPrivateUsage]
    workers.submit(lambda: None).result(5.0)
    closing = threads.start(workers.close, "closing")
    assert closing.done.wait(5.0)
    assert unlisted.done.wait(5.0)


@pytest.fixture
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the system refuse every thread, as `ulimit -u` does."""

    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    return lambda: monkeypatch.setattr("_thread.start_new_thread", refused)


@pytest.mark.spec("S1.8", "B4")
def test_a_thread_that_cannot_start_is_a_typed_error_of_its_task(no_more_threads: Callable[[], None]) -> None:
    workers = threads.Workers(2, "fourfold-test")
    no_more_threads()
    for task in (threads.start(lambda: 1, "one"), workers.submit(lambda: 2), workers.submit(lambda: 3)):
        with pytest.raises(WorldError, match="no more threads"):
            task.result(10)
    workers.close()


@pytest.mark.spec("S1.8", "B4")
def test_workers_that_run_do_the_work_of_those_that_cannot_start(no_more_threads: Callable[[], None]) -> None:
    workers = threads.Workers(3, "fourfold-test")
    assert workers.submit(lambda: 1).result(10) == 1
    no_more_threads()
    assert [task.result(10) for task in [workers.submit(lambda: 2)] * 5] == [2] * 5


@pytest.mark.spec("S1.8", "B4")
def test_writes_and_searches_succeed_without_threads_and_publishing_resumes(tmp_path, no_more_threads, monkeypatch):
    store = SqliteStore(tmp_path / "store", tuning=Tuning(publish_every_changes=1))
    with Memory.open(store, embedder=WordEmbedder(), settings=Settings(retriever_seconds=60)) as memory:
        no_more_threads()
        stored = memory.add("The router is in room 4", wait=True)
        response = memory.search("router")
        assert "semantic" in {each.retriever for each in response.degraded}
        monkeypatch.undo()
        memory.add("The printer is in room 5", wait=True)
        assert memory.search("router").results[0].id == stored.id
        assert begin(lambda: published(memory)).result(100)


def published(memory: Memory) -> bool:
    while memory.status()["namespaces"]["default"]["unpublished_changes"]:
        time.sleep(0.01)
    return True


async def test_a_call_that_gets_no_thread_is_a_typed_error_and_never_runs(tmp_path, monkeypatch, no_more_threads):
    async with await AsyncMemory.open(tmp_path / "store", embedder="none") as memory:
        no_more_threads()
        with pytest.raises(WorldError, match="no more threads"):
            await memory.add("The router is in room 4")
        monkeypatch.undo()
        assert await memory.count() == 0


def test_the_command_line_names_what_the_system_does_not_give() -> None:
    for error, named in (
        (MemoryError(), "memory"),
        (ExceptionGroup("servers", [ValueError(), RuntimeError("can't start new thread")]), "threads"),
    ):
        lacking = main._lacking(error)  # pyright: ignore[reportPrivateUsage]
        assert named in lacking.message
    assert main._lacking(RuntimeError("a bug")) is None  # pyright: ignore[reportPrivateUsage]
