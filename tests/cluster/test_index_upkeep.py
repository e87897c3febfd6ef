"""Feeding, rebuilding, checking and repairing a distributed index."""

from __future__ import annotations

import threading
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from cluster_support import TUNING, document, entries, generations, opened
from conformance_subjects import LATER, NOW, NS, item
from postgres_support import execute, some_items
from store_calls import StoreCalls

from fourfold.errors import IndexUnavailable
from fourfold.model import NO_FILTERS, Space
from fourfold.serve.http.metrics import Metrics
from fourfold.storage.engines.protocol import Applied, Entry
from fourfold.storage.postgres import index_feed
from fourfold.storage.postgres.namespaces import find
from fourfold.storage.postgres.store import PostgresStore

pytestmark = pytest.mark.spec("C11")

BACKUP = """
DO $$ DECLARE t text; BEGIN
    EXECUTE format('CREATE SCHEMA %I', current_schema || '_copy');
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema LOOP
        EXECUTE format('CREATE TABLE %I.%I AS TABLE %I', current_schema || '_copy', t, t);
    END LOOP;
END $$"""
"""The tables that pg_dump would save, read at one moment."""
RESTORE = """
DO $$ DECLARE t text; BEGIN
    SET LOCAL session_replication_role = replica;
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema LOOP
        EXECUTE format('TRUNCATE %I CASCADE', t);
    END LOOP;
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema LOOP
        EXECUTE format('INSERT INTO %I OVERRIDING SYSTEM VALUE SELECT * FROM %I.%I', t, current_schema || '_copy', t);
    END LOOP;
END $$"""
QUICK = replace(TUNING, check_grace_seconds=0.01, feed_batch_items=7)


def feed(store: PostgresStore) -> None:
    store.feeder.create(NS)
    assert store.maintenance.publish(NS, everything=True)


def collection(store: PostgresStore) -> str:
    active = store.database.read(lambda db: find(db, NS)).generation
    assert active is not None
    return active.collection


def found(store: PostgresStore, word: str) -> list[int]:
    ranking = StoreCalls(store).match(NS, word, 50, NO_FILTERS)
    assert ranking.notes == ()
    return [hit.id for hit in ranking.hits]


@pytest.fixture
def quick(dsn: str, kind: str) -> Any:
    store = opened(dsn, kind, QUICK)
    yield store
    store.close()


def test_drift_in_both_directions_is_found_and_repaired(quick: PostgresStore):
    calls = StoreCalls(quick)
    ids = [each.id for each in calls.put(NS, some_items(20), NOW)]
    feed(quick)
    assert quick.maintenance.check() == []
    engine, name = quick.feeder.engine, collection(quick)
    lost = entries(engine, name)[0][3]
    engine.remove(name, [lost])
    engine.put(name, [document(ids[5], 99_999, [1]), document(9_999, 4, [1])])
    nodes = len(engine.nodes)
    problems = quick.maintenance.check()
    assert sum(f"lacks 1 of the items ({ids[3]})" in line for line in problems) == nodes
    assert sum(f"has 1 outdated versions ({ids[5]})" in line for line in problems) == nodes
    assert sum("has 1 deleted items (9999)" in line for line in problems) == nodes
    assert len(problems) == 3 * nodes
    assert len(quick.maintenance.mend_index(NS)) == 2
    assert quick.maintenance.check() == []
    assert all(len(each) == 20 for each in entries(engine, name))


def test_the_log_is_fed_up_to_its_end(quick: PostgresStore):
    calls = StoreCalls(quick)
    ids = [each.id for each in calls.put(NS, some_items(20), NOW)]
    feed(quick)
    calls.forget(NS, ids[:5])
    for number in range(3):
        calls.put(NS, [item(f"changed {number}", key="k7")], LATER)
    logged = "SELECT count(*), count(DISTINCT item) FROM index_log"
    assert quick.database.read(lambda db: db.execute(logged).fetchone()) == (28, 20)
    assert quick.status()["namespaces"][NS]["index"]["lag_changes"] == 8
    feed(quick)
    known = quick.status()["namespaces"][NS]["index"]
    assert (known["lag_changes"], known["lag_seconds"], known["building"]) == (0, 0.0, False)
    assert all(len(each) == 15 for each in entries(quick.feeder.engine, collection(quick)))
    assert "fourfold_index_lag_changes 0\n" in Metrics().text(quick.status())


