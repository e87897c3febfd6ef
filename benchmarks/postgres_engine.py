"""Fourfold on PostgreSQL in the comparison: the same memory, with its rows on a server.

The variable names a server on this machine and a user who may create databases, such as postgresql://localhost/postgres.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from corpus import Corpus
from engine import MEGABYTE
from fourfold_engine import FourfoldEngine

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
