"""B9: what is counted beside the rows is checked and mended."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.stores.postgres import address

pytestmark = pytest.mark.spec("B9")

WRONG = {
    "namespaces: 1 rows have a wrong number of items": "UPDATE namespaces SET items = items + 1",
    "namespaces: 1 rows have a wrong number of tokens": "UPDATE namespaces SET tokens = 0",
    "nodes: 1 rows have a wrong number of holders": "UPDATE nodes SET holders = 5 WHERE name = 'Rhine'",
    "nodes: 2 rows have a wrong number of degree": "UPDATE nodes SET degree = degree + 1 WHERE degree > 0",
    "languages: their counters are wrong": "UPDATE languages SET items = items + 1",
    "waiting: an item without a vector is not in the queue": "DELETE FROM waiting",
    "namespace default: keyword search has 2 items otherwise than they are": "UPDATE texts SET keys = '{}'",
    "namespace default: keyword search counts terms otherwise than they are": "UPDATE terms SET items = items + 1",
}


def spoil(dsn: str, sql: Any) -> None:
    place = address.parse(dsn)
    with psycopg.connect(place.dsn, autocommit=True) as db:
        db.execute(f"SET search_path = {place.schema}, public")
        db.execute(sql)


async def test_wrong_counters_are_found_and_mended(plain_dsn: str):
    async with await Memory.open(plain_dsn, embedder="none", background=False) as memory:
        await memory.add_many([NewItem("The river of Basel", title="Rhine"), NewItem("It flows to the sea")])
        await memory.add_edge("Rhine", "flows through", "Basel")
        assert await memory.check() == []
        for said, sql in WRONG.items():
            spoil(plain_dsn, sql)
            assert await memory.check() == [said]
            await memory.repair()
            assert await memory.check() == []
