"""What follows writing: the vector index of a namespace that has grown, and its table for pg_textsearch."""

from __future__ import annotations

import asyncio

import numpy as np

from fourfold.stores.postgres import postings, spaces, texts, vectors
from fourfold.stores.postgres.database import Database
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, rows, run, value

WORDED = 2_000
"""pg_textsearch gets the texts of a namespace of so many items."""
_CHUNK = 1_000
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


async def fill_words(database: Database, namespace: str) -> None:
    """In pieces, since others want to write meanwhile; what they write from the first piece on goes there, too."""
    after: int | None = 0
    table = ""
    while after is not None:
        async with database.write() as db:
            ns = await spaces.lock(db, namespace)
            if ns is None or ns.words == "ready" or (ns.words == "none" and ns.items < WORDED):
                return
            if ns.words == "none":
                await _make_table(db, ns)
            table, after = texts.words_table(ns.id), await _fill(db, ns, after)
            await spaces.store(db, ns)
    await database.read(lambda db: run(db, f"ANALYZE {table}"))


async def _make_table(db: Db, ns: Namespace) -> None:
    table = texts.words_table(ns.id)
    await run(db, f"DROP TABLE IF EXISTS {table}")
    await run(db, f"CREATE TABLE {table} (item bigint PRIMARY KEY, words text NOT NULL)")
    await run(
        db, f"CREATE INDEX {table}_bm25 ON {table} USING bm25 (words) WITH (text_config = 'simple', k1 = 1.2, b = 0.75)"
    )
    ns.words = "filling"


async def _fill(db: Db, ns: Namespace, after: int) -> int | None:
    """Where to go on; None when all are there."""
    sql = "SELECT item, hashes FROM texts WHERE ns = %s AND item > %s ORDER BY item LIMIT %s"
    found = await rows(db, sql, ns.id, after, _CHUNK)
    if not found:
        ns.words = "ready"
        return None
    await texts.write_words(db, ns, [(item, np.frombuffer(hashed, np.uint32)) for item, hashed in found])
    return found[-1][0]


async def is_due(db: Db, ns: Namespace, *, wholly: bool) -> bool:
    """Whether there is something to do for pg_textsearch."""
    if ns.words != "ready":
        return ns.items >= WORDED
    return await postings.has_grown(db, ns, ns.spilled, wholly=wholly)


async def spill_words(database: Database, namespace: str, *, wholly: bool) -> None:
    """Has pg_textsearch write out what it keeps in memory, where it looks at every use of a word, not at the best."""
    async with database.unhurried() as db:
        ns = await spaces.find(db, namespace)
        if ns is None or ns.words != "ready" or not await is_due(db, ns, wholly=wholly):
            return
        if await value(db, "SELECT to_regproc('bm25_spill_index')") is not None:
            await run(db, "SELECT bm25_spill_index(%s)", f"{texts.words_table(ns.id)}_bm25")
        await run(db, "UPDATE namespaces SET spilled = %s WHERE id = %s", ns.text_changes, ns.id)


async def drop_words(db: Db, ns: Namespace) -> None:
    if ns.words != "none":
        await run(db, f"DROP TABLE IF EXISTS {texts.words_table(ns.id)}")
        ns.words = "none"
