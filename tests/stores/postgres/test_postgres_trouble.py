"""Failures of the server raise typed errors within the deadline, nothing is lost or doubled, and the store recovers."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from postgres_servers import Own
from postgres_support import INDEXED, at_once, execute, opened
from store_calls import StoreCalls

from fourfold import Memory, NewItem, limits
from fourfold.errors import NewerSchema, ReadOnlyStore, StorageFull, StoreBusy, StoreUnavailable, TimedOut, WorldError
from fourfold.model import NO_FILTERS, Space
from fourfold.storage.postgres import vectors
from fourfold.storage.postgres.database import Tuning
from fourfold.storage.postgres.store import PostgresSnapshot, PostgresStore
from fourfold.storage.values import NewRaw

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def short_deadlines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "BUSY_SECONDS", 2.0)


# ---------------------------------------------------------------- a server that stops or crashes


def test_a_restarted_server_is_found_again_by_reads_and_writes(own_server: Own):
    with opened(own_server.fresh()) as memory:
        first = memory.add("before the restart")
        own_server.restart()
        assert [item.id for item in memory.get([first.id])] == [first.id]
        own_server.restart()
        second = memory.add("after the restart")
        assert {result.id for result in memory.search("restart").results} == {first.id, second.id}


def test_a_stopped_server_raises_an_error_with_a_remedy_within_the_deadline(own_server: Own):
    dsn = own_server.fresh()
    with opened(dsn) as memory:
        kept = memory.add("kept")
        own_server.kill()
        for work in (partial(memory.get, [kept.id]), partial(memory.add, "refused"), partial(memory.search, "kept")):
            started = time.monotonic()
            with pytest.raises(WorldError) as told:
                work()
            assert told.value.remedy
            assert time.monotonic() - started < 20
        with pytest.raises(StoreUnavailable):
            opened(dsn)
        own_server.restart()
        assert [item.text for item in memory.list()] == ["kept"]


def test_keyword_search_finds_after_a_crash_what_it_found_before(own_server: Own):
    with opened(own_server.fresh(), INDEXED) as memory:
        calls = StoreCalls(memory.store)
        notes = [NewItem(f"note {number} of a river", key=str(number)) for number in range(35)]
        memory.add_many(notes[:30])
        memory.index()
        memory.add_many(notes[30:])
        before = calls.match("default", "river 7 32", 50, NO_FILTERS).hits
        own_server.restart()
        assert calls.match("default", "river 7 32", 50, NO_FILTERS).hits == before
        assert len(before) == 35
        assert memory.check() == []


@pytest.mark.parametrize(
    ("clients", "seconds"), [(3, 2), pytest.param(16, 60, marks=pytest.mark.soak)], ids=["short", "whole"]
)
def test_killing_the_server_during_work_loses_and_doubles_no_confirmed_write(own_server, clients, seconds):
    dsn = own_server.fresh()
    tuning = Tuning(postings_items=20, postings_tail_texts=20)  # indexes are built during the test
    memories = [opened(dsn, tuning) for _ in range(clients)]
    confirmed: list[str] = []
    failed: list[WorldError] = []
    bugs: list[BaseException] = []
    stop = threading.Event()
    numbers = count()

    def client(number: int) -> Iterator[None]:
        for turn in numbers:
            if turn % 3 == 2:
                memories[number].search(f"note {turn} server")
            else:
                key = f"{number}-{turn}"
                memories[number].add(NewItem(f"note {key} about the server", title=f"Note {key}", key=key))
                confirmed.append(key)
            yield

    def keeper() -> Iterator[None]:
        while True:
            memories[0].store.maintenance.publish("default")
            time.sleep(0.2)
            yield

    def run(steps: Any) -> None:
        work = steps()
        while not stop.is_set():
            try:
                next(work)
            except WorldError as error:
                failed.append(error)
                time.sleep(0.05)
                work = steps()
            except BaseException as error:
                bugs.append(error)
                raise

    threads = [threading.Thread(target=run, args=[keeper])]
    threads += [threading.Thread(target=run, args=[partial(client, number)]) for number in range(clients)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        time.sleep(seconds / 3)
        own_server.restart()
    time.sleep(seconds / 3)
    known = len(confirmed)
    while len(confirmed) < known + clients and not bugs:  # the clients recover by themselves
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    store: Any = memories[0].store
    keys = store.database.read(lambda db: [key for (key,) in db.execute("SELECT key FROM items")])
    assert bugs == []
    assert all(error.remedy for error in failed)
    assert len(keys) == len(set(keys))
    assert set(confirmed) <= set(keys)
    assert memories[0].check() == []
    for memory in memories:
        memory.close()


# ---------------------------------------------------------------- a server that hangs


@pytest.fixture
def hung(own_server: Own) -> Iterator[Any]:
    """Stops all processes of the server for as long as a block runs."""
    stopped: list[int] = []

    def stop() -> None:
        postmaster = int((own_server.data / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in (postmaster, *map(int, children)):
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)

    def resume() -> None:
        while stopped:
            os.kill(stopped.pop(), signal.SIGCONT)

    stop.resume = resume
    yield stop
    resume()


def test_a_read_from_a_hung_server_times_out_and_the_store_recovers(own_server: Own, hung: Any):
    store = PostgresStore(own_server.fresh())
    calls = StoreCalls(store)
    kept = calls.add_raw("notes", "kept", None, None, {}, NOW).id
    with pytest.raises(TimedOut), store.snapshot("notes", seconds=0.2) as at:
        hung()
        at.raw.get([kept])
    with pytest.raises((TimedOut, StoreUnavailable)), store.snapshot("notes", seconds=0.2):
        pass
    hung.resume()
    assert calls.get_raw("notes", [kept])[kept].content == "kept"
    store.close()


def test_a_write_to_a_hung_server_ends_with_an_error(own_server: Own, hung: Any, monkeypatch: pytest.MonkeyPatch):
    store = PostgresStore(own_server.fresh())
    calls = StoreCalls(store)
    calls.add_raw("notes", "first", None, None, {}, NOW)
    monkeypatch.setattr(limits, "READ_SECONDS", 0.2)
    with pytest.raises(StoreUnavailable, match="may or may not be stored"), store.transaction("notes") as tx:
        hung()
        tx.raw.add(NewRaw("second", None, None, {}, NOW))
    hung.resume()
    assert calls.list_raw("notes", None, None, 9, 0).total == 1
    store.close()


def test_a_retriever_that_hangs_leaves_the_snapshot_readable(store: PostgresStore, calls: StoreCalls):
    calls.add_raw("notes", "text", None, None, {}, NOW)
    with store.snapshot("notes") as at:
        started = time.monotonic()
        with pytest.raises(TimedOut), within(at, 0.2):
            _sleep(at)
        assert time.monotonic() - started < 5
        assert at.raw.list(None, None, 5, 0).total == 1


@contextmanager
def within(at: PostgresSnapshot, seconds: float) -> Generator[None]:
    """Sets the deadline as the engine does."""
    before, at.deadline.until = at.deadline.until, time.monotonic() + seconds
    try:
        yield
    finally:
        at.deadline.until = before


def _sleep(at: Any) -> None:
    at.db.rows("SELECT pg_sleep(30)")


def test_a_statement_past_its_deadline_is_cancelled_and_its_connection_kept(store: PostgresStore):
    with store.snapshot("notes", seconds=0.3) as at, pytest.raises(TimedOut):
        stopped = at.db
        _sleep(at)
    assert not stopped.closed
    with store.snapshot("notes") as at:
        assert not at.exists


def test_searches_that_time_out_do_not_use_up_the_connections(store: PostgresStore):
    for _ in range(12):  # more searches than connections
        with store.snapshot("notes") as at, pytest.raises(TimedOut), within(at, 0.02):
            _sleep(at)
    with store.snapshot("notes") as at:
        assert not at.exists


# ---------------------------------------------------------------- concurrent clients


def opened_when_free(dsn: str) -> Memory:
    """Opens the store, with retries: the server frees a closed connection with a delay."""
    for _ in range(100):
        with suppress(StoreBusy):
            return opened(dsn)
        time.sleep(0.05)
    return opened(dsn)


def test_a_server_without_a_free_connection_is_busy(own_server: Own):
    dsn = own_server.fresh()
    own_server.configure(superuser_reserved_connections="0", reserved_connections="0", max_connections="6")
    own_server.restart()
    with opened(dsn) as memory:
        memory.add("one")
        others: list[Any] = []
        with pytest.raises(psycopg.OperationalError):
            while True:
                others.append(psycopg.connect(own_server.server))
        with pytest.raises(StoreBusy, match="connections"):
            opened(dsn)
        assert len(memory.list()) == 1, "a client with a connection keeps it"
        for each in others:
            each.close()
        with opened_when_free(dsn) as late:
            assert len(late.list()) == 1
    own_server.configure(max_connections="100")
    own_server.restart()


def test_a_writer_that_waits_too_long_for_another_gets_an_error(store, other, calls, monkeypatch):
    monkeypatch.setattr(limits, "BUSY_SECONDS", 0.5)
    calls.set_space("notes", Space("model", 2))
    for busy in (store, other):
        with busy.transaction("notes"), pytest.raises(StoreBusy):
            calls.add_raw("notes", "text", None, None, {}, NOW)
    assert calls.add_raw("notes", "text", None, None, {}, NOW).content == "text"


def test_a_read_only_server_refuses_writes(dsn: str):
    with opened(dsn) as memory:
        memory.add("kept")
    with opened(f"{dsn}&options=-c%20default_transaction_read_only%3Don") as memory:
        assert [item.text for item in memory.list()] == ["kept"]
        with pytest.raises(ReadOnlyStore):
            memory.add("refused")


def test_clients_that_start_at_once_create_one_schema(dsn: str):
    stores = [PostgresStore(dsn) for _ in range(6)]
    at_once(*(store.open for store in stores))
    assert [store.namespaces() for store in stores] == [{}] * 6
    for store in stores:
        store.close()


def test_stores_that_start_at_once_in_a_new_database_share_its_extension(own_server: Own):
    with psycopg.connect(own_server.server, autocommit=True) as db:
        db.execute("CREATE DATABASE shared")
    server = own_server.server.replace("/postgres?", "/shared?")
    stores = [PostgresStore(f"{server}&schema=s{number}") for number in range(6)]
    at_once(*(store.open for store in stores))
    assert [store.namespaces() for store in stores] == [{}] * 6
    for store in stores:
        store.close()


def test_a_newer_schema_is_left_alone(dsn: str):
    store = PostgresStore(dsn)
    store.open()
    store.close()
    execute(dsn, "UPDATE fourfold_schema SET version = 99")
    with pytest.raises(NewerSchema):
        PostgresStore(dsn).open()


# ---------------------------------------------------------------- a full disk


def test_a_full_disk_is_reported_and_what_was_confirmed_stays(small_store: tuple[str, Path]):
    dsn, ballast = small_store
    random = Random(1)
    with opened(dsn) as memory:
        confirmed: list[str | None] = []
        with pytest.raises(StorageFull) as told:
            for number in range(200):
                text = random.randbytes(200_000).hex()
                confirmed.append(memory.add(NewItem(text, key=f"k{number}")).key)
        assert "space" in told.value.message
        assert [item.key for item in memory.list(limit=1000)][::-1] == confirmed
        assert memory.check() == []
        ballast.unlink()
        memory.add("and now there is room again")


@pytest.fixture
def small_store(own_server: Own, small_disk: Path) -> Iterator[tuple[str, Path]]:
    """A store on a small disk, and a file there that can be deleted to free space; removed afterwards."""
    dsn = own_server.fresh()
    with psycopg.connect(own_server.server, autocommit=True) as db:
        db.execute(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        yield f"{dsn}&options=-c%20default_tablespace%3Dsmall", small_disk.with_name("ballast")
        for sql in (f"DROP SCHEMA {dsn.rpartition('=')[2]} CASCADE", "DROP TABLESPACE small", "CHECKPOINT"):
            db.execute(sql)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A small, separately mounted file system, which needs root."""
    folder = Path(tempfile.mkdtemp(prefix="fourfold-disk-"))
    mounting = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=0777", "tmpfs", str(folder)]
    try:
        subprocess.run(mounting, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    space = folder / "space"
    space.mkdir()
    shutil.chown(space, "pgserver")
    (folder / "ballast").write_bytes(bytes(4_000_000))
    yield space
    subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def test_vectors_are_not_indexed_while_a_load_writes_them(dsn: str):
    """A batch that adds to an index holds the namespace for seconds; other writers would get StoreBusy."""
    memory = opened(dsn, INDEXED)
    store: Any = memory.store
    memory.add_many([NewItem(f"note {n}", title=f"Note {n}", vector=[1.0, n]) for n in range(40)])

    def lacks_index() -> bool:
        with store.snapshot("default") as at:
            return vectors.lacks_index(at.db, at.ns, at.tuning)

    assert store.maintenance.publish("default", amid_writes=True)
    assert lacks_index()
    assert store.maintenance.publish("default")
    assert not lacks_index()
    memory.close()
