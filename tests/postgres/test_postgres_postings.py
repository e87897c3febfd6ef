"""Keyword search from postings, which a large namespace on a plain server has: parts that never change, and a tail."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import postgres_servers
import psycopg
import pytest

sys.path.append(str(Path(__file__).parent.parent / "conformance"))
from conformance_subjects import NOW, NS, item

from fourfold import items as rules
from fourfold.model import NO_FILTERS, Filters, ItemPatch, NewItem
from fourfold.stores.memory import MemoryStore
from fourfold.stores.postgres import address, posted_search, postings, schema
from fourfold.stores.postgres.store import PostgresStore

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
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts for the smallest of namespaces, and no filter so narrow that it is answered without them."""
    monkeypatch.setattr(postings, "POSTED", 1)
    monkeypatch.setattr(postings, "TAIL", 10)
    monkeypatch.setattr("fourfold.stores.postgres.retrieval._NARROW", 0)


async def parts(store: PostgresStore) -> list[int]:
    return await store._read(NS, [], _parts)


async def _parts(db: Any, ns: Any) -> list[int]:
    return ns.parts


async def assert_same(store: PostgresStore, oracle: MemoryStore, random: Random, rounds: int) -> None:
    for _ in range(rounds):
        query = " ".join(random.sample(WORDS, random.randint(1, 5)))
        for limit, filters in ((3, NO_FILTERS), (10, NO_FILTERS), (10, Filters(kind="odd"))):
            found, wanted = [await each.match(NS, query, limit, filters) for each in (store, oracle)]
            assert [hit.id for hit in found.hits] == [hit.id for hit in wanted.hits]
            assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in wanted.hits], abs=1e-9)


async def test_parts_and_what_is_newer_answer_as_the_oracle_does(plain_dsn: str, small: None):
    random, store, oracle = Random(5), PostgresStore(plain_dsn), MemoryStore()
    numbers = 0
    for count in (100, 12, 13, 4):
        new = some_items(random, numbers, count)
        numbers += count
        for each in (store, oracle):
            await each.put(NS, new, NOW, links=False)
        await store.maintain(NS)
        await assert_same(store, oracle, random, 3)
    assert len(await parts(store)) > 1
    for number in random.sample(range(1, numbers), 30):
        patch = ItemPatch(text=text(random))
        for each in (store, oracle):
            if number % 3:
                await each.patch(NS, number, patch, NOW, links=False)
            else:
                await each.forget(NS, [number])
    await assert_same(store, oracle, random, 8)
    await store.maintain(NS, wholly=True)
    await assert_same(store, oracle, random, 8)
    assert await store.check() == []
    await store.close()


async def test_a_part_that_is_replaced_during_a_search_takes_nothing_from_its_answer(
    plain_dsn: str, small: None, monkeypatch: pytest.MonkeyPatch
):
    random, store = Random(6), PostgresStore(plain_dsn)
    await store.put(NS, some_items(random, 0, 40), NOW, links=False)
    await store.maintain(NS)
    await store.put(NS, some_items(random, 40, 40), NOW, links=False)
    before = await parts(store)
    wanted = await store.match(NS, "bao dao", 10, NO_FILTERS)
    asked = posted_search.together

    async def replaced_first(db: Any, statements: Any) -> Any:
        monkeypatch.setattr(posted_search, "together", asked)
        await store.maintain(NS, wholly=True)
        return await asked(db, statements)

    monkeypatch.setattr(posted_search, "together", replaced_first)
    assert (await store.match(NS, "bao dao", 10, NO_FILTERS)).hits == wanted.hits
    assert wanted.hits
    assert before[0] not in await parts(store)
    await store.close()


async def test_only_so_many_uses_are_read_and_the_rarest_words_propose(
    plain_dsn: str, small: None, monkeypatch: pytest.MonkeyPatch
):
    store = PostgresStore(plain_dsn)
    texts = [f"common{' seldom' * (number % 7 == 0)} {number}" for number in range(50)]
    await store.put(NS, [item(each, key=each, language="en") for each in texts], NOW, links=False)
    await store.maintain(NS)
    monkeypatch.setattr(postings, "MOST_USES", 20)
    found = (await store.match(NS, "common seldom", 5, NO_FILTERS)).hits
    exact = await store.match_scores(NS, "common seldom", [hit.id for hit in found])
    assert [(hit.id - 1) % 7 for hit in found] == [0] * 5
    assert [hit.score for hit in found] == [hit.score for hit in exact.hits]
    await store.close()


