"""Feeding, rebuilding, checking, repairing and recovering a distributed index; items with several windows."""

import threading
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from cluster_support import (
    BACKUP,
    QUICK,
    RESTORE,
    collection,
    document,
    entries,
    feed,
    found,
    generations,
    lose_object,
    opened,
)
from conformance_subjects import LATER, NOW, NS, item
from index_processes import long_text, unit, write
from postgres_support import execute, some_items
from store_calls import StoreCalls

from fourfold.errors import IndexUnavailable
from fourfold.model import NO_FILTERS, Space
from fourfold.serve.http.route import Metrics
from fourfold.storage.engines.protocol import Applied, Entry
from fourfold.storage.postgres import index_feed
from fourfold.storage.postgres.store import PostgresStore

pytestmark = pytest.mark.spec("C11")


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
        pending = sorted(calls.pending(NS, 99))
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


# ---------------------------------------------------------------- recovery


def herons(store: PostgresStore, count: int, prefix: str = "k") -> list[int]:
    new = [item(f"heron {prefix} {n}", key=f"{prefix}{n}") for n in range(count)]
    return [each.id for each in StoreCalls(store).put(NS, new, NOW)]


def is_clean(store: PostgresStore, ids: list[int]) -> bool:
    """Whether every node holds exactly these items, each once."""
    held = entries(store.feeder.engine, collection(store))
    return store.maintenance.check() == [] and all([each.item for each in node] == sorted(ids) for node in held)


def test_an_emptied_cluster_is_filled_again(quick: PostgresStore):
    """Includes writes that cannot reach the lost collection."""
    ids = herons(quick, 9)
    feed(quick)
    quick.feeder.engine.drop(collection(quick))
    ids += herons(quick, 3, "later")
    ranking = StoreCalls(quick).match(NS, "heron", 50, NO_FILTERS)
    assert sorted(hit.id for hit in ranking.hits) == ids
    assert "the index did not answer" in ranking.notes[0]
    feed(quick)
    assert is_clean(quick, ids)
    assert sorted(found(quick, "heron")) == ids


def test_a_database_from_before_a_rebuild_gets_a_new_index(dsn: str, kind: str, monkeypatch: pytest.MonkeyPatch):
    """The collection that the restored database refers to no longer exists."""
    store = opened(dsn, kind, QUICK)
    ids = herons(store, 9)
    feed(store)
    execute(dsn, BACKUP)
    store.feeder.rebuild(NS)
    feed(store)
    with monkeypatch.context() as patch:
        patch.setattr(index_feed, "_RETIRED_SECONDS", 0.0)
        feed(store)
    store.close()
    execute(dsn, RESTORE)
    store = opened(dsn, kind, QUICK)
    feed(store)
    assert is_clean(store, ids)
    assert sorted(found(store, "heron")) == ids
    store.close()


@pytest.mark.parametrize("step", ["put", "apply", "remove"])
def test_a_restored_database_is_noticed_after_an_interrupted_batch(dsn, kind, step, monkeypatch):
    """The feeder died before `step` of the first batch after the backup."""
    store = opened(dsn, kind, QUICK)
    ids = herons(store, 9)
    feed(store)
    execute(dsn, BACKUP)
    StoreCalls(store).put(NS, [item("egret", key="k0")], LATER)
    StoreCalls(store).forget(NS, ids[1:3])
    with monkeypatch.context() as patch:
        patch.setattr(store.feeder.engine, step, _die)
        with pytest.raises(IndexUnavailable):
            feed(store)
    store.close()
    execute(dsn, RESTORE)
    store = opened(dsn, kind, QUICK)
    assert sorted(hit.id for hit in StoreCalls(store).match(NS, "heron", 50, NO_FILTERS).hits) == ids
    herons(store, 1, "later")
    feed(store)
    assert store.maintenance.mend_index(NS) is not None
    assert is_clean(store, [*ids, ids[-1] + 1])
    store.close()


def _die(*_: object) -> None:
    raise IndexUnavailable("killed", "")


def test_a_node_that_lost_deletes_gets_them_again(quick: PostgresStore):
    """The deletes are those of removed items and of replaced versions, several batches ago."""
    calls, engine = StoreCalls(quick), quick.feeder.engine
    ids = herons(quick, 9)
    feed(quick)
    name = collection(quick)
    earlier, held = engine.nodes[0].applied(name, 5.0), entries(engine, name)[0]
    calls.forget(NS, ids[:3])
    for number in range(3):
        calls.put(NS, [item(f"heron {number}", key="k7")], LATER)
        feed(quick)
    assert earlier is not None
    engine.put(name, [document(*entry, [1, 2]) for entry in held])  # as if the node had been restored to that time
    engine.apply(name, earlier)
    calls.put(NS, [item("heron again", key="k8")], LATER)
    feed(quick)
    assert is_clean(quick, ids[3:])


def test_rows_kept_for_lost_batches_are_removed_later(dsn: str, kind: str):
    store = opened(dsn, kind, replace(QUICK, feed_marks=3))
    ids, calls = herons(store, 9), StoreCalls(store)
    feed(store)
    calls.forget(NS, ids[:3])
    for number in range(9):
        calls.put(NS, [item(f"heron {number}", key="k7")], LATER)
        feed(store)
    logged = store.database.read(lambda db: db.execute("SELECT item, count(*) FROM index_log GROUP BY item").fetchall())
    assert {each for each, _ in logged} == set(ids[3:])
    assert sorted(count for _, count in logged) == [1, 1, 1, 1, 1, 3]
    store.close()


