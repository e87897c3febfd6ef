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