@pytest.mark.spec("B9")
async def test_postings_that_are_wrong_are_found_and_mended(plain_dsn: str, small: None):
    store = PostgresStore(plain_dsn)
    await store.put(NS, some_items(Random(7), 0, 30), NOW, links=False)
    wrong = f"namespace {NS}: the postings are not those of the texts"
    for spoilt in (
        "DELETE FROM postings WHERE term = (SELECT max(term) FROM postings)",
        "DELETE FROM postings WHERE term = -1",
        "UPDATE postings SET uses = set_byte(uses, length(uses) - 1, 99) WHERE term = (SELECT max(term) FROM postings)",
    ):
        await store.maintain(NS, wholly=True)
        assert await store.check() == []
        run(plain_dsn, spoilt)
        assert await store.check() == [wrong]
        await store.repair()
        assert await store.check() == []
    await store.close()


def run(dsn: str, sql: Any) -> None:
    place = address.parse(dsn)
    with psycopg.connect(place.dsn, autocommit=True) as db:
        db.execute(f"SET search_path = {place.schema}, public")
        db.execute(sql)


@pytest.mark.spec("B9")
async def test_a_store_of_the_first_schema_gets_postings(plain_dsn: str, small: None, monkeypatch: pytest.MonkeyPatch):
    place = address.parse(plain_dsn)
    with monkeypatch.context() as old:
        old.setattr(schema, "VERSION", 1)
        async with await psycopg.AsyncConnection.connect(place.dsn, autocommit=True) as db:
            await schema.migrate(db, place.schema)
    store = PostgresStore(plain_dsn)
    await store.put(NS, some_items(Random(8), 0, 20), NOW, links=False)
    run(plain_dsn, "UPDATE texts SET change = 0")
    await store.maintain(NS)
    assert await parts(store)
    assert await store.check() == []
    await store.close()


@pytest.mark.spec("B9", "C7")
async def test_nested_metadata_of_an_older_schema_can_be_filtered(plain_dsn: str):
    store = PostgresStore(plain_dsn)
    new = rules.checked(NewItem("text", metadata={"author": {"name": "Ada"}, "who": ["Bob"], "n": 1}))
    (item,) = await store.put(NS, [new], NOW, links=False)
    await store.close()
    old = """{"author": ["{\\"name\\":\\"Ada\\"}"], "who": ["[\\"Bob\\"]"], "n": 1}"""
    run(plain_dsn, f"UPDATE items SET facts = '{old}'")
    run(plain_dsn, "DROP TABLE id_blocks, ids")
    run(plain_dsn, "UPDATE fourfold_schema SET version = 2")
    store = PostgresStore(plain_dsn)
    for where in ("author.name = Ada", "who = Bob", "n = 1", "author.name >= A"):
        assert await store.matching(NS, Filters(where=where)) == [item.id], where
    await store.close()


async def test_pg_textsearch_and_what_is_newer_answer_as_the_oracle_does(small: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fourfold.stores.postgres.upkeep.WORDED", 1)
    random, store, oracle = Random(9), PostgresStore(postgres_servers.fresh("textsearch")), MemoryStore()
    for first, count, wholly, is_whole in ((0, 30, False, True), (30, 5, False, False), (35, 5, True, True)):
        new = some_items(random, first, count)
        for each in (store, oracle):
            await each.put(NS, new, NOW, links=False)
        await store.maintain(NS, wholly=wholly)
        assert await store._read(NS, None, _is_whole) is is_whole
        for each in (store, oracle):
            await each.patch(NS, first + 1, ItemPatch(text="bao deo bao"), NOW, links=False)
            await each.forget(NS, [first + 2])
        await assert_same(store, oracle, random, 3)
        assert await store.check() == []
    await store.close()


async def test_who_last_looked_when_another_table_was_there_looks_again(small: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fourfold.stores.postgres.upkeep.WORDED", 1)
    dsn, random = postgres_servers.fresh("textsearch"), Random(10)
    store, sleeper = PostgresStore(dsn), PostgresStore(dsn)
    for first in (0, 20, 40):
        await store.put(NS, some_items(random, first, 20), NOW, links=False)
        await store.maintain(NS, wholly=True)
        if not first:
            assert (await sleeper.match(NS, "bao", 5, NO_FILTERS)).hits
    found, wanted = [await each.match(NS, "bao deo", 50, NO_FILTERS) for each in (sleeper, store)]
    assert found.hits == wanted.hits
    for each in (store, sleeper):
        await each.close()


async def _is_whole(db: Any, ns: Any) -> bool:
    return ns.words == "ready" and ns.worded == ns.text_changes