def test_a_generation_retired_during_its_build_is_not_activated(dsn: str, kind: str):
    """Another process requests a rebuild while this one is about to complete a generation."""
    store = opened(dsn, kind, replace(QUICK, feed_turn_seconds=0.0))
    herons(store, 5)
    feed(store)
    store.feeder.rebuild(NS)
    assert store.maintenance.publish(NS)
    late = generations(store, NS)[-1]
    other = opened(dsn, kind, QUICK)
    other.feeder.rebuild(NS)
    with store.database.write() as db:
        index_feed.index_log.activate(db, _ns(store), late.id)
    assert [each.state for each in generations(store, NS)] == ["active", "retired", "filling"]
    feed(other)
    assert other.maintenance.check() == []
    for each in (store, other):
        each.close()


def _ns(store: PostgresStore) -> int:
    return store.database.read(lambda db: index_feed.namespaces.find(db, NS).id)


# ---------------------------------------------------------------- items with several windows


WINDOW_COUNTS = (1, 4, 16, 64)


class Herons:
    """Items with some number of windows each, and the vectors that they should be found by."""

    def __init__(self, store: PostgresStore) -> None:
        self.calls, self.random, self.turn = StoreCalls(store), Random(3), 0
        self.vectors: dict[int, list[Any]] = {}

    def write(self, key: str, count: int) -> int:
        self.turn += 1
        made = [unit(self.random) for _ in range(count)]
        id = write(self.calls, key, long_text(self.turn), made)
        self.vectors[id] = made
        return id

    def are_found(self) -> bool:
        """Each by each of its windows, and the index proposed them."""
        for id, made in self.vectors.items():
            for vector in made[:: max(1, len(made) // 3)]:
                ranking = self.calls.nearest(NS, vector, 1, NO_FILTERS)
                assert ranking.notes == ()
                if [hit.id for hit in ranking.hits] != [id]:
                    return False
        return True

    def are_not_found(self, old: list[Any]) -> bool:
        """Nothing has these vectors any more."""
        return all(self.calls.nearest(NS, vector, 1, NO_FILTERS).hits[0].score < 1 for vector in old)


@pytest.mark.spec("C13")
def test_items_are_found_by_each_window_whatever_was_fed(quick: PostgresStore):
    """Of 1 to 64 windows; updates change how many there are, before and after they are fed."""
    herons = Herons(quick)
    ids = [herons.write(f"k{count}", count) for count in WINDOW_COUNTS]
    feed(quick)
    assert herons.are_found()
    for fed in (False, True):
        old = [vector for made in herons.vectors.values() for vector in made[:3]]
        for id, key, count in zip(ids, WINDOW_COUNTS, (16, 1, 4, 2) if fed else (2, 16, 1, 4), strict=True):
            assert herons.write(f"k{key}", count) == id
        if fed:
            feed(quick)
        assert herons.are_not_found(old)
        assert herons.are_found()
    assert quick.maintenance.check() == []
    assert [len(each) for each in entries(quick.feeder.engine, collection(quick))] == [4] * len(
        quick.feeder.engine.nodes
    )


@pytest.mark.spec("C13")
def test_all_windows_go_with_their_item_and_come_with_a_rebuild(quick: PostgresStore):
    herons, engine = Herons(quick), quick.feeder.engine
    ids = [herons.write(f"k{count}", count) for count in WINDOW_COUNTS]
    feed(quick)
    herons.calls.forget(NS, [ids[1]])
    old = herons.vectors.pop(ids[1])
    assert herons.are_not_found(old)
    feed(quick)
    assert all(node.entries(collection(quick), ids[1], ids[1] + 1) == [] for node in engine.nodes)
    before = collection(quick)
    quick.feeder.rebuild(NS)
    feed(quick)
    assert collection(quick) != before
    assert herons.are_found()
    for node in engine.nodes:
        held = node.entries(collection(quick), 1, 1 << 62)
        for id, made in herons.vectors.items():
            assert sum(entry.item == id for entry in held) == engine.objects(len(made))
    assert quick.maintenance.check() == []


@pytest.mark.spec("C13")
def test_lost_windows_are_found_and_mended(quick: PostgresStore):
    """The only vector of an item, the first of several, and a later one."""
    herons, engine = Herons(quick), quick.feeder.engine
    ids = [herons.write("one", 1), herons.write("four", 4), herons.write("two", 2), herons.write("whole", 2)]
    feed(quick)
    for lost, part in zip(entries(engine, collection(quick))[0], (0, 3, 0), strict=False):
        lose_object(engine, collection(quick), lost, part)
    problems, named = quick.maintenance.check(), ", ".join(map(str, ids[:3]))
    assert sum(f"lacks 3 of the items ({named})" in line for line in problems) == len(problems) == len(engine.nodes)
    assert len(quick.maintenance.mend_index(NS)) == 1
    assert quick.maintenance.check() == []
    assert herons.are_found()
    assert [entry.item for entry in entries(engine, collection(quick))[0]] == ids
    assert [each.state for each in generations(quick, NS)] == ["active"]
