"""Whatever happens to the server: an error of a named type within the deadline, nothing lost or doubled, and the store
goes on by itself when the server does."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from postgres_servers import KINDS, Own

from fourfold import limits
from fourfold.errors import NewerSchema, ReadOnlyStore, StorageFull, StoreBusy, StoreUnavailable, TimedOut, WorldError
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, NewItem
from fourfold.stores.base import Space
from fourfold.stores.postgres.store import PostgresStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def short_deadlines(monkeypatch):
    monkeypatch.setattr(limits, "BUSY_SECONDS", 2.0)


async def opened(dsn: str) -> Memory:
    return await Memory.open(dsn, embedder="none", background=False)


async def test_a_restarted_server_is_found_again_by_reads_and_writes(own_server: Own):
    dsn = own_server.fresh()
    async with await opened(dsn) as memory:
        first = await memory.add("before the restart")
        own_server.restart()
        assert [item.id for item in await memory.get([first.id])] == [first.id]
        own_server.restart()
        second = await memory.add("after the restart")
        response = await memory.search("restart")
        assert {result.id for result in response.results} == {first.id, second.id}


async def test_a_server_that_is_gone_is_an_error_with_a_remedy_within_the_deadline(own_server: Own):
    dsn = own_server.fresh()
    async with await opened(dsn) as memory:
        kept = await memory.add("kept")
        own_server.kill()
        for work in (memory.get([kept.id]), memory.add("refused"), memory.search("kept")):
            async with asyncio.timeout(20):
                with pytest.raises(WorldError) as told:
                    await work
            assert told.value.remedy
        with pytest.raises(StoreUnavailable):
            await opened(dsn)
        own_server.restart()
        assert [item.text for item in await memory.list()] == ["kept"]


@pytest.mark.parametrize("private_server", KINDS, indirect=True)
async def test_keyword_search_finds_after_a_crash_what_it_found_before(
    own_server: Own, monkeypatch: pytest.MonkeyPatch
):
    for least in ("postings.POSTED", "upkeep.WORDED"):
        monkeypatch.setattr(f"fourfold.stores.postgres.{least}", 1)
    async with await opened(own_server.fresh()) as memory:
        notes = [NewItem(f"note {number} of a river", key=str(number)) for number in range(35)]
        await memory.add_many(notes[:30])
        await memory.index()
        await memory.add_many(notes[30:])
        before = (await memory.store.match("default", "river 7 32", 50, NO_FILTERS)).hits
        own_server.restart()
        assert (await memory.store.match("default", "river 7 32", 50, NO_FILTERS)).hits == before
        assert len(before) == 35
        assert await memory.check() == []


@pytest.mark.parametrize(
    ("private_server", "clients", "seconds"),
    [("postgres", 3, 2), *(pytest.param(kind, 16, 60, marks=pytest.mark.soak) for kind in KINDS)],
    ids=["short", *(f"whole-{kind}" for kind in KINDS)],
    indirect=["private_server"],
)
async def test_killed_while_it_searches_and_writes_nothing_confirmed_is_lost_or_doubled(
    own_server: Own, clients: int, seconds: int, monkeypatch: pytest.MonkeyPatch
):
    for least in ("postings.POSTED", "postings.TAIL", "upkeep.WORDED"):  # so that indexes are made meanwhile
        monkeypatch.setattr(f"fourfold.stores.postgres.{least}", 20)
    dsn = own_server.fresh()
    memories = [await opened(dsn) for _ in range(clients)]
    confirmed: list[str] = []
    failed: list[WorldError] = []
    stop = asyncio.Event()

    async def client(number: int) -> None:
        for turn in count():
            if stop.is_set():
                return
            try:
                if turn % 3 == 2:
                    await memories[number].search(f"note {turn} server")
                else:
                    key = f"{number}-{turn}"
                    await memories[number].add(NewItem(f"note {key} about the server", title=f"Note {key}", key=key))
                    confirmed.append(key)
            except WorldError as error:  # anything else ends the test
                failed.append(error)
                await asyncio.sleep(0.05)

    async def keeper() -> None:
        while not stop.is_set():
            try:
                await memories[0].store.maintain("default")
            except WorldError as error:
                failed.append(error)
            await asyncio.sleep(0.2)

    tasks = [asyncio.create_task(keeper()), *(asyncio.create_task(client(number)) for number in range(clients))]
    for _ in range(2):
        await asyncio.sleep(seconds / 3)
        await asyncio.to_thread(own_server.restart)
    await asyncio.sleep(seconds / 3)
    known = len(confirmed)
    while len(confirmed) < known + clients:  # they go on by themselves
        await asyncio.sleep(0.05)
    stop.set()
    await asyncio.gather(*tasks)
    keys = [key for (key,) in await all_keys(memories[0])]
    indexed = await memories[0].store._read("default", None, _indexed)
    print(f"{len(confirmed)} confirmed, {len(keys)} stored, {len(failed)} failures, all typed; {indexed}")
    assert all(error.remedy for error in failed)
    assert len(keys) == len(set(keys))
    assert set(confirmed) <= set(keys)
    assert await memories[0].check() == []
    for memory in memories:
        await memory.close()


async def _indexed(db: Any, ns: Any) -> str:
    return f"parts {ns.parts}, words {ns.words}"


async def all_keys(memory: Memory) -> list[tuple[str]]:
    found = await memory.store._db.read(lambda db: db.execute("SELECT key FROM items"))
    return await found.fetchall()


async def opened_when_free(dsn: str) -> Memory:
    """Those who left have a place for a moment longer."""
    for _ in range(100):
        with suppress(StoreBusy):
            return await opened(dsn)
        await asyncio.sleep(0.05)
    return await opened(dsn)


async def test_a_server_without_a_free_connection_says_busy(own_server: Own):
    dsn = own_server.fresh()
    own_server.configure(superuser_reserved_connections="0", reserved_connections="0", max_connections="6")
    own_server.restart()
    async with await opened(dsn) as memory:
        await memory.add("one")
        others = []
        with pytest.raises(psycopg.OperationalError):
            while True:
                others.append(psycopg.connect(own_server.server))
        with pytest.raises(StoreBusy, match="connections"):
            await opened(dsn)
        assert len(await memory.list()) == 1, "who has a connection goes on"
        for other in others:
            other.close()
        async with await opened_when_free(dsn) as late:
            assert len(await late.list()) == 1
    own_server.configure(max_connections="100")
    own_server.restart()


async def test_a_statement_that_takes_too_long_is_stopped(plain_dsn: str, monkeypatch):
    monkeypatch.setattr(limits, "READ_SECONDS", 0.4)
    store = PostgresStore(plain_dsn)
    await store.open()
    with pytest.raises(TimedOut):
        await store._db.read(lambda db: db.execute("SELECT pg_sleep(30)"))
    assert await store.namespaces() == {}
    await store.close()


async def test_a_writer_that_is_kept_waiting_is_told(plain_dsn: str, monkeypatch):
    monkeypatch.setattr(limits, "BUSY_SECONDS", 0.5)
    store, other = PostgresStore(plain_dsn), PostgresStore(plain_dsn)
    await store.set_space("notes", Space("model", 2))
    async with other._db.write() as db:
        await db.execute("SELECT 1 FROM namespaces FOR UPDATE")
        with pytest.raises(StoreBusy):
            await store.add_raw("notes", "text", None, None, {}, NOW)
    assert (await store.add_raw("notes", "text", None, None, {}, NOW)).content == "text"
    await store.close()
    await other.close()


async def test_a_full_disk_is_said_and_what_was_confirmed_stays(small_store: tuple[str, Path]):
    dsn, ballast = small_store
    random = Random(1)
    async with await opened(dsn) as memory:
        confirmed: list[str] = []
        with pytest.raises(StorageFull) as told:
            for number in range(200):
                text = random.randbytes(200_000).hex()
                confirmed.append((await memory.add(NewItem(text, key=f"k{number}"))).key)
        assert "space" in told.value.message
        assert [item.key for item in await memory.list(limit=1000)][::-1] == confirmed
        assert await memory.check() == []
        ballast.unlink()
        await memory.add("and now there is room again")


@pytest.fixture
def small_store(own_server: Own, small_disk: Path) -> Iterator[tuple[str, Path]]:
    """A store on that disk, and a file there that can be spared. Nothing of it is left to a server that goes on."""
    dsn = own_server.fresh()
    with psycopg.connect(own_server.server, autocommit=True) as db:
        db.execute(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        yield f"{dsn}&options=-c%20default_tablespace%3Dsmall", small_disk.with_name("ballast")
        for sql in (f"DROP SCHEMA {dsn.rpartition('=')[2]} CASCADE", "DROP TABLESPACE small", "CHECKPOINT"):
            db.execute(sql)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which is soon full. Only root can make one."""
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


