"""Helpers of the tests of the PostgreSQL store."""

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

INDEXED = Tuning(postings_items=1, postings_tail_texts=10, vector_index_items=1, narrow_items=0)
"""Gives even the smallest namespaces indexes, and uses them even under narrow filters."""


def opened(where: Path | str, tuning: Tuning | None = None) -> Memory:
    """A Memory without an embedder and without threads of its own."""
    store = where if tuning is None else PostgresStore(str(where), tuning)
    return Memory.open(store, embedder="none", background=False)


def execute(dsn: str, sql: Any) -> None:
    """Changes the tables of a store directly."""
    place = address.parse(dsn)
    with psycopg.connect(place.dsn, autocommit=True) as db:
        db.execute(f"SET search_path = {place.schema}, public")
        db.execute(sql)


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Runs the calls at the same time, each in a thread; returns their results."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))
