"""The table of earlier versions and merged items. Every function runs inside a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fourfold.storage.postgres.sql import Db, rows, run, run_many
from fourfold.storage.sql.dialect import possible
from fourfold.storage.sql.ids import new as new_ids
from fourfold.storage.values import Version
from fourfold.storage.version_rows import COLUMNS, LATEST_FIRST, VersionRows, row_of, version_of

_SELECT = f"SELECT {COLUMNS} FROM versions WHERE ns = %s"  # noqa: S608  (constants)


class SavedVersions(VersionRows):
    def __init__(self, db: Db, ns: int) -> None:
        self._db = db
        self._ns = ns

    def _among(self, column: str, wanted: Sequence[int]) -> list[Version]:
        sql = f"{_SELECT} AND {column} = ANY(%s::bigint[]) {LATEST_FIRST}"
        return [version_of(row) for row in rows(self._db, sql, self._ns, possible(wanted))] if wanted else []

    def all(self) -> Iterator[Version]:
        yield from map(version_of, rows(self._db, f"{_SELECT} {LATEST_FIRST}", self._ns))

    def add(self, versions: Sequence[Version]) -> None:
        sql = f"INSERT INTO versions (ns, {COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s)"  # noqa: S608  (constants)
        run_many(self._db, sql, [(self._ns, *row_of(each)) for each in versions])

    def remove(self, ids: Sequence[int]) -> None:
        if ids:
            run(self._db, "DELETE FROM versions WHERE id = ANY(%s::bigint[])", list(ids))

    def new_id(self) -> int:
        return new_ids(self._db, self._ns, "items", 1)[0]
