"""What tests of the PostgreSQL store share."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from fourfold.memory import Memory
from fourfold.storage.postgres import address
from fourfold.storage.postgres.store import PostgresStore
from fourfold.storage.postgres.tuning import Tuning

sys.path.append(str(Path(__file__).parent.parent / "conformance"))

T = TypeVar("T")

INDEXED = Tuning(postings_items=1, postings_tail_texts=10, textsearch_items=1, vector_index_items=1, narrow_items=0)
"""Indexes for the smallest namespaces, and no filter so narrow that it is answered without them."""


def opened(where: Path | str, tuning: Tuning | None = None) -> Memory:
    """A Memory without an embedder and without threads of its own."""
    store = where if tuning is None else PostgresStore(str(where), tuning)
    return Memory.open(store, embedder="none", background=False)


def execute(dsn: str, sql: Any) -> None:
    """Changes the tables of a store without the store."""
    place = address.parse(dsn)
    with psycopg.connect(place.dsn, autocommit=True) as db:
        db.execute(f"SET search_path = {place.schema}, public")
        db.execute(sql)


def at_once(*calls: Callable[[], T]) -> list[T]:
    """The results of calls that begin at the same moment, each in a thread."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))
