"""Postings on PostgreSQL answer like the oracle; check finds what is wrong in tables, and purge leaves nothing."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from conformance_subjects import NOW, NS, item
from engine_support import WordEmbedder
from oracle import Oracle
from postgres_support import INDEXED, execute, opened
from store_calls import StoreCalls

from fourfold import validation as rules
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Filters, ItemPatch, NewItem
from fourfold.storage.postgres import schema
from fourfold.storage.postgres.connection import Connection
from fourfold.storage.postgres.database import parse_address
from fourfold.storage.postgres.store import PostgresStore

WORDS = [f"{first}{second}o" for first in "bdfgklmnprst" for second in "aeiu"]
LIKELY = [1 / (rank + 1) for rank in range(len(WORDS))]


def text(random: Random) -> str:
    return " ".join(random.choices(WORDS, LIKELY, k=random.choice((2, 3, 8, 60))))


def some_items(random: Random, first: int, count: int) -> list[Any]:
    return [
        item(text(random), key=f"k{number}", language="en", kind="odd" if number % 2 else "even")
        for number in range(first, first + count)
    ]


@pytest.fixture
def small(dsn: str) -> Iterator[StoreCalls]:
    """A store with postings for even the smallest namespaces."""
    store = PostgresStore(dsn, INDEXED)
    yield StoreCalls(store)
    store.close()


def parts(calls: StoreCalls) -> list[int]:
    with calls.snapshot(NS) as at:
        return at.ns.parts


def publish(calls: StoreCalls, *, everything: bool = False) -> None:
    assert calls.store.maintenance.publish(NS, everything=everything)


def assert_same(store: StoreCalls, random: Random, rounds: int) -> None:
    oracle = StoreCalls(Oracle(store.store))
    for _ in range(rounds):
        query = " ".join(random.sample(WORDS, random.randint(1, 5)))
        for limit, filters in ((3, NO_FILTERS), (10, NO_FILTERS), (10, Filters(kind="odd"))):
            found, wanted = [each.match(NS, query, limit, filters) for each in (store, oracle)]
            assert [hit.id for hit in found.hits] == [hit.id for hit in wanted.hits]
            assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in wanted.hits], abs=1e-9)


@pytest.mark.spec("S1.2")
def test_parts_and_newer_texts_give_the_same_answers_as_the_oracle(small: StoreCalls):
    random, numbers = Random(5), 0
    for count in (100, 12, 13, 4):
        new = some_items(random, numbers, count)
        numbers += count
        small.put(NS, new, NOW, links=False)
        publish(small)
        assert_same(small, random, 3)
    assert len(parts(small)) > 1
    for number in random.sample(range(1, numbers), 30):
        patch = ItemPatch(text=text(random))
        if number % 3:
            small.patch(NS, number, patch, NOW, links=False)
        else:
            small.forget(NS, [number])
    assert_same(small, random, 8)
    publish(small, everything=True)
    assert_same(small, random, 8)
    assert small.store.maintenance.check() == []


@pytest.mark.spec("S1.2")
def test_a_snapshot_reads_the_parts_that_were_published_before_it(small: StoreCalls):
    random = Random(6)
    small.put(NS, some_items(random, 0, 40), NOW, links=False)
    publish(small)
    small.put(NS, some_items(random, 40, 40), NOW, links=False)
    before, wanted = parts(small), small.match(NS, "bao dao", 10, NO_FILTERS)
    with small.snapshot(NS) as at:
        small.put(NS, some_items(random, 80, 40), NOW, links=False)
        publish(small, everything=True)
        assert at.words.match("bao dao", 10, NO_FILTERS).hits == wanted.hits
    assert wanted.hits
    assert before[0] not in parts(small)


@pytest.mark.spec("S1.2")
def test_the_rarest_words_propose_and_all_words_count(dsn: str):
    store = PostgresStore(dsn, replace(INDEXED, postings_uses=20))
    calls = StoreCalls(store)
    texts = [f"common{' seldom' * (number % 7 == 0)} {number}" for number in range(50)]
    calls.put(NS, [item(each, key=each, language="en") for each in texts], NOW, links=False)
    publish(calls)
    found = calls.match(NS, "common seldom", 5, NO_FILTERS).hits
    exact = calls.word_scores(NS, "common seldom", [hit.id for hit in found])
    assert [(hit.id - 1) % 7 for hit in found] == [0] * 5
    assert [hit.score for hit in found] == [hit.score for hit in exact.hits]
    store.close()


@pytest.mark.spec("S1.2")
@pytest.mark.spec("B9")
def test_wrong_postings_are_found_and_repaired(dsn: str, small: StoreCalls):
    small.put(NS, some_items(Random(7), 0, 30), NOW, links=False)
    maintenance = small.store.maintenance
    for spoilt in (
        "DELETE FROM postings WHERE term = (SELECT max(term) FROM postings)",
        "DELETE FROM postings WHERE term = -1",
        "UPDATE postings SET uses = set_byte(uses, length(uses) - 1, 99) WHERE term = (SELECT max(term) FROM postings)",
    ):
        publish(small, everything=True)
        assert maintenance.check() == []
        execute(dsn, spoilt)
        assert maintenance.check() == [f"namespace {NS}: the postings differ from the texts"]
        maintenance.repair()
        assert maintenance.check() == []


@pytest.mark.spec("S1.2")
@pytest.mark.spec("B9")
def test_a_store_of_the_first_schema_gets_postings(dsn: str, small: StoreCalls, monkeypatch: pytest.MonkeyPatch):
    place = parse_address(dsn)
    with monkeypatch.context() as old, Connection.connect(place.dsn, autocommit=True) as db:
        old.setattr(schema, "VERSION", 1)
        schema.migrate(db, place.schema)
    small.put(NS, some_items(Random(8), 0, 20), NOW, links=False)
    execute(dsn, "UPDATE texts SET change = 0")
    publish(small)
    assert parts(small)
    assert small.store.maintenance.check() == []


NEWER_COLUMNS = {
    "items": "occurred_at expires_at source subject attribute fact valid_from superseded_at supersedes version_of",
    "raw": "source",
    "namespaces": "logged generation superseded expiring windows",
    "vectors": "part starts ends",
}
"""Columns that schema 2 did not have."""


@pytest.mark.spec("S1.2")
@pytest.mark.spec("B9", "C7")
def test_nested_metadata_of_an_older_schema_can_be_filtered(dsn: str, calls: StoreCalls):
    new = rules.checked(NewItem("text", metadata={"author": {"name": "Ada"}, "who": ["Bob"], "n": 1}))
    (stored,) = calls.put(NS, [new], NOW, links=False)
    old = """{"author": ["{\\"name\\":\\"Ada\\"}"], "who": ["[\\"Bob\\"]"], "n": 1}"""
    execute(dsn, f"UPDATE items SET facts = '{old}'")
    execute(dsn, "DROP TABLE id_blocks, ids, index_log, index_generations, index_marks, index_nodes_behind, versions")
    execute(dsn, "DROP TABLE requests, receipts, retrievals, synced; DROP INDEX raw_by_session")
    execute(dsn, "DROP FUNCTION count_hidden CASCADE")
    for table, columns in NEWER_COLUMNS.items():
        execute(dsn, f"ALTER TABLE {table} {', '.join(f'DROP COLUMN {name}' for name in columns.split())}")
    execute(dsn, "ALTER TABLE vectors ADD PRIMARY KEY (item)")
    execute(dsn, "ALTER TABLE namespaces ADD COLUMN words text, ADD COLUMN worded bigint")
    execute(dsn, "UPDATE fourfold_schema SET version = 2")
    migrated = PostgresStore(dsn)
    for where in ("author.name = Ada", "who = Bob", "n = 1", "author.name >= A"):
        assert StoreCalls(migrated).ids(NS, Filters(where=where)) == [stored.id], where
    migrated.close()


@pytest.mark.spec("S1.2")
@pytest.mark.spec("B9")
def test_tables_of_pg_textsearch_are_dropped_and_postings_answer(dsn: str, small: StoreCalls):
    small.put(NS, some_items(Random(9), 0, 20), NOW, links=False)
    wanted = small.match(NS, "bao dao", 10, NO_FILTERS).hits
    execute(dsn, "ALTER TABLE namespaces ADD COLUMN words text DEFAULT 'ready', ADD COLUMN worded bigint DEFAULT 1")
    execute(dsn, "DROP TABLE requests, receipts, retrievals, synced; DROP INDEX raw_by_session")
    execute(dsn, "CREATE TABLE words_1_1 (item bigint); CREATE TABLE words_of_mine (item bigint)")
    execute(dsn, "UPDATE fourfold_schema SET version = 9")
    calls = StoreCalls(PostgresStore(dsn, INDEXED))
    assert calls.match(NS, "bao dao", 10, NO_FILTERS).hits == wanted
    publish(calls)
    assert parts(calls)
    assert calls.match(NS, "bao dao", 10, NO_FILTERS).hits == wanted
    sql = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'words%'"
    assert calls.store.database.read(lambda db: db.execute(sql).fetchall()) == [("words_of_mine",)]
    assert calls.store.maintenance.check() == []
    calls.store.close()


# ---------------------------------------------------------------- counters and windows are checked and repaired


WRONG = {
    "namespaces: 1 rows have a wrong number of items": "UPDATE namespaces SET items = items + 1",
    "namespaces: 1 rows have a wrong number of tokens": "UPDATE namespaces SET tokens = 0",
    "nodes: 1 rows have a wrong number of holders": "UPDATE nodes SET holders = 5 WHERE name = 'Rhine'",
    "nodes: 2 rows have a wrong number of degree": "UPDATE nodes SET degree = degree + 1 WHERE degree > 0",
    "languages: their counters are wrong": "UPDATE languages SET items = items + 1",
    "waiting: an item without a vector is not in the queue": "DELETE FROM waiting",
    "namespace default: keyword search differs from the text of 2 items": "UPDATE texts SET keys = '{}'",
    "namespace default: keyword search has a wrong count of a term": "UPDATE terms SET items = items + 1",
}


@pytest.mark.spec("B9")
def test_wrong_counters_are_found_and_repaired(dsn: str):
    with opened(dsn) as memory:
        memory.add_many([NewItem("The river of Basel", title="Rhine"), NewItem("It flows to the sea")])
        memory.add_edge("Rhine", "flows through", "Basel")
        assert memory.check() == []
        for problem, sql in WRONG.items():
            execute(dsn, sql)
            assert memory.check() == [problem]
            memory.repair()
            assert memory.check() == []


WRONG_WINDOWS = {
    "DELETE FROM vectors WHERE part = 1": "a wrong number of windows",
    "DELETE FROM vectors WHERE part > 0; UPDATE namespaces SET windows = 0": "it has 1 windows",
    "UPDATE vectors SET starts = starts + 300 WHERE part = 1": "its windows leave out a part of its text",
    "UPDATE items SET text = left(text, 1500)": "its windows reach beyond its text",
    "UPDATE namespaces SET windows = 0": "a wrong number of windows",
}


@pytest.mark.spec("B9")
@pytest.mark.spec("C13")
@pytest.mark.parametrize("sql", WRONG_WINDOWS)
def test_wrong_windows_are_found_and_rebuilt(dsn: str, sql: str):
    text = " ".join(f"Sentence {number} about the river." for number in range(150))
    with Memory.open(dsn, embedder=WordEmbedder(), background=False) as memory:
        memory.add_many([NewItem(text), NewItem("It flows to the sea")], wait=True)
        assert memory.check() == []
        execute(dsn, sql)
        assert any(WRONG_WINDOWS[sql] in problem for problem in memory.check())
        memory.repair()
        memory.embed_pending()
        assert memory.check() == []
        assert memory.search("sentence about the river").results[0].part is not None


@pytest.mark.spec("B9")
@pytest.mark.parametrize("kept", [0, 300])
def test_purge_leaves_nothing_of_forgotten_items_in_tables_and_statistics(dsn: str, kept: int):
    secrets = [
        NewItem(
            f"a zxsecret{n} text",
            title=f"zxsecret{n}",
            key=f"zxsecret{n}",
            tags=(f"zxsecret{n}",),
            metadata={"n": f"zxsecret{n}"},
        )
        for n in range(40)
    ]
    with opened(dsn) as memory:
        items = memory.add_many(secrets)
        memory.add_many([NewItem(f"the heron {n}", tags=(f"t{n}",)) for n in range(kept)])
        raw = memory.add_raw("a zxsecret that was said")
        memory.index()
        execute(dsn, "ANALYZE")
        memory.forget([item.id for item in items])
        memory.forget_raw([raw.id])
        memory.repair(purge=True)
        ours = "schemaname = current_schema() AND row::text ILIKE '%zxsecret%'"
        assert execute(dsn, f"SELECT tablename, attname FROM pg_stats AS row WHERE {ours}") == []
        for (table,) in execute(dsn, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"):
            assert execute(dsn, f"SELECT * FROM {table} AS row WHERE row::text ILIKE '%zxsecret%'") == []
        assert memory.count() == kept
        assert memory.check() == []
        memory.add_many(secrets)
        assert memory.search("zxsecret7").results[0].item.title == "zxsecret7"
