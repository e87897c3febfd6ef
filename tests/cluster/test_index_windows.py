"""Long items, which have a vector for each window of their text, in a distributed index."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from cluster_support import entries, generations, lose_object, opened
from conformance_subjects import NS
from index_processes import long_text, unit, write
from store_calls import StoreCalls
from test_index_upkeep import QUICK, collection, feed

from fourfold.model import NO_FILTERS
from fourfold.storage.postgres.store import PostgresStore

pytestmark = [pytest.mark.spec("C11"), pytest.mark.spec("C13")]

COUNTS = (1, 4, 16, 64)


@pytest.fixture
def quick(dsn: str, kind: str) -> Any:
    store = opened(dsn, kind, QUICK)
    yield store
    store.close()


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


def test_items_are_found_by_each_window_whatever_was_fed(quick: PostgresStore):
    """Of 1 to 64 windows; updates change how many there are, before and after they are fed."""
    herons = Herons(quick)
    ids = [herons.write(f"k{count}", count) for count in COUNTS]
    feed(quick)
    assert herons.are_found()
    for fed in (False, True):
        old = [vector for made in herons.vectors.values() for vector in made[:3]]
        for id, key, count in zip(ids, COUNTS, (16, 1, 4, 2) if fed else (2, 16, 1, 4), strict=True):
            assert herons.write(f"k{key}", count) == id
        if fed:
            feed(quick)
        assert herons.are_not_found(old)
        assert herons.are_found()
    assert quick.maintenance.check() == []
    assert [len(each) for each in entries(quick.feeder.engine, collection(quick))] == [4] * len(
        quick.feeder.engine.nodes
    )


def test_all_windows_go_with_their_item_and_come_with_a_rebuild(quick: PostgresStore):
    herons, engine = Herons(quick), quick.feeder.engine
    ids = [herons.write(f"k{count}", count) for count in COUNTS]
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
