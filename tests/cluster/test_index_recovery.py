"""Recovery of an index whose cluster or database was emptied, restored, or lost its last writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cluster_support import document, entries, generations, opened
from conformance_subjects import LATER, NOW, NS, item
from postgres_support import execute
from store_calls import StoreCalls
from test_index_upkeep import BACKUP, QUICK, RESTORE, collection, feed, found

from fourfold.errors import IndexUnavailable
from fourfold.model import NO_FILTERS
from fourfold.storage.postgres import index_feed
from fourfold.storage.postgres.store import PostgresStore

pytestmark = pytest.mark.spec("C11")


@pytest.fixture
def quick(dsn: str, kind: str) -> Any:
    store = opened(dsn, kind, QUICK)
    yield store
    store.close()


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
def test_a_restored_database_is_noticed_after_an_interrupted_batch(
    dsn: str, kind: str, step: str, monkeypatch: pytest.MonkeyPatch
):
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
