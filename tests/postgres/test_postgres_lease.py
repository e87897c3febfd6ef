"""Who works for everyone on a namespace: one process at a time, and the next when that one is gone."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fourfold import Memory, NewItem
from fourfold.engine import embedding_worker
from fourfold.errors import StoreNotFound
from fourfold.stores.postgres.store import PostgresStore


async def test_one_process_has_the_lease_and_its_tasks_share_it(dsn: str):
    one, other = PostgresStore(dsn), PostgresStore(dsn)
    async with one.lease("notes") as first, one.lease("notes") as second, other.lease("notes") as third:
        assert (first, second, third) == (True, True, False)
        async with other.lease("elsewhere") as fourth:
            assert fourth
    async with other.lease("notes") as fifth:
        assert fifth
    await one.close()
    await other.close()


async def test_many_tasks_at_once(plain_dsn: str):
    store, other = PostgresStore(plain_dsn), PostgresStore(plain_dsn)
    working = 0

    async def work(opened: PostgresStore) -> bool:
        nonlocal working
        async with opened.lease("notes") as mine:
            working += mine
            await asyncio.sleep(0.01)
            assert not mine or working == 1 or opened is store
            working -= mine
        return mine

    assert all(await asyncio.gather(*(work(store) for _ in range(20))))
    async with other.lease("notes") as mine:
        assert mine, "all of them let it go"
    await store.close()
    await other.close()


async def test_who_dies_loses_it(plain_dsn: str):
    one, other = PostgresStore(plain_dsn), PostgresStore(plain_dsn)
    try:
        async with one.lease("notes") as first:
            assert first
            await other._db.read(lambda db: db.execute(_TERMINATE, (f"{one.address.schema}/notes",)))
            async with asyncio.timeout(10):
                while not await _gets_it(other):
                    await asyncio.sleep(0.02)
    finally:
        await one.close()
        await other.close()


_TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks, hashtextextended(%s, 4) AS key WHERE locktype = 'advisory' "
    "AND (classid::bigint << 32 | objid::bigint) = key"
)


async def _gets_it(store: PostgresStore) -> bool:
    async with store.lease("notes") as mine:
        return mine


@pytest.mark.spec("C4")
async def test_the_embedding_worker_has_a_lease_of_its_own_that_status_shows(dsn: str):
    one, other = PostgresStore(dsn), PostgresStore(dsn)
    assert (await other.status())["embedding_worker"] is False
    async with one.lease(None) as first, other.lease(None) as second, other.lease("notes") as third:
        assert (first, second, third) == (True, False, True)
        assert (await other.status())["embedding_worker"] is True
    assert (await other.status())["embedding_worker"] is False
    await one.close()
    await other.close()


@pytest.mark.spec("C4")
async def test_a_worker_embeds_what_a_command_left(plain_dsn: str):
    opened = await Memory.open(plain_dsn, background=False)
    async with opened as memory:
        await memory.add_many([NewItem(f"ledger entry {number}") for number in range(40)])
        assert embedding_worker.start(replace(memory.settings, store=plain_dsn))
        worker = embedding_worker.started.pop()
        assert await asyncio.to_thread(worker.wait, 300) == 0
        assert (await memory.status())["namespaces"]["default"]["pending_vectors"] == 0


async def test_reading_creates_no_schema(plain_dsn: str):
    with pytest.raises(StoreNotFound, match="no store at"):
        await Memory.open(plain_dsn, embedder="none", create=False)
    async with await Memory.open(plain_dsn, embedder="none") as memory:
        await memory.add("x")
    async with await Memory.open(plain_dsn, embedder="none", create=False) as memory:
        assert await memory.count() == 1