def test_a_rebuild_leaves_no_gap(quick: PostgresStore, dsn: str, kind: str):
    """Searches and writes continue while a new generation is built and swapped with the old one."""
    calls = StoreCalls(quick)
    calls.put(NS, [item(f"heron {number}", key=f"k{number}") for number in range(60)], NOW, links=False)
    feed(quick)
    before, stop, seen, wrong = collection(quick), threading.Event(), list[int](), list[Any]()

    def search() -> None:
        other = opened(dsn, kind, QUICK)
        while not stop.is_set():
            least = len(seen)
            try:
                hits = found(other, "heron")
                if len(hits) < min(50, 60 + least):
                    wrong.append(hits)
            except Exception as error:  # noqa: BLE001  reported below
                wrong.append(error)
                break
        other.close()

    searching = threading.Thread(target=search)
    searching.start()
    feeding = threading.Thread(target=lambda: (quick.feeder.rebuild(NS), feed(quick)))
    feeding.start()
    for number in range(8):
        seen.append(calls.put(NS, [item(f"heron later {number}", key=f"l{number}")], NOW)[0].id)
    feeding.join()
    stop.set()
    searching.join()
    assert wrong == []
    assert collection(quick) != before
    assert sorted(each.state for each in generations(quick, NS)) == ["active", "retired"]
    feed(quick)
    assert quick.maintenance.check() == []


def test_a_generation_with_an_unknown_mark_never_becomes_active(dsn: str, kind: str):
    """The engine was restored while a new generation was being built."""
    store = opened(dsn, kind, replace(QUICK, feed_turn_seconds=0.0))
    StoreCalls(store).put(NS, some_items(12), NOW)
    feed(store)
    store.feeder.rebuild(NS)
    assert store.maintenance.publish(NS)  # fills the log, without time for a batch
    active, building = generations(store, NS)
    assert (active.state, building.state) == ("active", "building")
    store.feeder.engine.apply(building.collection, Applied("a mark of another time", 1))
    store.feeder.engine.apply(active.collection, Applied("a mark of another time", 1))
    feed(store)
    assert collection(store) not in (active.collection, building.collection)
    assert store.maintenance.check() == []
    store.close()


def test_a_retired_generation_is_dropped(quick: PostgresStore, monkeypatch: pytest.MonkeyPatch):
    StoreCalls(quick).put(NS, some_items(3), NOW)
    feed(quick)
    old = collection(quick)
    quick.feeder.rebuild(NS)
    feed(quick)
    monkeypatch.setattr(index_feed, "_RETIRED_SECONDS", 0.0)
    assert quick.maintenance.publish(NS)
    assert [each.state for each in generations(quick, NS)] == ["active"]
    with pytest.raises(IndexUnavailable):
        quick.feeder.engine.nodes[0].match(old, {1: 1.0}, 1, [], 5.0)


