"""Keyword search from the indexes of a large namespace: postings on a plain server, or pg_textsearch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import postgres_servers
import pytest

from postgres_support import INDEXED, execute  # isort: skip  (extends sys.path for the next import)
from conformance_subjects import NOW, NS, item
from store_calls import StoreCalls

from fourfold import validation as rules
from fourfold.model import NO_FILTERS, Filters, ItemPatch, NewItem
from fourfold.storage.memory import MemoryStore
from fourfold.storage.postgres import address, schema
from fourfold.storage.postgres.connection import Connection
from fourfold.storage.postgres.store import PostgresStore
from fourfold.text import bm25

pytestmark = pytest.mark.spec("S1.2")

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
def small(plain_dsn: str) -> Iterator[StoreCalls]:
    """A store on a plain server with postings for even the smallest namespaces."""
    store = PostgresStore(plain_dsn, INDEXED)
    yield StoreCalls(store)
    store.close()


def parts(calls: StoreCalls) -> list[int]:
    with calls.snapshot(NS) as at:
        return at.ns.parts


def publish(calls: StoreCalls, *, everything: bool = False) -> None:
    assert calls.store.maintenance.publish(NS, everything=everything)


def assert_same(store: StoreCalls, oracle: StoreCalls, random: Random, rounds: int) -> None:
    for _ in range(rounds):
        query = " ".join(random.sample(WORDS, random.randint(1, 5)))
        for limit, filters in ((3, NO_FILTERS), (10, NO_FILTERS), (10, Filters(kind="odd"))):
            found, wanted = [each.match(NS, query, limit, filters) for each in (store, oracle)]
            assert [hit.id for hit in found.hits] == [hit.id for hit in wanted.hits]
            assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in wanted.hits], abs=1e-9)


def test_parts_and_newer_texts_give_the_same_answers_as_the_oracle(small: StoreCalls):
    random, oracle = Random(5), StoreCalls(MemoryStore())
    numbers = 0
    for count in (100, 12, 13, 4):
        new = some_items(random, numbers, count)
        numbers += count
        for each in (small, oracle):
            each.put(NS, new, NOW, links=False)
        publish(small)
        assert_same(small, oracle, random, 3)
    assert len(parts(small)) > 1
    for number in random.sample(range(1, numbers), 30):
        patch = ItemPatch(text=text(random))
        for each in (small, oracle):
            if number % 3:
                each.patch(NS, number, patch, NOW, links=False)
            else:
                each.forget(NS, [number])
    assert_same(small, oracle, random, 8)
    publish(small, everything=True)
    assert_same(small, oracle, random, 8)
    assert small.store.maintenance.check() == []


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


def test_the_rarest_words_propose_and_all_words_count(plain_dsn: str):
    store = PostgresStore(plain_dsn, replace(INDEXED, postings_uses=20))
    calls = StoreCalls(store)
    texts = [f"common{' seldom' * (number % 7 == 0)} {number}" for number in range(50)]
    calls.put(NS, [item(each, key=each, language="en") for each in texts], NOW, links=False)
    publish(calls)
    found = calls.match(NS, "common seldom", 5, NO_FILTERS).hits
    exact = calls.word_scores(NS, "common seldom", [hit.id for hit in found])
    assert [(hit.id - 1) % 7 for hit in found] == [0] * 5
    assert [hit.score for hit in found] == [hit.score for hit in exact.hits]
    store.close()


@pytest.mark.spec("B9")
def test_wrong_postings_are_found_and_repaired(plain_dsn: str, small: StoreCalls):
    small.put(NS, some_items(Random(7), 0, 30), NOW, links=False)
    maintenance = small.store.maintenance
    for spoilt in (
        "DELETE FROM postings WHERE term = (SELECT max(term) FROM postings)",
        "DELETE FROM postings WHERE term = -1",
        "UPDATE postings SET uses = set_byte(uses, length(uses) - 1, 99) WHERE term = (SELECT max(term) FROM postings)",
    ):
        publish(small, everything=True)
        assert maintenance.check() == []
        execute(plain_dsn, spoilt)
        assert maintenance.check() == [f"namespace {NS}: the postings differ from the texts"]
        maintenance.repair()
        assert maintenance.check() == []


@pytest.mark.spec("B9")
def test_a_store_of_the_first_schema_gets_postings(plain_dsn: str, small: StoreCalls, monkeypatch: pytest.MonkeyPatch):
    place = address.parse(plain_dsn)
    with monkeypatch.context() as old, Connection.connect(place.dsn, autocommit=True) as db:
        old.setattr(schema, "VERSION", 1)
        schema.migrate(db, place.schema)
    small.put(NS, some_items(Random(8), 0, 20), NOW, links=False)
    execute(plain_dsn, "UPDATE texts SET change = 0")
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


@pytest.mark.spec("B9", "C7")
def test_nested_metadata_of_an_older_schema_can_be_filtered(plain_dsn: str, calls: StoreCalls):
    new = rules.checked(NewItem("text", metadata={"author": {"name": "Ada"}, "who": ["Bob"], "n": 1}))
    (stored,) = calls.put(NS, [new], NOW, links=False)
    old = """{"author": ["{\\"name\\":\\"Ada\\"}"], "who": ["[\\"Bob\\"]"], "n": 1}"""
    execute(plain_dsn, f"UPDATE items SET facts = '{old}'")
    execute(
        plain_dsn, "DROP TABLE id_blocks, ids, index_log, index_generations, index_marks, index_nodes_behind, versions"
    )
    execute(plain_dsn, "DROP FUNCTION count_hidden CASCADE")
    for table, columns in NEWER_COLUMNS.items():
        execute(plain_dsn, f"ALTER TABLE {table} {', '.join(f'DROP COLUMN {name}' for name in columns.split())}")
    execute(plain_dsn, "ALTER TABLE vectors ADD PRIMARY KEY (item)")
    execute(plain_dsn, "UPDATE fourfold_schema SET version = 2")
    migrated = PostgresStore(plain_dsn)
    for where in ("author.name = Ada", "who = Bob", "n = 1", "author.name >= A"):
        assert StoreCalls(migrated).ids(NS, Filters(where=where)) == [stored.id], where
    migrated.close()


# ---------------------------------------------------------------- pg_textsearch


@pytest.fixture
def textsearch() -> Iterator[list[StoreCalls]]:
    """Two clients of a store with pg_textsearch indexes for even the smallest namespaces."""
    dsn = postgres_servers.fresh("textsearch")
    stores = [PostgresStore(dsn, INDEXED) for _ in range(2)]
    yield [StoreCalls(store) for store in stores]
    for store in stores:
        store.close()


def test_pg_textsearch_and_newer_texts_give_the_same_answers_as_the_oracle(textsearch: list[StoreCalls]):
    random, calls, oracle = Random(9), textsearch[0], StoreCalls(MemoryStore())
    for first, count, everything, complete in ((0, 30, False, True), (30, 5, False, False), (35, 5, True, True)):
        new = some_items(random, first, count)
        for each in (calls, oracle):
            stored = [item.id for item in each.put(NS, new, NOW, links=False)]
        publish(calls, everything=everything)
        with calls.snapshot(NS) as at:
            assert (at.ns.words == "ready" and at.ns.worded == at.ns.text_changes) is complete
        for each in (calls, oracle):
            each.patch(NS, stored[0], ItemPatch(text="bao deo bao"), NOW, links=False)
            each.forget(NS, [stored[1]])
        assert_same(calls, oracle, random, 3)
        assert calls.store.maintenance.check() == []


def test_a_search_retries_when_the_table_of_its_snapshot_was_dropped(textsearch: list[StoreCalls]):
    (calls, late), random = textsearch, Random(10)
    calls.put(NS, some_items(random, 0, 20), NOW, links=False)
    publish(calls, everything=True)
    with late.snapshot(NS) as at:
        for first in (20, 40):
            calls.put(NS, some_items(random, first, 20), NOW, links=False)
            publish(calls, everything=True)
        found = at.words.match("bao deo", 50, NO_FILTERS)
    assert found.hits == calls.match(NS, "bao deo", 50, NO_FILTERS).hits


def test_pg_textsearch_ranks_with_the_constants_of_bm25(textsearch: list[StoreCalls], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bm25, "K1", 1.7)
    monkeypatch.setattr(bm25, "B", 0.25)
    calls = textsearch[0]
    calls.put(NS, some_items(Random(11), 0, 5), NOW, links=False)
    publish(calls, everything=True)
    sql = "SELECT indexdef FROM pg_indexes WHERE indexname LIKE 'words%bm25' AND schemaname = current_schema()"
    (definition,) = calls.store.database.read(lambda db: db.execute(sql).fetchone())
    assert ("k1='1.7'" in definition, "b='0.25'" in definition) == (True, True)
