"""The table of earlier versions and merged items. Every function runs inside a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fourfold.storage.sql import ids
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import batches, marks, possible, rows
from fourfold.storage.values import Version
from fourfold.storage.version_rows import COLUMNS, LATEST_FIRST, VersionRows, row_of, version_of

_SELECT = f"SELECT {COLUMNS} FROM versions WHERE ns = ?"  # noqa: S608  (constants)


class SavedVersions(VersionRows):
    def __init__(self, db: Connection, ns: int) -> None:
        self._db = db
        self._ns = ns

    def _among(self, column: str, wanted: Sequence[int]) -> list[Version]:
        found: list[Version] = []
        for part in batches(possible(wanted)):
            sql = f"{_SELECT} AND {column} IN ({marks(len(part))}) {LATEST_FIRST}"
            found += map(version_of, rows(self._db, sql, self._ns, *part))
        return found

    def all(self) -> Iterator[Version]:
        yield from map(version_of, self._db.execute(f"{_SELECT} {LATEST_FIRST}", (self._ns,)))

    def add(self, versions: Sequence[Version]) -> None:
        sql = f"INSERT INTO versions (ns, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608  (constants)
        self._db.executemany(sql, ((self._ns, *row_of(each)) for each in versions))

    def remove(self, ids: Sequence[int]) -> None:
        self._db.executemany("DELETE FROM versions WHERE id = ?", ((id,) for id in ids))

    def new_id(self) -> int:
        return ids.new(self._db, self._ns, "items", 1)[0]
