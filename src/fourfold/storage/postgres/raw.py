"""Raw records: the originals that items refer to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fourfold.model import Json, Page, RawRecord
from fourfold.storage.codec import dumps, micros, moment
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db, column, rows, run, value
from fourfold.storage.refusals import SHOWN_ITEMS, no_raw, still_a_source
from fourfold.storage.sql.dialect import possible
from fourfold.storage.sql.ids import new as new_ids
from fourfold.storage.values import NewRaw

if TYPE_CHECKING:
    from fourfold.storage.postgres.snapshot import PostgresSnapshot


def add(db: Db, ns: Namespace, record: NewRaw) -> RawRecord:
    (id,) = new_ids(db, ns.id, "raw", 1)
    *spoken, metadata, created, source = record
    sql = "INSERT INTO raw VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
    run(db, sql, id, ns.id, *spoken, dumps(dict(metadata)), micros(created), source)
    return get(db, ns, [id])[id]


def replace(db: Db, ns: Namespace, id: int, content: str, metadata: Mapping[str, Json]) -> None:
    sql = "UPDATE raw SET content = %s, metadata = %s WHERE ns = %s AND id = %s"
    run(db, sql, content, dumps(dict(metadata)), ns.id, id)


def get(db: Db, ns: Namespace, ids: Sequence[int]) -> dict[int, RawRecord]:
    """In the order of their ids."""
    sql = (
        "SELECT id, content, speaker, session_id, metadata, created_at, source FROM raw "
        "WHERE ns = %s AND id = ANY(%s::bigint[]) ORDER BY id"
    )
    return {
        record: RawRecord(record, ns.name, content, speaker, session, json.loads(metadata), moment(created), source)
        for record, content, speaker, session, metadata, created, source in rows(db, sql, ns.id, possible(ids))
    }


class RawRows:
    def __init__(self, at: PostgresSnapshot) -> None:
        self._at = at

    def get(self, ids: Sequence[int]) -> dict[int, RawRecord]:
        return get(self._at.db, self._at.ns, ids)

    def list(self, session_id: str | None, speaker: str | None, limit: int, offset: int) -> Page[RawRecord]:
        condition = "FROM raw WHERE ns = %s"
        bindings: list[Any] = [self._at.ns.id]
        for name, wanted in (("session_id", session_id), ("speaker", speaker)):
            if wanted is not None:
                condition += f" AND {name} = %s"
                bindings.append(wanted)
        sql = f"SELECT id {condition} ORDER BY id DESC LIMIT %s OFFSET %s"
        ids = column(self._at.db, sql, *bindings, limit, offset)
        found = self.get(ids)
        total = value(self._at.db, f"SELECT count(*) {condition}", *bindings)
        return Page((found[record] for record in ids), total, offset)


def forget(db: Db, ns: Namespace, ids: Sequence[int], *, force: bool) -> int:
    wanted = list(dict.fromkeys(ids))
    for record in wanted:
        if not possible([record]) or not rows(db, "SELECT 1 FROM raw WHERE ns = %s AND id = %s", ns.id, record):
            raise no_raw(record)
        if force:
            run(db, "DELETE FROM sources WHERE raw = %s", record)
        sql = "SELECT DISTINCT item FROM sources WHERE raw = %s ORDER BY item LIMIT %s"
        if users := column(db, sql, record, SHOWN_ITEMS + 1):
            raise still_a_source(record, users)
        run(db, "DELETE FROM raw WHERE id = %s", record)
    return len(wanted)
