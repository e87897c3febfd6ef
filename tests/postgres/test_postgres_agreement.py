"""The same questions to every kind of store have the same answers, also where servers answer from their indexes."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import postgres_servers
import pytest

sys.path.append(str(Path(__file__).parent.parent / "conformance"))
from conformance_operations import NAMES, TAGS, WORDS
from conformance_subjects import NOW, NS, RETRIEVERS, item

from fourfold.model import NO_FILTERS, Edge, Filters, Query
from fourfold.stores.memory import MemoryStore
from fourfold.stores.postgres import database
from fourfold.stores.postgres.store import PostgresStore
from fourfold.stores.sqlite.store import SqliteStore


def vector(random: Random) -> Any:
    numbers = np.array([random.gauss(0, 1) for _ in range(16)])
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def some_items(count: int) -> list[Any]:
    random = Random(7)
    return [
        item(
            " ".join(random.choices(WORDS, k=random.randint(3, 30))) + f" {random.choice(NAMES)} {number}",
            title=random.choice(NAMES) if random.random() < 0.2 else "",
            key=f"k{number}",
            kind="rare" if number % 100 == 0 else "common",
            tags=tuple(random.sample(TAGS, 2)),
            vector=vector(random),
        )
        for number in range(count)
    ]


def some_queries(count: int) -> list[Query]:
    random = Random(8)
    return [
        Query(
            NS,
            " ".join([*random.choices(WORDS, k=random.randint(1, 6)), *random.sample(NAMES, random.choice((0, 1)))]),
            vector(random),
            Filters(kind="common") if random.random() < 0.2 else NO_FILTERS,
        )
        for _ in range(count)
    ]


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes for the smallest of namespaces, and no filter so narrow that it is answered without them."""
    monkeypatch.setattr("fourfold.stores.postgres.upkeep.WORDED", 1)
    monkeypatch.setattr("fourfold.stores.postgres.vectors.INDEXED", 1)
    monkeypatch.setattr("fourfold.stores.postgres.postings.POSTED", 1)
    monkeypatch.setattr("fourfold.stores.postgres.retrieval._NARROW", 0)
    for setting in ("enable_seqscan", "enable_sort"):  # which are right, and quicker, for so few rows
        monkeypatch.setitem(database.SETTINGS, setting, "off")


async def all_stores(folder: Path, count: int) -> dict[str, Any]:
    stores: dict[str, Any] = {"memory": MemoryStore(), "sqlite": SqliteStore(folder)}
    stores |= {kind: PostgresStore(postgres_servers.fresh(kind)) for kind in postgres_servers.KINDS}
    random, new = Random(9), some_items(count)
    edges = [Edge(random.choice(NAMES), "knows", random.choice(NAMES), random.choice((0.5, 1.0))) for _ in range(30)]
    for store in stores.values():
        for start in range(0, count, 500):
            await store.put(NS, new[start : start + 500], NOW)
        await store.add_edges(NS, edges)
        await store.maintain(NS, wholly=True)
    return stores


