"""Fourfold in the comparison, in a folder and on PostgreSQL: the only place here that knows its interface.

The variable of PostgreSQL names a server on this machine and a user who may create databases, such as
postgresql://localhost/postgres.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from corpus import Corpus
from engine import BATCH, MEGABYTE, TOP, Engine, Vector, batches


class FourfoldEngine(Engine):
    """Fourfold with vectors that are given, so that no engine spends time on embedding."""

    label = "Fourfold"
    packages = ("fourfold",)
    client_kinds = ("threads", "processes")

    def __init__(self, folder: Path) -> None:
        self.store: str | Path = folder
        self._memory: Any = None

    def build(self, corpus: Corpus) -> None:
        """Add items and edges in batches and build all indexes."""
        self.open()
        self.add_items(corpus)
        self.add_edges(corpus)
        self.index()
        self.close()

    def index(self) -> None:
        """Build what is missing of the indexes."""
        self._memory.index()

    def tune(self, corpus: Corpus) -> str:
        """Keep the default settings."""
        return "default settings, with graph and tags"

    def add_edges(self, corpus: Corpus) -> None:
        """Add all edges in batches."""
        edges = ((edge.source, edge.relation, edge.target, edge.weight) for edge in corpus.edges())
        for batch in batches(edges, BATCH):
            self._memory.add_edges(batch)

    def add_items(self, corpus: Corpus) -> None:
        """Add all items in batches."""
        from fourfold import NewItem

        new_items = (
            NewItem(text=item.text, title=item.title, key=item.key, tags=item.tags, vector=vector)
            for item, vector in zip(corpus.items(), corpus.vectors(), strict=True)
        )
        for batch in batches(new_items, BATCH):
            self._memory.add_many(batch)

    def open(self) -> None:
        """Open the memory folder without an embedding model."""
        from fourfold import Memory

        self._memory = Memory.open(self.store, embedder="none")

    def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Search with all four signals: vector, words, graph and tags."""
        return keys(self._memory.search(text, vector=vector, top_k=TOP))

    def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        return keys(self._memory.search(text, only=("keyword",), top_k=TOP))

    def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        return keys(self._memory.search(text, vector=vector, only=("semantic",), top_k=TOP))

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()


def keys(response: Any) -> list[str]:
    """Return the keys of a response's results; an answer that lacks a signal must not count as a quick one."""
    if response.degraded:
        raise RuntimeError(f"Fourfold answered without: {response.degraded}")
    return [result.key for result in response.results]


VARIABLE = "FOURFOLD_BENCH_POSTGRES"


class PostgresEngine(FourfoldEngine):
    """Each corpus has its own database, which is dropped before a rebuild."""

    label = "Fourfold on PostgreSQL"
    packages = ("fourfold", "psycopg")
    environment = VARIABLE
    client_kinds = ("threads", "processes")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._database = f"bench_{folder.name.replace('-', '_')}"
        self._server = os.environ[VARIABLE]
        self.store = urlunsplit(urlsplit(self._server)._replace(path=f"/{self._database}"))

    def build(self, corpus: Corpus) -> None:
        """Make the database, then store and index everything in it."""
        self._ask(f"DROP DATABASE IF EXISTS {self._database} WITH (FORCE)")
        self._ask(f"CREATE DATABASE {self._database}")
        super().build(corpus)

    def tune(self, corpus: Corpus) -> str:
        """Keep the default settings, and say which server that was."""
        return f"{super().tune(corpus)}; {self._ask('SELECT version()')[0][0].split(' on ')[0]}"

    def megabytes(self, folder: Path) -> float:
        """What the database takes on the server."""
        size: int = self._ask("SELECT pg_database_size(%s)", self._database)[0][0]
        return size / MEGABYTE

    def processes(self) -> list[int]:
        """The server's processes for this database."""
        return [pid for (pid,) in self._ask("SELECT pid FROM pg_stat_activity WHERE datname = %s", self._database)]

    def _ask(self, sql: str, *values: Any) -> list[Any]:
        import psycopg

        with psycopg.connect(self._server, autocommit=True) as server:
            cursor = server.execute(sql, values)
            return cursor.fetchall() if cursor.description else []
