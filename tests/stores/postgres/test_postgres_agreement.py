"""Every kind of store gives the same answers, also where servers answer from their indexes, and reads few rows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import postgres_servers
import pytest
from conformance_operations import NAMES
from conformance_subjects import NOW, NS, RETRIEVERS, item
from oracle import Oracle
from postgres_support import INDEXED, found_by, some_items, some_queries, vector
from store_calls import StoreCalls

from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Edge, Filters
from fourfold.storage.postgres import vectors, words
from fourfold.storage.postgres.database import Tuning
from fourfold.storage.postgres.store import PostgresStore
from fourfold.storage.sqlite.store import SqliteStore

TUNING = replace(INDEXED, server_settings={"enable_seqscan": "off", "enable_sort": "off"})
"""With so few rows the server would prefer scans and sorts to indexes."""


def all_stores(folder: Path, count: int) -> dict[str, StoreCalls]:
    stores = {"sqlite": SqliteStore(folder), "postgres": PostgresStore(postgres_servers.fresh(), TUNING)}
    calls = {kind: StoreCalls(store) for kind, store in stores.items()}
    random, new = Random(9), some_items(count)
    edges = [Edge(random.choice(NAMES), "knows", random.choice(NAMES), random.choice((0.5, 1.0))) for _ in range(30)]
    for each in calls.values():
        for start in range(0, count, 500):
            each.put(NS, new[start : start + 500], NOW)
        each.add_edges(NS, edges)
        each.store.maintenance.publish(NS, everything=True)
    return calls


@pytest.mark.spec("S1.1")
@pytest.mark.spec("S1.2")
@pytest.mark.parametrize(
    ("items", "queries"), [(80, 10), pytest.param(400, 300, marks=pytest.mark.soak)], ids=["short", "whole"]
)
def test_every_kind_of_store_gives_the_same_answers(tmp_path: Path, items: int, queries: int):
    stores = all_stores(tmp_path / "store", items)
    oracle = StoreCalls(Oracle(stores["sqlite"].store))
    differing: dict[str, int] = {}
    overlaps: list[float] = []
    for query in some_queries(queries):
        for name in RETRIEVERS:
            wanted = found_by(oracle, name, query)
            for other in ("sqlite", "postgres"):
                found = found_by(stores[other], name, query)
                if name == "keyword":
                    best = {hit.id for hit in wanted[:10]}
                    overlaps.append(len(best & {hit.id for hit in found[:10]}) / len(best) if best else 1.0)
                if [hit.id for hit in found] != [hit.id for hit in wanted]:
                    differing[f"{name} {other}"] = differing.get(f"{name} {other}", 0) + 1
                else:
                    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted], abs=1e-6)
    assert sum(overlaps) / len(overlaps) >= 0.95
    assert all(count <= queries // 100 for count in differing.values()), differing
    for calls in stores.values():
        assert calls.store.maintenance.check() == []
        calls.store.close()


@pytest.fixture
def indexed(dsn: str) -> Iterator[StoreCalls]:
    store = PostgresStore(dsn, TUNING)
    yield StoreCalls(store)
    store.close()


@pytest.mark.spec("B5")
def test_a_filter_that_one_item_in_a_hundred_passes_still_fills_the_answer(indexed: StoreCalls):
    indexed.put(NS, some_items(1101), NOW, links=False)
    indexed.store.maintenance.publish(NS, everything=True)
    rare, recalled = Filters(kind="rare"), 0
    allowed = indexed.ids(NS, rare)
    assert len(allowed) == 12
    for query in some_queries(10):
        exact = indexed.cosines(NS, query.vector, allowed)
        best = sorted(exact.hits, key=lambda hit: (-hit.score, hit.id))[:10]
        found = indexed.nearest(NS, query.vector, 10, rare).hits
        assert len(found) == 10
        recalled += len({hit.id for hit in found} & {hit.id for hit in best})
        words = indexed.match(NS, "Vertrag contract the Haus house", 10, rare).hits
        scored = indexed.word_scores(NS, "Vertrag contract the Haus house", allowed)
        assert len(words) == min(10, sum(hit.score > 0 for hit in scored.hits))
    assert recalled / 100 >= 0.95


@pytest.mark.spec("S1.1")
@pytest.mark.spec("S1.2")
def test_the_server_answers_from_its_indexes(indexed: StoreCalls):
    indexed.put(NS, some_items(500), NOW, links=False)
    indexed.store.maintenance.publish(NS, everything=True)
    indexed.store.database.read(lambda db: db.execute("ANALYZE texts"))
    with indexed.snapshot(NS) as at:
        query, _ = at.words._query("321", None)
        nearest = vectors.proposal(at.ns, vector(Random(1)), 50, TUNING)
        proposed = words.proposal(at.ns, words.stages(query, 1, 1)[0][0], ("", ()), 50)
        near, found = ("\n".join(at.db.column(f"EXPLAIN {sql}", *rest)) for sql, *rest in (nearest, proposed))
    assert "Index Scan using vectors_" in near
    assert "Bitmap Index Scan on texts_by_term" in found


def test_words_are_read_until_no_other_row_can_be_among_the_best(dsn: str):
    """A rare word in a long text can score lower than common words in a short one; rare words alone miss those."""
    random = Random(3)
    vocabulary = [f"{first}{second}o" for first in "bdfgklmnprst" for second in "aeiu"]
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    texts = [random.choices(vocabulary, weights, k=random.choice((2, 3, 4, 60))) for _ in range(150)]
    new = [item(" ".join(text), key=f"k{number}", language="en") for number, text in enumerate(texts)]
    staged = PostgresStore(dsn, Tuning(first_stage_uses=1))
    StoreCalls(staged).put(NS, new, NOW, links=False)
    stores = [StoreCalls(Oracle(staged)), StoreCalls(staged)]
    for _ in range(25):
        text = " ".join(random.sample(vocabulary, 4))
        for limit in (3, 10, 40):
            wanted, found = [each.match(NS, text, limit, NO_FILTERS) for each in stores]
            assert [hit.id for hit in found.hits] == [hit.id for hit in wanted.hits]
    staged.close()


# ---------------------------------------------------------------- rows and round trips


def test_a_tag_of_many_items_reads_a_bounded_number_of_rows(calls: StoreCalls):
    """Reads the best items by number and rarity of tags, ties by id; filters apply before the limit."""
    calls.put(NS, [item(f"t{n}", key=f"k{n}", tags=("all", *["few"] * (n % 50 == 0))) for n in range(300)], NOW)
    read: list[int] = []
    with calls.snapshot(NS) as at:
        at.db.execute = _counting(at.db.execute, read)
        found = at.tags.uses(["all", "few", "none"], NO_FILTERS, 8)
        assert {use.item for use in found} == {1, 51, 101, 151, 201, 251, 2, 3}
        assert [use for use in found if use.item == 1] == [(1, "all", 300), (1, "few", 6)]
        kept = Filters(where="key = k299 or key = k298")
        assert [tuple(use) for use in at.tags.uses(["all"], kept, 1)] == [(299, "all", 300)]
    assert max(read) <= 8


def test_items_are_counted_by_the_server(calls: StoreCalls):
    calls.put(NS, [item(f"t{n}", key=f"k{n}", kind="odd" if n % 2 else "even") for n in range(40)], NOW)
    read: list[int] = []
    with calls.snapshot(NS) as at:
        at.db.execute = _counting(at.db.execute, read)
        assert at.rows.count(Filters(kind="odd")) == 20
        assert at.rows.count(NO_FILTERS) == 40
        assert at.rows.ids(Filters(kind="odd"), [1, 2, 3, 4, 99]) == [2, 4]
    assert max(read) <= 2


def _counting(execute: Any, read: list[int]) -> Any:
    """Records the number of rows of every statement."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        cursor = execute(*args, **kwargs)
        read.append(cursor.rowcount)
        return cursor

    return counted


def test_a_search_takes_few_round_trips(calls: StoreCalls):
    new = [item(f"text {n} of a river", key=f"k{n}", title=f"River {n}", tags=("water",)) for n in range(30)]
    calls.put(NS, new, NOW)
    memory = Memory(calls.store, None, NS, background=False)
    memory.search("water of a river 7")
    sent: list[Any] = []
    with calls.snapshot(NS) as at:
        connection = type(at.db)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "wait", _noting(connection.wait, sent))
        assert memory.search("water of a river 7").results
    assert len(sent) <= 14


def _noting(wait: Any, sent: list[Any]) -> Any:
    def noted(*args: Any, **kwargs: Any) -> Any:
        sent.append(args[1])
        return wait(*args, **kwargs)

    return noted
