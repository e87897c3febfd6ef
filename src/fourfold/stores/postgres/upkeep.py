"""What follows writing: the vector index of a namespace that has grown, and its table for pg_textsearch."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import LiteralString, cast

import numpy as np

from fourfold.errors import StoreBusy
from fourfold.stores.postgres import postings, spaces, texts, vectors
from fourfold.stores.postgres.database import Database
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, rows, run, value

WORDED = 2_000
"""pg_textsearch gets the texts of a namespace of so many items."""
READY = "ready"
_CHUNK = 5_000
_BUILDING = 0x466F757266
"""The advisory lock of who builds an index: two at once in one database would wait for each other."""
_PAUSE = 0.05


async def index_vectors(database: Database, namespace: str) -> None:
    """Outside of any transaction, and however long it takes: nobody waits for it."""
    async with database.unhurried() as db:
        ns = await spaces.find(db, namespace)
        if ns is None or not await vectors.lacks_index(db, ns):
            return
        while not await value(db, "SELECT pg_try_advisory_lock(%s)", _BUILDING):
            await asyncio.sleep(_PAUSE)  # not in the lock: the other one waits for all statements to end
        try:
            await vectors.build_index(db, ns)
        finally:
            if not db.closed:
                await run(db, "SELECT pg_advisory_unlock(%s)", _BUILDING)


# ---------------------------------------------------------------- pg_textsearch


async def is_due(db: Db, ns: Namespace, *, wholly: bool) -> bool:
    """Whether pg_textsearch lacks texts: a tenth of them, or any if all shall be done."""
    if ns.words != READY:
        return ns.items >= WORDED
    return await postings.has_grown(db, ns, ns.worded, least=1 if wholly else max(postings.TAIL, ns.items // 10))


async def fill_words(database: Database, namespace: str, *, wholly: bool) -> None:
    """Makes a table with the words of all texts, and indexes it when it is full; others read and write meanwhile.

    Nothing is added to it afterwards. What is added to an index of pg_textsearch 1.0.0 is lost when the server crashes,
    and not found after any other restart until something is added again; what it was made from stays.
    """
    async with database.write() as db:
        ns = await spaces.find(db, namespace)
        if ns is None or not await is_due(db, ns, wholly=wholly):
            return
        await run(db, "SET LOCAL statement_timeout = 0")
        await _make_words(db, ns)
        sql = "UPDATE namespaces SET words = %s, worded = %s WHERE id = %s AND worded = %s AND words = %s"
        if not await run(db, sql, READY, ns.text_changes, ns.id, ns.worded, ns.words):
            raise StoreBusy("another process makes the same index", "It goes on by itself")
        await _drop_tables(db, ns.id, (ns.worded, ns.text_changes))


async def _make_words(db: Db, ns: Namespace) -> None:
    table = texts.words_table(ns.id, ns.text_changes)
    await run(db, f"DROP TABLE IF EXISTS {table}")
    await run(db, f"CREATE TABLE {table} (item bigint PRIMARY KEY, words text NOT NULL)")
    after = 0
    sql = "SELECT item, hashes FROM texts WHERE ns = %s AND change <= %s AND item > %s ORDER BY item LIMIT %s"
    while page := await rows(db, sql, ns.id, ns.text_changes, after, _CHUNK):
        after = page[-1][0]
        copying = cast("LiteralString", f"COPY {table} FROM STDIN (FORMAT BINARY)")
        async with db.cursor() as cursor, cursor.copy(copying) as copy:
            copy.set_types(("int8", "text"))
            for item, hashed in page:
                await copy.write_row((item, texts.words(np.frombuffer(hashed, np.uint32)) + texts.FILLER))
    await run(
        db, f"CREATE INDEX {table}_bm25 ON {table} USING bm25 (words) WITH (text_config = 'simple', k1 = 1.2, b = 0.75)"
    )
    await run(db, f"ANALYZE {table}")


async def drop_words(db: Db, ns: Namespace) -> None:
    """The caller has the namespace locked."""
    ns.words = "none"
    await _drop_tables(db, ns.id, ())


async def _drop_tables(db: Db, ns: int, kept: Collection[int]) -> None:
    """The last but one may still be asked by who has not looked at the namespace since."""
    sql = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename ~ %s"
    names = {texts.words_table(ns, change) for change in kept}
    for (table,) in await rows(db, sql, f"^words_{ns}(_[0-9]+)?$"):
        if table not in names:
            await run(db, f"DROP TABLE {table}")
