"""What is counted beside the rows is checked and repaired."""

from __future__ import annotations

import pytest
from postgres_support import execute, opened

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


def test_wrong_counters_are_found_and_repaired(plain_dsn: str):
    with opened(plain_dsn) as memory:
        memory.add_many([NewItem("The river of Basel", title="Rhine"), NewItem("It flows to the sea")])
        memory.add_edge("Rhine", "flows through", "Basel")
        assert memory.check() == []
        for problem, sql in WRONG.items():
            execute(plain_dsn, sql)
            assert memory.check() == [problem]
            memory.repair()
            assert memory.check() == []