async def test_who_may_only_read_is_told_so(plain_dsn: str):
    async with await opened(plain_dsn) as memory:
        await memory.add("kept")
    read_only = f"{plain_dsn}&options=-c%20default_transaction_read_only%3Don"
    async with await opened(read_only) as memory:
        assert [item.text for item in await memory.list()] == ["kept"]
        with pytest.raises(ReadOnlyStore):
            await memory.add("refused")


async def test_a_cancelled_search_leaves_the_store_usable(plain_dsn: str):
    store = PostgresStore(plain_dsn)
    await store.open()
    for _ in range(12):  # more than there are connections
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await store._db.read(lambda db: db.execute("SELECT pg_sleep(30)"))
    assert await store.match("nowhere", "text", 9, NO_FILTERS) is not None
    await store.close()


async def test_servers_that_start_at_once_make_one_schema(dsn: str):
    stores = [PostgresStore(dsn) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    assert [await store.namespaces() for store in stores] == [{}] * 6
    for store in stores:
        await store.close()


async def test_stores_that_start_at_once_in_a_new_database_share_its_extension(own_server: Own):
    with psycopg.connect(own_server.server, autocommit=True) as db:
        db.execute("CREATE DATABASE shared")
    server = own_server.server.replace("/postgres?", "/shared?")
    stores = [PostgresStore(f"{server}&schema=s{number}") for number in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    assert [await store.namespaces() for store in stores] == [{}] * 6
    for store in stores:
        await store.close()


async def test_a_newer_schema_is_left_alone(plain_dsn: str):
    store = PostgresStore(plain_dsn)
    await store.open()
    await store._db.read(lambda db: db.execute("UPDATE fourfold_schema SET version = 99"))
    await store.close()
    with pytest.raises(NewerSchema):
        await PostgresStore(plain_dsn).open()
