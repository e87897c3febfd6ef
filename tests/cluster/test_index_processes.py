"""Several processes: writes are seen by others at once, and killed feeders leave nothing missing or doubled."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import index_processes
import index_servers
import pytest
from cluster_support import entries, generations
from conformance_subjects import NOW, item
from index_processes import NS, opened, processes, some_vectors, unit, word_of, write
from store_calls import StoreCalls
from test_index_upkeep import collection, feed

from fourfold.model import NO_FILTERS
from fourfold.storage.postgres.store import PostgresStore

pytestmark = pytest.mark.spec("C11")

_WRITES = int(os.environ.get("FOURFOLD_SOAK_WRITES", "2000"))
_KILLS = int(os.environ.get("FOURFOLD_SOAK_KILLS", "100"))
FEEDERS: dict[str, tuple[int, float] | None] = {"paused": None, "slow": (5, 0.3), "normal": (500, 0.01)}
"""Batch size and pause in seconds of each feeder."""


def _soaked(value: object) -> Any:
    return pytest.param(value, marks=pytest.mark.soak)


@contextmanager
def running(target: Callable[..., None], *arguments: Any) -> Iterator[tuple[Any, Any]]:
    """Starts a process and yields it with its connection; kills it at the end."""
    ours, theirs = processes.Pipe()
    process = processes.Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()  # so that the death of the process raises EOFError here
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("mode", [_soaked("paused"), _soaked("slow"), "normal"])
@pytest.mark.parametrize("operations", [30, _soaked(_WRITES)], ids=["short", "whole"])
def test_another_process_sees_every_write_at_once(dsn: str, kind: str, mode: str, operations: int):
    address, random = index_servers.address(kind), Random(operations)
    store = opened(dsn, address)
    calls, feeder = StoreCalls(store), FEEDERS[mode]
    calls.put(NS, [item(f"heron {n}", key=f"old{n}", vector=unit(random)) for n in range(50)], NOW)
    feed(store)
    stored: dict[str, tuple[int, str, Any]] = {}
    misses = resurrected = long = 0
    notes: list[str] = []
    with running(index_processes.search, dsn, address) as (_, searcher), _feeding(dsn, address, feeder):
        for turn in range(operations):
            key, word, vectors = f"k{random.randrange(60)}", word_of(turn), some_vectors(random)
            before = stored.pop(key, None)
            if before is not None and random.random() < 0.4:
                calls.forget(NS, [before[0]])
                searcher.send((before[1], before[2].tolist()))
                words, near, note = searcher.recv()
                resurrected += words != [] or before[0] in [hit.id for hit in near]
            else:
                new, vector = write(calls, key, f"heron {word}", vectors), random.choice(vectors)
                stored[key] = (new, word, vector)
                long += len(vectors) > 1
                searcher.send((word, vector.tolist()))
                words, near, note = searcher.recv()
                misses += words != [new] or near[0].id != new
                if before is not None:
                    searcher.send((before[1], before[2].tolist()))
                    words, near, _ = searcher.recv()
                    resurrected += words != [] or near[0].score > 0.99999
            notes += [] if note is None else [note]
    counted = f"{misses} misses, {resurrected} resurrected, {len(notes)} answered by PostgreSQL {set(notes) or ''}"
    print(f"{kind}, feeder {mode}: {operations} operations, {long} of items with several windows, {counted}")
    assert (misses, resurrected) == (0, 0)
    assert len(notes) < operations / 5, (
        "the index answers, unless the machine is so busy that a node misses its deadline"
    )
    feed(store)
    assert store.maintenance.check() == []
    store.close()


@contextmanager
def _feeding(dsn: str, address: str, feeder: tuple[int, float] | None) -> Iterator[None]:
    if feeder is None:
        yield
        return
    with running(index_processes.feed, dsn, address, *feeder) as (_, ready):
        ready.recv()
        yield


@pytest.mark.parametrize("kills", [2, _soaked(_KILLS)], ids=["short", "whole"])
def test_a_feeder_that_is_killed_leaves_nothing_missing_or_doubled(dsn: str, kind: str, kills: int):
    address, random = index_servers.address(kind), Random(kills)
    store = opened(dsn, address)
    calls = StoreCalls(store)
    calls.put(NS, [item(f"heron {n}", key=f"k{n}", vector=unit(random)) for n in range(60)], NOW)
    feed(store)
    rebuilt = 0
    for turn in range(kills):
        for _ in range(8):
            write(calls, f"k{random.randrange(90)}", f"heron {random.random()}", some_vectors(random))
        calls.forget(NS, random.sample(calls.ids(NS, NO_FILTERS), 2))
        if turn % 10 == 4:
            store.feeder.rebuild(NS)
            rebuilt += 1
        with running(index_processes.feed, dsn, address, 3, 0.0) as (_, ready):
            ready.recv()
            time.sleep(random.uniform(0.0, 0.35))  # kills the feeder at a random moment
    _until_free(store)
    feed(store)
    held, items = entries(store.feeder.engine, collection(store)), calls.ids(NS, NO_FILTERS)
    print(f"{kind}: {kills} kills of the feeder, {rebuilt} of them near a rebuild; {len(items)} items, check clean")
    assert all(sorted(entry.item for entry in each) == items for each in held)
    assert store.maintenance.check() == []
    assert [each.state for each in generations(store, NS)].count("active") == 1
    store.close()


def _until_free(store: PostgresStore) -> None:
    """Waits until the server has noticed the death of the last feeder and released its lease."""
    for _ in range(200):
        with store.maintenance.lease(NS) as mine:
            if mine:
                return
        time.sleep(0.05)
    raise TimeoutError
