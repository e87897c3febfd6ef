"""The engines Fourfold is compared with: SQLite FTS5 with sqlite-vec, and LanceDB."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from corpus import DIMENSIONS, Corpus, Item
from engine import BATCH, DEPTH, TOP, Engine, Value, Vector, batches, fuse_ranks, tuned

TOKEN = re.compile(r"\w+")
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by can do does find for from how i if in is it not of on or should that the there this "
        "to was what when where which why will with you",
    )
)
SQLITE_SCHEMA = f"""
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE items (id INTEGER PRIMARY KEY, key TEXT UNIQUE, title TEXT, text TEXT, tags TEXT);
    CREATE VIRTUAL TABLE words
        USING fts5(title, text, content='items', content_rowid='id', tokenize='porter unicode61');
    CREATE VIRTUAL TABLE points USING vec0(id INTEGER PRIMARY KEY, vector float[{DIMENSIONS}]);
"""
SQLITE_FINISH = """
    INSERT INTO words (words) VALUES ('optimize');
    PRAGMA wal_checkpoint(TRUNCATE);
"""
SQLITE_OPEN = """
    PRAGMA mmap_size = 4294967296;
    PRAGMA cache_size = -262144;
"""


class SqliteEngine(Engine):
    """SQLite FTS5 and sqlite-vec in one database, read through apsw and fused in Python."""

    label = "SQLite FTS5 + sqlite-vec"
    packages = ("apsw", "sqlite-vec")
    ignored_words: frozenset[str] = frozenset()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._database: Any = None

    def build(self, corpus: Corpus) -> None:
        """Fill the three tables, one transaction a batch."""
        self.open()
        self._database.execute(SQLITE_SCHEMA).fetchall()
        rows = zip(range(corpus.item_count), corpus.items(), corpus.vectors(), strict=True)
        for batch in batches(rows, BATCH):
            self._add(batch)
        self._database.execute(SQLITE_FINISH).fetchall()
        self.close()

    def tune(self, corpus: Corpus) -> str:
        """Keep the settings: nothing here is approximate."""
        return f"fts5 porter, OR of the words, order by rank; vec0 float, k={DEPTH} (exact)"

    def _add(self, rows: list[tuple[int, Item, Vector]]) -> None:
        with self._database:
            self._database.executemany(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?)",
                [(number, item.key, item.title, item.text, json.dumps(item.tags)) for number, item, _ in rows],
            )
            self._database.executemany(
                "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)",
                [(number, item.title, item.text) for number, item, _ in rows],
            )
            self._database.executemany(
                "INSERT INTO points VALUES (?, ?)", [(number, vector.tobytes()) for number, _, vector in rows]
            )

    def open(self) -> None:
        """Open the database with sqlite-vec and a generous cache."""
        import apsw
        import sqlite_vec

        self._database = apsw.Connection(str(self._folder / "items.db"))
        self._database.enable_load_extension(True)
        self._database.load_extension(sqlite_vec.loadable_path())
        self._database.execute(SQLITE_OPEN).fetchall()

    def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Run both searches and fuse them by rank."""
        return self._fetch(fuse_ranks(self._by_words(text), self._by_vector(vector)))

    def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        return self._fetch(self._by_words(text)[:TOP])

    def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        return self._fetch(self._by_vector(vector)[:TOP])

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _by_words(self, text: str) -> list[int]:
        """Return the items that best match any of the words."""
        words = TOKEN.findall(text)
        match = " OR ".join(f'"{word}"' for word in words if word not in self.ignored_words)
        sql = f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT {DEPTH}"
        return [number for (number,) in self._database.execute(sql, (match,))] if match else []

    def _by_vector(self, vector: Vector) -> list[int]:
        """Return the items with the nearest vectors; for unit vectors L2 ranks like cosine."""
        sql = f"SELECT id FROM points WHERE vector MATCH ? AND k = {DEPTH} ORDER BY distance"
        return [number for (number,) in self._database.execute(sql, (vector.tobytes(),))]

    def _fetch(self, numbers: list[int]) -> list[str]:
        """Read the whole rows of the results."""
        marks = ",".join("?" * len(numbers))
        sql = f"SELECT id, key, title, text, tags FROM items WHERE id IN ({marks})"
        rows = {row[0]: row for row in self._database.execute(sql, numbers)}
        return [rows[number][1] for number in numbers]


class SqliteStopEngine(SqliteEngine):
    """The same, but a caller who leaves English function words out of the query."""

    label = "SQLite FTS5 + sqlite-vec, no stop words"
    ignored_words = STOP_WORDS


@dataclass(frozen=True, slots=True)
class Reach:
    """How thoroughly LanceDB looks through its vector index (refine 0: no exact second look)."""

    nprobes: int
    ef: int
    refine: int


LANCE_PARTITION_ROWS = 1_048_576
LANCE_LADDER = (
    Reach(1, 200, 0),
    Reach(1, 300, 0),
    Reach(1, 300, 1),
    Reach(2, 400, 1),
    Reach(4, 600, 2),
    Reach(8, 1000, 3),
    Reach(20, 2000, 5),
)
LANCE_COLUMNS = ["key", "title", "text", "tags"]


