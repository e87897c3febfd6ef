"""The table of earlier versions and merged items. Every function runs inside a transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from fourfold.storage.codec import dumps
from fourfold.storage.sqlite import ids
from fourfold.storage.sqlite.database import batches, marks, possible, rows
from fourfold.storage.values import Version

_COLUMNS = "id, item, until, merged, record"
_LATEST_FIRST = "ORDER BY until DESC, merged, id"


class SavedVersions:
    def __init__(self, db: apsw.Connection, ns: int) -> None:
        self._db = db
        self._ns = ns

    def of_items(self, items: Sequence[int]) -> list[Version]:
        return self._among("item", items)

    def of_ids(self, ids: Sequence[int]) -> list[Version]:
        return self._among("id", ids)

    def _among(self, column: str, wanted: Sequence[int]) -> list[Version]:
        found: list[Version] = []
        for part in batches(possible(wanted)):
            sql = f"SELECT {_COLUMNS} FROM versions WHERE ns = ? AND {column} IN ({marks(len(part))}) {_LATEST_FIRST}"  # noqa: S608  (constants and placeholders)
            found += map(_version, rows(self._db, sql, self._ns, *part))
        return found

    def all(self) -> Iterator[Version]:
        """What an item was merged into comes before it."""
        sql = f"SELECT {_COLUMNS} FROM versions WHERE ns = ? {_LATEST_FIRST}"  # noqa: S608  (constants)
        yield from map(_version, self._db.execute(sql, (self._ns,)))

    def add(self, versions: Sequence[Version]) -> None:
        self._db.executemany(
            "INSERT INTO versions (id, ns, item, until, merged, record) VALUES (?, ?, ?, ?, ?, ?)",
            ((each.id, self._ns, each.item, each.until, each.merged, dumps(each.record)) for each in versions),
        )

    def remove(self, ids: Sequence[int]) -> None:
        self._db.executemany("DELETE FROM versions WHERE id = ?", ((id,) for id in ids))

    def new_id(self) -> int:
        return ids.new(self._db, self._ns, "items", 1)[0]


def _version(row: tuple[Any, ...]) -> Version:
    id, item, until, merged, record = row
    return Version(id, item, until, bool(merged), json.loads(record))
