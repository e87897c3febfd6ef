"""Helpers of the tests of the PostgreSQL store."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np
import psycopg
from conformance_operations import NAMES, TAGS, WORDS
from conformance_subjects import NS, RETRIEVERS, item
from store_calls import StoreCalls

from fourfold import Filters, Memory, Query
from fourfold.model import NO_FILTERS
from fourfold.storage.postgres.database import Tuning, parse_address
from fourfold.storage.postgres.store import PostgresStore

T = TypeVar("T")

INDEXED = Tuning(postings_items=1, postings_tail_texts=10, vector_index_items=1, narrow_items=0)
"""Gives even the smallest namespaces indexes, and uses them even under narrow filters."""


def opened(where: Path | str, tuning: Tuning | None = None) -> Memory:
    """A Memory without an embedder and without threads of its own."""
    store = where if tuning is None else PostgresStore(str(where), tuning)
    return Memory.open(store, embedder="none", background=False)


def execute(dsn: str, sql: Any) -> list[Any]:
    """Reads or changes the tables of a store directly."""
    place = parse_address(dsn)
    with psycopg.connect(place.dsn, autocommit=True) as db:
        db.execute(f"SET search_path = {place.schema}, public")
        cursor = db.execute(sql)
        return cursor.fetchall() if cursor.description else []


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Runs the calls at the same time, each in a thread; returns their results."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


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


def found_by(calls: StoreCalls, retriever: str, query: Query) -> Any:
    with calls.snapshot(NS) as at:
        return RETRIEVERS[retriever](at).search(query, 200).hits
