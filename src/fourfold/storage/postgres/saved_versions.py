"""The table of earlier versions and merged items. Every function runs inside a transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from fourfold.storage.codec import dumps
from fourfold.storage.postgres.ids import new as new_ids
from fourfold.storage.postgres.sql import Db, possible, rows, run, run_many
from fourfold.storage.values import Version

_SELECT = "SELECT id, item, until, merged, record FROM versions WHERE ns = %s"
_LATEST_FIRST = "ORDER BY until DESC, merged, id"


class SavedVersions:
    def __init__(self, db: Db, ns: int) -> None:
        self._db = db
        self._ns = ns

    def of_items(self, items: Sequence[int]) -> list[Version]:
        return self._among("item", items)

    def of_ids(self, ids: Sequence[int]) -> list[Version]:
        return self._among("id", ids)

    def _among(self, column: str, wanted: Sequence[int]) -> list[Version]:
        sql = f"{_SELECT} AND {column} = ANY(%s::bigint[]) {_LATEST_FIRST}"
        return [_version(row) for row in rows(self._db, sql, self._ns, possible(wanted))] if wanted else []

    def all(self) -> Iterator[Version]:
        """What an item was merged into comes before it."""
        yield from map(_version, rows(self._db, f"{_SELECT} {_LATEST_FIRST}", self._ns))

    def add(self, versions: Sequence[Version]) -> None:
        run_many(
            self._db,
            "INSERT INTO versions (id, ns, item, until, merged, record) VALUES (%s, %s, %s, %s, %s, %s)",
            [(each.id, self._ns, each.item, each.until, each.merged, dumps(each.record)) for each in versions],
        )

    def remove(self, ids: Sequence[int]) -> None:
        if ids:
            run(self._db, "DELETE FROM versions WHERE id = ANY(%s::bigint[])", list(ids))

    def new_id(self) -> int:
        return new_ids(self._db, self._ns, "items", 1)[0]


def _version(row: tuple[Any, ...]) -> Version:
    id, item, until, merged, record = row
    return Version(id, item, until, merged, json.loads(record))
