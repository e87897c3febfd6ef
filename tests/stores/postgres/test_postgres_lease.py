"""One process at a time holds the lease of a namespace; another gets it when the holder ends."""

import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest
from postgres_support import at_once

from fourfold import Memory, NewItem
from fourfold.cli import vectors
from fourfold.errors import StoreNotFound
from fourfold.storage.postgres.store import PostgresStore


def test_threads_of_one_process_share_a_lease_that_another_process_does_not_get(store, other):
    mine, others = store.maintenance.lease, other.maintenance.lease
    with mine("notes") as first, mine("notes") as second, others("notes") as third:
        assert (first, second, third) == (True, True, False)
        with others("elsewhere") as fourth:
            assert fourth
    with others("notes") as fifth:
        assert fifth


def test_lease_is_held_until_its_last_thread_releases_it(store: PostgresStore, other: PostgresStore):
    held = at_once(*[partial(_entered, store)] * 12)
    assert all(taken for taken, _ in held)
    for _, stack in held[:-1]:
        stack.close()
        assert not _gets_it(other)
    held[-1][1].close()
    assert _gets_it(other)


def _entered(store: PostgresStore) -> tuple[bool, ExitStack]:
    stack = ExitStack()
    return stack.enter_context(store.maintenance.lease("notes")), stack


def _gets_it(store: PostgresStore) -> bool:
    with store.maintenance.lease("notes") as taken:
        return taken


def test_lease_is_released_when_its_holder_dies(store: PostgresStore, other: PostgresStore):
    with store.maintenance.lease("notes") as taken:
        assert taken
        key = f"{store.address.schema}/notes"
        other.database.read(lambda db: db.execute(_TERMINATE, (key,)))
        until = time.monotonic() + 10
        while not _gets_it(other):
            assert time.monotonic() < until


_TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks, hashtextextended(?, 4) AS key WHERE locktype = 'advisory' "
    "AND (classid::bigint << 32 | objid::bigint) = key"
)


@pytest.mark.spec("C4")
def test_status_reports_the_lease_of_the_embedding_worker(dsn: str):
    one, other = PostgresStore(dsn), PostgresStore(dsn)
    assert other.status()["embedding_worker"] is False
    mine, others = one.maintenance.lease, other.maintenance.lease
    with mine(None) as first, others(None) as second, others("notes") as third:
        assert (first, second, third) == (True, False, True)
        assert other.status()["embedding_worker"] is True
    assert other.status()["embedding_worker"] is False
    one.close()
    other.close()


@pytest.mark.spec("C4")
def test_a_worker_embeds_what_a_command_left(dsn: str):
    with Memory.open(dsn, background=False) as memory:
        memory.add_many([NewItem(f"ledger entry {number}") for number in range(40)])
        assert vectors.start(replace(memory.settings, store=dsn))
        worker = vectors.started.pop()
        assert worker.wait(300) == 0
        assert memory.status()["namespaces"]["default"]["pending_vectors"] == 0


def test_reading_creates_no_schema(dsn: str):
    with pytest.raises(StoreNotFound, match="no store at"):
        Memory.open(dsn, embedder="none", create=False)
    with Memory.open(dsn, embedder="none") as memory:
        memory.add("x")
    with Memory.open(dsn, embedder="none", create=False) as memory:
        assert memory.count() == 1