def test_another_model_gets_its_own_generation(quick: PostgresStore):
    calls = StoreCalls(quick)
    ids = [each.id for each in calls.put(NS, [item(f"t{n}", key=f"k{n}") for n in range(10)], NOW)]
    feed(quick)
    for dimension in (4, 6):
        space, random = Space(f"model{dimension}", dimension), np.random.default_rng(dimension)
        calls.reset_space(NS, space)
        made = random.standard_normal((10, dimension)).astype(np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        pending = calls.pending(NS, 99)
        calls.put_vectors(NS, space, [(*each, vector) for each, vector in zip(pending, made, strict=True)])
        feed(quick)
        assert [hit.id for hit in calls.nearest(NS, made[7], 1, NO_FILTERS).hits] == [ids[7]]
    assert sorted(each.state for each in generations(quick, NS)) == ["active", "retired"]
    assert quick.maintenance.check() == []


@pytest.mark.parametrize("side", ["database", "engine"])
def test_a_restored_side_is_detected_and_the_index_is_rebuilt(dsn: str, kind: str, side: str):
    """Items deleted after the backup exist again, but the index has already removed them."""
    store = opened(dsn, kind, QUICK)
    calls = StoreCalls(store)
    ids = [each.id for each in calls.put(NS, [item(f"heron {n}", key=f"k{n}") for n in range(20)], NOW)]
    feed(store)
    if side == "database":
        execute(dsn, BACKUP)
    calls.forget(NS, ids[:5])
    calls.put(NS, [item("heron new", key="new")], NOW)
    feed(store)
    store.close()
    if side == "database":
        execute(dsn, RESTORE)
        wanted = ids
    else:
        wanted = [*ids[5:], ids[-1] + 1]
    store = opened(dsn, kind, QUICK)
    if side == "engine":
        engine, name = store.feeder.engine, collection(store)
        engine.remove(name, [entry for entry in entries(engine, name)[0] if entry.item > ids[10]])
        engine.apply(name, Applied("a mark of another time", 3))
    ranking = StoreCalls(store).match(NS, "heron", 50, NO_FILTERS)
    assert sorted(hit.id for hit in ranking.hits) == sorted(wanted)
    assert "does not hold the last changes" in ranking.notes[0]
    before = collection(store)
    feed(store)
    assert collection(store) != before
    assert sorted(found(store, "heron")) == sorted(wanted)
    assert store.maintenance.check() == []
    store.close()


def test_a_node_that_lost_writes_gets_them_again(quick: PostgresStore):
    """The node's mark is older than the cursor, so the feeder resumes from that mark."""
    calls = StoreCalls(quick)
    calls.put(NS, [item(f"heron {n}", key=f"a{n}") for n in range(10)], NOW)
    feed(quick)
    engine, name = quick.feeder.engine, collection(quick)
    earlier = engine.nodes[0].applied(name, 5.0)
    later = [each.id for each in calls.put(NS, [item(f"heron {n}", key=f"b{n}") for n in range(10)], NOW)]
    feed(quick)
    lost = [entry for entry in entries(engine, name)[0] if entry.item in later]
    engine.remove(name, lost)
    assert earlier is not None
    engine.apply(name, earlier)
    calls.put(NS, [item("one more", key="c")], NOW)
    feed(quick)
    assert quick.maintenance.check() == []
    assert len(found(quick, "heron")) == 20


def test_late_writes_of_a_process_that_lost_its_lease_change_nothing(quick: PostgresStore):
    """Repeats a version, an older version, and a removal of older versions; the next sweep removes the rest."""
    calls = StoreCalls(quick)
    (one,) = calls.put(NS, [item("heron old", key="k")], NOW)
    feed(quick)
    engine, name = quick.feeder.engine, collection(quick)
    ((old,), *_) = entries(engine, name)
    calls.put(NS, [item("heron new", key="k")], LATER)
    feed(quick)
    engine.put(name, [document(old.item, old.version, [1, 2])])
    engine.remove(name, [Entry(old.item, version) for version in range(old.version)])
    assert found(quick, "new") == [one.id]
    assert found(quick, "old") == []
    assert any("outdated" in line for line in quick.maintenance.check())
    feed(quick)
    assert quick.maintenance.check() == []


def test_a_late_write_does_not_restore_a_deleted_item(quick: PostgresStore):
    """A node that hung applies a write after the item was deleted and the deletion was fed."""
    calls, engine = StoreCalls(quick), quick.feeder.engine
    ids = [each.id for each in calls.put(NS, [item(f"heron {n}", key=f"k{n}") for n in range(3)], NOW)]
    feed(quick)
    late = [document(*entry, [1, 2]) for entry in entries(engine, collection(quick))[0]]
    calls.forget(NS, ids[:2])
    feed(quick)
    engine.put(collection(quick), late)
    assert any("has 2 deleted items" in line for line in quick.maintenance.check())
    feed(quick)
    assert quick.maintenance.check() == []


def test_random_operations_leave_a_clean_index(quick: PostgresStore):
    calls, random = StoreCalls(quick), Random(4)
    feed(quick)
    for turn in range(6):
        calls.put(NS, [replace(new, key=f"k{random.randrange(40)}") for new in some_items(9)], LATER)
        calls.forget(NS, random.sample(calls.ids(NS, NO_FILTERS), 3))
        if turn % 2:
            feed(quick)
    feed(quick)
    assert quick.maintenance.check() == []
    assert len(entries(quick.feeder.engine, collection(quick))[0]) == len(calls.ids(NS, NO_FILTERS))


def test_a_dropped_index_leaves_postgresql_as_it_was(quick: PostgresStore):
    calls = StoreCalls(quick)
    calls.put(NS, [item("a heron", key="k")], NOW)
    feed(quick)
    assert quick.feeder.drop(NS)
    assert not quick.feeder.drop(NS)
    assert len(found(quick, "heron")) == 1
    assert generations(quick, NS) == []
    assert "index" not in quick.status()["namespaces"][NS]
    assert quick.maintenance.check() == []
