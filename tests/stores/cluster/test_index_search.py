"""Searches over PostgreSQL with a distributed index: the same answers, every write seen at once; and its commands."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import index_processes
import index_servers
import pytest
from cluster_support import TUNING, collection, entries, feed, generations, opened
from conformance_subjects import LATER, NOW, NS, RETRIEVERS, item
from index_processes import opened as opened_at
from index_processes import processes, some_vectors, unit, word_of, write
from oracle import Oracle
from postgres_support import found_by, some_items, some_queries, vector
from store_calls import StoreCalls

from fourfold import Edge, Filters, ItemPatch
from fourfold.errors import IndexUnavailable
from fourfold.model import NO_FILTERS
from fourfold.storage.postgres import index_log
from fourfold.storage.postgres.namespaces import find
from fourfold.storage.postgres.store import PostgresStore

pytestmark = pytest.mark.spec("C11")


def changed(calls: StoreCalls, count: int) -> None:
    """Changes some of the items, removes some and adds some."""
    random = Random(11)
    ids = calls.ids(NS, NO_FILTERS)
    calls.forget(NS, ids[:: count // 8])
    for id in ids[3 :: count // 8]:
        calls.patch(NS, id, ItemPatch(text=f"another contract {id}"), LATER)
    calls.put(NS, [replace(new, key=f"n{new.key}", text=f"{new.text} later") for new in some_items(count // 8)], NOW)
    calls.put(NS, [item("moved", key="k5", vector=vector(random))], LATER)


@pytest.mark.spec("S1.1", "S1.2")
@pytest.mark.parametrize(
    ("items", "queries"), [(80, 10), pytest.param(1_600, 300, marks=pytest.mark.soak)], ids=["short", "whole"]
)
def test_an_index_gives_the_answers_of_the_oracle(calls: StoreCalls, items: int, queries: int):
    new = some_items(items)
    for start in range(0, items, 500):
        calls.put(NS, new[start : start + 500], NOW)
    calls.add_edges(NS, [Edge("Anna", "knows", "Berlin", 1.0), Edge("Berlin", "near", "Paris", 0.5)])
    feed(calls.store)
    changed(calls, items)  # a tail that the index lacks
    exact = StoreCalls(Oracle(calls.store))
    recalls, overlaps, notes = list[float](), list[float](), list[str]()
    for query in some_queries(queries):
        for name in RETRIEVERS:
            wanted = found_by(exact, name, query)
            with calls.snapshot(NS) as at:
                ranking = RETRIEVERS[name](at).search(query, 200)
                notes += [] if at.candidates.note is None else [at.candidates.note]
            if name in ("graph", "tags"):
                assert [hit.id for hit in ranking.hits] == [hit.id for hit in wanted]
                assert [hit.score for hit in ranking.hits] == pytest.approx([hit.score for hit in wanted], abs=1e-6)
                continue
            best = {hit.id for hit in wanted[:10]}
            shared = len(best & {hit.id for hit in ranking.hits[:10]}) / len(best) if best else 1.0
            (recalls if name == "semantic" else overlaps).append(shared)
            scores = dict(wanted)
            assert all(hit.score == pytest.approx(scores[hit.id], abs=1e-6) for hit in ranking.hits if hit.id in scores)
    print(f"recall@10 {sum(recalls) / len(recalls):.4f}, keyword overlap {sum(overlaps) / len(overlaps):.4f}")
    assert sum(recalls) / len(recalls) >= 0.98
    assert sum(overlaps) / len(overlaps) >= 0.95
    assert notes == []
    assert calls.store.maintenance.check() == []


def test_candidates_come_from_the_index(calls: StoreCalls):
    """Items missing in the engine are not found, although PostgreSQL has them: only the engine proposes candidates."""
    one, _ = (each.id for each in calls.put(NS, some_items(2), NOW))
    feed(calls.store)
    (generation,) = generations(calls.store, NS)
    entry = entries(calls.store.feeder.engine, generation.collection)[0][1]
    calls.store.feeder.engine.remove(generation.collection, [entry])
    (query,) = some_queries(1)
    assert [hit.id for hit in found_by(calls, "semantic", query)] == [one]


def test_each_write_is_found_at_once_before_and_after_feeding(calls: StoreCalls):
    """Searches before and after the feeder has copied the write to the index."""
    (first,) = calls.put(NS, [item("a heron", key="a")], NOW)
    feed(calls.store)
    for fed in (False, True):
        (second,) = calls.put(NS, [item(f"an egret {fed}", key=f"b{fed}")], NOW)
        calls.patch(NS, first.id, ItemPatch(text=f"a kingfisher {fed}"), LATER)
        if fed:
            feed(calls.store)
        assert [hit.id for hit in calls.match(NS, "kingfisher", 9, NO_FILTERS).hits] == [first.id]
        assert calls.match(NS, "heron", 9, NO_FILTERS).hits == ()
        assert second.id in [hit.id for hit in calls.match(NS, "egret", 9, NO_FILTERS).hits]
        calls.forget(NS, [second.id])
        assert calls.match(NS, "egret", 9, NO_FILTERS).hits == ()


def test_filters_apply_to_candidates_of_the_index(calls: StoreCalls):
    calls.put(NS, some_items(150), NOW)
    calls.store.feeder.create(NS)
    feed(calls.store)
    query = some_queries(1)[0]
    for filters, kept in (
        (Filters(kind="rare"), 2),
        (Filters(where="kind = rare or key = k7"), 3),
        (Filters(where="not kind = common"), 2),
        (Filters(where="key = k7"), 1),
    ):
        near = calls.nearest(NS, query.vector, 10, filters)
        assert len(near.hits) == kept
        assert {hit.id for hit in calls.match(NS, "Vertrag contract the Haus house", 10, filters).hits} <= {
            hit.id for hit in near.hits
        }


def test_newer_items_do_not_displace_better_ones_that_pass_a_filter(calls: StoreCalls):
    """The filter removes the first candidates of the index, which then proposes more."""
    long = "heron among many other words that make its text longer than those of others"
    calls.put(NS, [item("heron", key=f"c{n}", kind="common") for n in range(150)], NOW, links=False)
    better = calls.put(NS, [item(long, key=f"r{n}", kind="rare") for n in range(5)], NOW, links=False)
    feed(calls.store)
    calls.put(NS, [item(f"{long} {2 * long[5:]}", key=f"n{n}", kind="rare") for n in range(6)], NOW, links=False)
    found = calls.match(NS, "heron", 5, Filters(where="not kind = common"))
    assert [hit.id for hit in found.hits] == [each.id for each in better]


def test_postgresql_answers_while_the_index_lags(dsn: str, kind: str):
    store = opened(dsn, kind, replace(TUNING, tail_items=2, vector_index_items=1_000))
    calls = StoreCalls(store)
    calls.put(NS, some_items(3), NOW)
    feed(store)
    calls.put(NS, some_items(12)[3:], NOW)
    query = some_queries(1)[0]
    near, words = calls.nearest(NS, query.vector, 20, NO_FILTERS), calls.match(NS, "10 11", 20, NO_FILTERS)
    assert len(near.hits) == 12
    assert len(words.hits) == 2
    assert all("2 changes behind" in ranking.notes[0] for ranking in (near, words))
    store.close()


def test_a_search_names_the_retriever_that_cannot_answer(dsn: str, kind: str):
    store = opened(dsn, kind, replace(TUNING, tail_items=2))
    calls = StoreCalls(store)
    feed(store)
    calls.put(NS, some_items(5), NOW)
    with pytest.raises(IndexUnavailable, match="changes behind"):
        calls.nearest(NS, some_queries(1)[0].vector, 20, NO_FILTERS)
    store.close()


def test_changes_are_numbered_in_the_order_of_commits(store: PostgresStore, dsn: str, kind: str):
    """A reader that has seen a change never misses an earlier one."""
    feed(store)
    writers = [opened(dsn, kind) for _ in range(3)]

    def write(writer: PostgresStore) -> None:
        for number in range(12):
            StoreCalls(writer).put(NS, [item(f"t{number}", key=f"k{id(writer)} {number}")], LATER)

    seen: set[int] = set()
    with ThreadPoolExecutor(len(writers)) as pool:
        running = [pool.submit(write, writer) for writer in writers]
        while not all(each.done() for each in running):
            rows = store.database.read(lambda db: index_log.newer(db, find(db, NS).id, index_log.Cursor(0, 0), 99))
            fresh = {change for change, _ in rows} - seen
            assert not fresh or not seen or min(fresh) > max(seen)
            seen |= fresh
        for each in running:
            each.result()
    for writer in writers:
        writer.close()


# ---------------------------------------------------------------- other processes


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
    store = opened_at(dsn, address)
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
    store = opened_at(dsn, address)
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


# ---------------------------------------------------------------- fourfold db index


@pytest.fixture
def cli(kind: str, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Callable[..., Any]:
    from fourfold.cli.main import main

    for name, value in {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "FOURFOLD_STORE": dsn,
        "FOURFOLD_INDEX": index_servers.address(kind),
        "FOURFOLD_EMBEDDER": "none",
    }.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        printed = capfd.readouterr()
        return int(left.value.code or 0), printed.out + printed.err

    return run


def test_the_commands_create_check_rebuild_and_drop_an_index(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    assert cli("add", "a heron at the pond")[0] == 0
    code, said = cli("db", "index", "rebuild")
    assert code == 1
    assert "fourfold db index create" in said
    assert cli("db", "index", "create") == (0, "the index holds 1 items\n")
    assert cli("db", "index", "create")[0] == 1
    assert "a heron" in cli("search", "heron")[1]
    assert "lag_changes" in cli("status", "--json")[1]
    assert cli("db", "index", "check", "--repair") == (0, "no problems found\n")
    assert cli("db", "index", "rebuild") == (0, "the index holds 1 items\n")
    assert cli("db", "index", "drop") == (0, "dropped\n")
    assert cli("db", "index", "drop")[0] == 1
    monkeypatch.delenv("FOURFOLD_INDEX")
    code, said = cli("db", "index", "check")
    assert code == 1
    assert "Set `index`" in said


def test_an_index_needs_a_store_on_postgresql(cli: Callable[..., Any], tmp_path: Path):
    code, said = cli("--store", str(tmp_path / "folder"), "add", "text")
    assert code == 1
    assert "`index` needs a store on PostgreSQL" in said
    assert not (tmp_path / "folder").exists()
