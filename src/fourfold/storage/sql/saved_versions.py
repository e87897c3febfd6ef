"""The table of earlier versions and merged items. Every method runs inside a transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from fourfold.storage.codec import dumps
from fourfold.storage.sql import ids
from fourfold.storage.sql.dialect import Db
from fourfold.storage.values import Version

_COLUMNS = "id, item, until, merged, record"
_SELECT = f"SELECT {_COLUMNS} FROM versions WHERE ns = ?"  # noqa: S608  (constants)
_LATEST_FIRST = "ORDER BY until DESC, merged, id"
"""What an item was merged into comes before it."""


class SavedVersions:
    def __init__(self, db: Db, ns: int) -> None:
        self._db = db
        self._ns = ns

    def of_items(self, items: Sequence[int]) -> list[Version]:
        return self._among("item", items)

    def of_ids(self, ids: Sequence[int]) -> list[Version]:
        return self._among("id", ids)

    def _among(self, column: str, wanted: Sequence[int]) -> list[Version]:
        if not wanted:
            return []
        sql = f"{_SELECT} AND {column} {self._db.any_id} {_LATEST_FIRST}"
        return list(map(_version, self._db.rows(sql, self._ns, self._db.ids(wanted))))

    def all(self) -> Iterator[Version]:
        return map(_version, self._db.stream(f"{_SELECT} {_LATEST_FIRST}", self._ns))

    def add(self, versions: Sequence[Version]) -> None:
        sql = f"INSERT INTO versions (ns, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608  (constants)
        self._db.run_many(sql, [(self._ns, *each[:-1], dumps(each.record)) for each in versions])

    def remove(self, ids: Sequence[int]) -> None:
        if ids:
            self._db.run(f"DELETE FROM versions WHERE id {self._db.any_id}", self._db.ids(ids))  # noqa: S608  (constants)

    def new_id(self) -> int:
        return ids.new(self._db, self._ns, "items", 1)[0]


def _version(row: tuple[Any, ...]) -> Version:
    id, item, until, merged, record = row
    return Version(id, item, until, bool(merged), json.loads(record))
