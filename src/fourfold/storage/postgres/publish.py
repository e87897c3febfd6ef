"""Indexes that are built after writing: the vector index of a large namespace, and its table for pg_textsearch."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import LiteralString, cast

import numpy as np

from fourfold.errors import StoreBusy
from fourfold.storage.postgres import namespaces, postings, texts, vectors
from fourfold.storage.postgres.database import LONG_SECONDS, Database
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db, column, rows, run, value
from fourfold.storage.postgres.texts import TEXTSEARCH_READY
from fourfold.storage.postgres.tuning import Tuning
from fourfold.text import bm25

_PAGE_TEXTS = 5_000
_BUILDING = 0x466F757266
"""The advisory lock of a process that builds an index: two at once in one database would wait for each other."""
_RETRY_SECONDS = 0.05


def index_vectors(database: Database, namespace: str, tuning: Tuning) -> None:
    """Runs outside of a transaction: nothing waits for it."""
    with database.long_work() as db:
        ns = namespaces.find(db, namespace)
        if not vectors.lacks_index(db, ns, tuning):
            return
        while not value(db, "SELECT pg_try_advisory_lock(%s)", _BUILDING):
            time.sleep(_RETRY_SECONDS)  # without waiting inside a statement: the other process waits for these to end
        try:
            vectors.build_index(db, ns)
        finally:
            if not db.closed:
                run(db, "SELECT pg_advisory_unlock(%s)", _BUILDING)


# ---------------------------------------------------------------- pg_textsearch


def is_due(db: Db, ns: Namespace, tuning: Tuning, *, everything: bool) -> bool:
    """Whether pg_textsearch lacks a tenth of the texts; with `everything`, any text."""
    if ns.words != TEXTSEARCH_READY:
        return ns.items >= tuning.textsearch_items
    least = 1 if everything else max(tuning.postings_tail_texts, ns.items // 10)
    return postings.has_grown(db, ns, ns.worded, least)


def fill_words(database: Database, namespace: str, tuning: Tuning, *, everything: bool) -> None:
    """Fills a new table with the words of all texts and indexes it; readers and writers continue meanwhile.

    Nothing is added to it later. pg_textsearch 1.0.0 loses what is added to an existing index when the server crashes,
    and does not find it after any other restart until something is added again. What an index was built from stays.
    """
    with database.write() as db:
        db.wait_seconds = LONG_SECONDS
        ns = namespaces.find(db, namespace)
        if not is_due(db, ns, tuning, everything=everything):
            return
        run(db, "SET LOCAL statement_timeout = 0")
        _fill_table(db, ns)
        sql = "UPDATE namespaces SET words = %s, worded = %s WHERE id = %s AND worded = %s AND words = %s"
        if not run(db, sql, TEXTSEARCH_READY, ns.text_changes, ns.id, ns.worded, ns.words):
            raise StoreBusy("another process builds the same index", "Nothing has to be done")
        _drop_tables(db, ns.id, (ns.worded, ns.text_changes))


def _fill_table(db: Db, ns: Namespace) -> None:
    table = texts.words_table(ns.id, ns.text_changes)
    run(db, f"DROP TABLE IF EXISTS {table}")
    run(db, f"CREATE TABLE {table} (item bigint PRIMARY KEY, words text NOT NULL)")
    after = 0
    sql = "SELECT item, hashes FROM texts WHERE ns = %s AND change <= %s AND item > %s ORDER BY item LIMIT %s"
    while page := rows(db, sql, ns.id, ns.text_changes, after, _PAGE_TEXTS):
        after = page[-1][0]
        copying = cast("LiteralString", f"COPY {table} FROM STDIN (FORMAT BINARY)")
        with db.cursor() as cursor, cursor.copy(copying) as copy:
            copy.set_types(("int8", "text"))
            for item, hashed in page:
                copy.write_row((item, texts.words(np.frombuffer(hashed, np.uint32)) + texts.FILLER))
    options = f"text_config = 'simple', k1 = {bm25.K1}, b = {bm25.B}"
    run(db, f"CREATE INDEX {table}_bm25 ON {table} USING bm25 (words) WITH ({options})")
    run(db, f"ANALYZE {table}")


def drop_words(db: Db, ns: Namespace) -> None:
    """The caller has the namespace locked."""
    ns.words = "none"
    _drop_tables(db, ns.id, ())


def _drop_tables(db: Db, ns: int, kept: Collection[int]) -> None:
    """Snapshots that are open may still use the table before the new one."""
    sql = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename ~ %s"
    names = {texts.words_table(ns, change) for change in kept}
    for table in column(db, sql, f"^words_{ns}(_[0-9]+)?$"):
        if table not in names:
            run(db, f"DROP TABLE {table}")