@pytest.mark.spec("S1.1")
@pytest.mark.spec("S1.2")
@pytest.mark.parametrize(
    ("items", "queries"), [(80, 10), pytest.param(400, 300, marks=pytest.mark.soak)], ids=["short", "whole"]
)
async def test_every_kind_of_store_gives_the_same_answers(tmp_path: Path, indexed: None, items: int, queries: int):
    stores = await all_stores(tmp_path / "store", items)
    differing: dict[str, int] = {}
    overlaps: list[float] = []
    for query in some_queries(queries):
        for name, kind in RETRIEVERS.items():
            wanted = (await kind(stores["memory"]).search(query, 200)).hits
            for other in ("sqlite", *postgres_servers.KINDS):
                found = (await kind(stores[other]).search(query, 200)).hits
                if name == "keyword":
                    best = {hit.id for hit in wanted[:10]}
                    overlaps.append(len(best & {hit.id for hit in found[:10]}) / len(best) if best else 1.0)
                if [hit.id for hit in found] != [hit.id for hit in wanted]:
                    differing[f"{name} {other}"] = differing.get(f"{name} {other}", 0) + 1
                else:
                    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted], abs=1e-6)
    assert sum(overlaps) / len(overlaps) >= 0.95
    assert all(count <= queries // 100 for count in differing.values()), differing
    for store in stores.values():
        assert await store.check() == []
        await store.close()


@pytest.mark.spec("B5")
@pytest.mark.parametrize("kind", postgres_servers.KINDS)
async def test_a_filter_that_lets_one_in_a_hundred_through_never_comes_back_short(kind: str, indexed: None):
    store = PostgresStore(postgres_servers.fresh(kind))
    await store.put(NS, some_items(1101), NOW, links=False)
    await store.maintain(NS, wholly=True)
    rare, recalled = Filters(kind="rare"), 0
    allowed = await store.matching(NS, rare)
    assert len(allowed) == 12
    for query in some_queries(10):
        exact = await store.similarities(NS, query.vector, allowed)
        best = sorted(exact.hits, key=lambda hit: (-hit.score, hit.id))[:10]
        found = (await store.nearest(NS, query.vector, 10, rare)).hits
        assert len(found) == 10
        recalled += len({hit.id for hit in found} & {hit.id for hit in best})
        words = (await store.match(NS, "Vertrag contract the Haus house", 10, rare)).hits
        scored = await store.match_scores(NS, "Vertrag contract the Haus house", allowed)
        assert len(words) == min(10, sum(hit.score > 0 for hit in scored.hits))
    assert recalled / 100 >= 0.95
    await store.close()


@pytest.mark.spec("S1.1")
@pytest.mark.spec("S1.2")
@pytest.mark.parametrize("kind", postgres_servers.KINDS)
async def test_the_server_answers_from_its_indexes(kind: str, indexed: None):
    from fourfold.stores.postgres import keyword, spaces, vectors
    from fourfold.stores.postgres.sql import rows

    store = PostgresStore(postgres_servers.fresh(kind))
    await store.put(NS, some_items(500), NOW, links=False)
    await store.maintain(NS, wholly=True)

    async def plans(db: Any) -> list[str]:
        await db.execute("ANALYZE texts")
        ns = await spaces.find(db, NS)
        query = await store._query(db, ns, "321")
        nearest = vectors.proposal(ns, vector(Random(1)), 50)
        wanted = keyword.best(ns, query.terms, ("", ()), 50) if kind == "textsearch" else None
        words = wanted or keyword.proposal(ns, keyword.parts(query, 1)[0][0], ("", ()), 50)
        return [
            "\n".join(line for (line,) in await rows(db, f"EXPLAIN {statement[0]}", *statement[1:]))
            for statement in (nearest, words)
        ]

    near, words = await store._db.read(plans)
    assert "Index Scan using vectors_" in near
    assert ("_bm25" if kind == "textsearch" else "Bitmap Index Scan on texts_by_term") in words
    await store.close()


async def test_words_are_read_until_no_other_row_can_be_among_the_best(monkeypatch: pytest.MonkeyPatch):
    """A rare word in a long text is worth less than common ones in a short one: who stops at rare ones misses those."""
    monkeypatch.setattr("fourfold.stores.postgres.keyword.STAGE", 1)
    random = Random(3)
    words = [f"{first}{second}o" for first in "bdfgklmnprst" for second in "aeiu"]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    texts = [random.choices(words, weights, k=random.choice((2, 3, 4, 60))) for _ in range(150)]
    new = [item(" ".join(text), key=f"k{number}", language="en") for number, text in enumerate(texts)]
    oracle, store = MemoryStore(), PostgresStore(postgres_servers.fresh("postgres"))
    for each in (oracle, store):
        await each.put(NS, new, NOW, links=False)
    for _ in range(25):
        text = " ".join(random.sample(words, 4))
        for limit in (3, 10, 40):
            found, wanted = [await each.match(NS, text, limit, NO_FILTERS) for each in (store, oracle)]
            assert [hit.id for hit in found.hits] == [hit.id for hit in wanted.hits]
    await store.close()
