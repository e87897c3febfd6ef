"""Raw records: the originals that items refer to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fourfold.model import Json, Page, RawRecord
from fourfold.storage.codec import dumps, micros, moment
from fourfold.storage.refusals import SHOWN_ITEMS, no_raw, still_a_source
from fourfold.storage.sql import ids as numbers
from fourfold.storage.sql.dialect import Db, possible
from fourfold.storage.values import NewRaw


class RawRecords:
    """Those of one namespace, inside a transaction or a snapshot."""

    def __init__(self, db: Db, namespace: str, ns: int) -> None:
        self._db = db
        self._namespace = namespace
        self._ns = ns

    def get(self, ids: Sequence[int]) -> dict[int, RawRecord]:
        """In the order of their ids."""
        sql = (
            "SELECT id, content, speaker, session_id, metadata, created_at, source FROM raw "  # noqa: S608  (constants)
            f"WHERE +ns = ? AND id {self._db.any_id} ORDER BY id"  # +: SQLite looks up the ids, not the namespace
        )
        return {
            id: RawRecord(id, self._namespace, content, speaker, session, json.loads(metadata), moment(created), source)
            for id, content, speaker, session, metadata, created, source in self._db.rows(
                sql, self._ns, self._db.ids(ids)
            )
        }

    def list(self, session_id: str | None, speaker: str | None, limit: int, offset: int) -> Page[RawRecord]:
        condition, bindings = "FROM raw WHERE ns = ?", list[Any]([self._ns])
        for name, wanted in (("session_id", session_id), ("speaker", speaker)):
            if wanted is not None:
                condition += f" AND {name} = ?"
                bindings.append(wanted)
        sql = f"SELECT id {condition} ORDER BY id DESC LIMIT ? OFFSET ?"
        ids = self._db.column(sql, *bindings, limit, offset)
        found = self.get(ids)
        total = self._db.value(f"SELECT count(*) {condition}", *bindings)
        return Page((found[id] for id in ids), total, offset)

    def add(self, record: NewRaw) -> RawRecord:
        (id,) = numbers.new(self._db, self._ns, "raw", 1)
        *spoken, metadata, created, source = record
        sql = "INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        self._db.run(sql, id, self._ns, *spoken, dumps(dict(metadata)), micros(created), source)
        return self.get([id])[id]

    def replace(self, id: int, content: str, metadata: Mapping[str, Json]) -> None:
        sql = "UPDATE raw SET content = ?, metadata = ? WHERE ns = ? AND id = ?"
        self._db.run(sql, content, dumps(dict(metadata)), self._ns, id)

    def forget(self, ids: Sequence[int], *, force: bool) -> int:
        wanted = list(dict.fromkeys(ids))
        for id in wanted:
            if not possible([id]) or not self._db.rows("SELECT 1 FROM raw WHERE ns = ? AND id = ?", self._ns, id):
                raise no_raw(id)
            if force:
                self._db.run("DELETE FROM sources WHERE raw = ?", id)
            sql = "SELECT DISTINCT item FROM sources WHERE raw = ? ORDER BY item LIMIT ?"
            if users := self._db.column(sql, id, SHOWN_ITEMS + 1):
                raise still_a_source(id, users)
            self._db.run("DELETE FROM raw WHERE id = ?", id)
        return len(wanted)