class LanceEngine(Engine):
    """LanceDB: its own hybrid query with its full-text index, an IVF_HNSW_SQ index and its RRF reranker.

    LanceDB's documentation names IVF_HNSW_SQ as the best trade-off of recall and latency, advises one partition for
    a million rows, and `ef` of about 1.5 times the limit; the smallest `ef` possible is tried first.
    """

    label = "LanceDB"
    packages = ("lancedb", "pyarrow")
    client_kinds = ("threads",)

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("LANCEDB_LOG", "error")
        self._folder = folder
        self._table: Any = None
        self._reranker: Any = None
        self._reach = LANCE_LADDER[0]

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """An event loop in a thread, for LanceDB's own interface, which is asynchronous."""
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        return loop

    def _run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def build(self, corpus: Corpus) -> None:
        """Write the table and build both indexes."""
        self._run(self._build(corpus))

    async def _build(self, corpus: Corpus) -> None:
        import lancedb
        from lancedb.index import FTS, HnswSq

        database = await lancedb.connect_async(self._folder)
        table = await database.create_table("items", lance_batches(corpus), schema=lance_schema())
        await table.create_index("text", config=FTS())
        await table.create_index("vector", config=HnswSq(distance_type="dot", num_partitions=partitions(corpus)))
        await table.optimize()

    def tune(self, corpus: Corpus) -> str:
        """Look more and more thoroughly until the vector recall is high enough; keep that setting."""
        self.open()

        def search(reach: Reach, vector: Vector) -> list[str]:
            self._reach = reach
            return self.vector("", vector)

        self._reach, recall = tuned(corpus, LANCE_LADDER, search)
        self._reach_file().write_text(json.dumps(asdict(self._reach)), encoding="utf-8")
        return f"IVF_HNSW_SQ dot, {partitions(corpus)} partition(s), {self._reach}, recall {recall:.3f} when tuned"

    def _reach_file(self) -> Path:
        return self._folder / "reach.json"

    def open(self) -> None:
        """Open the table with the tuned setting and load its indexes."""
        self._run(self._open())

    async def _open(self) -> None:
        import lancedb
        from lancedb.rerankers import RRFReranker

        self._reranker = RRFReranker()
        self._table = await (await lancedb.connect_async(self._folder)).open_table("items")
        for index in await self._table.list_indices():
            await self._table.prewarm_index(index.name)
        if self._reach_file().exists():
            self._reach = Reach(**json.loads(self._reach_file().read_text(encoding="utf-8")))

    def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Run LanceDB's own hybrid query."""
        query = self._near(vector).nearest_to_text(text, columns=["text"]).rerank(self._reranker)
        return self._run(self._fetch(query))

    def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        return self._run(self._fetch(self._table.query().nearest_to_text(text, columns=["text"])))

    def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        return self._run(self._fetch(self._near(vector)))

    def close(self) -> None:
        """Close the table."""
        self._table.close()

    def _near(self, vector: Vector) -> Any:
        """Begin a vector query with the tuned setting."""
        query = self._table.query().nearest_to(vector).distance_type("dot")
        query = query.nprobes(self._reach.nprobes).ef(self._reach.ef)
        return query.refine_factor(self._reach.refine) if self._reach.refine else query

    async def _fetch(self, query: Any) -> list[str]:
        """Rank by row number only, then read the whole rows of the best ten: the quickest way measured."""
        ranked = await query.limit(DEPTH).select([]).with_row_id().to_arrow()
        numbers = ranked["_rowid"].slice(0, TOP).to_pylist()
        found = await self._table.take_row_ids(numbers).select(LANCE_COLUMNS).with_row_id().to_list()
        rows = {row["_rowid"]: row for row in found}
        return [rows[number]["key"] for number in numbers]


def partitions(corpus: Corpus) -> int:
    """Return the documented number of partitions for an HNSW index."""
    return max(1, corpus.item_count // LANCE_PARTITION_ROWS)


def lance_schema() -> Any:
    """Describe the table: title and text are searched as one column, because an index covers one column."""
    import pyarrow as pa

    text_columns = [pa.field(name, pa.string()) for name in ("key", "title", "text")]
    tags = pa.field("tags", pa.list_(pa.string()))
    return pa.schema([*text_columns, tags, pa.field("vector", pa.list_(pa.float32(), DIMENSIONS))])


def lance_batches(corpus: Corpus) -> Iterator[Any]:
    """Yield the items as record batches."""
    import pyarrow as pa

    for rows in batches(zip(corpus.items(), corpus.vectors(), strict=True), BATCH):
        items = [item for item, _ in rows]
        values = pa.array(np.concatenate([vector for _, vector in rows]))
        columns = [
            pa.array([item.key for item in items]),
            pa.array([item.title for item in items]),
            pa.array([f"{item.title}\n{item.text}" for item in items]),
            pa.array([item.tags for item in items], type=pa.list_(pa.string())),
            pa.FixedSizeListArray.from_arrays(values, DIMENSIONS),
        ]
        yield pa.record_batch(columns, schema=lance_schema())
