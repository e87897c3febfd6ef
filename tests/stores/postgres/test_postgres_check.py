"""Counters and windows are checked and repaired."""

from __future__ import annotations

import pytest
from engine_support import WordEmbedder
from postgres_support import execute, opened

from fourfold.memory import Memory
from fourfold.model import NewItem

pytestmark = pytest.mark.spec("B9")

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
