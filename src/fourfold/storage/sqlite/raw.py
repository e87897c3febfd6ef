"""Raw records: the originals that items point back to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fourfold.model import Json, Page, RawRecord
from fourfold.storage.codec import dumps, micros, moment
from fourfold.storage.refusals import SHOWN_ITEMS, no_raw, still_a_source
from fourfold.storage.sql.ids import new as new_ids
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import batches, marks, possible, rows, value
from fourfold.storage.values import NewRaw


def add(db: Connection, namespace: str, ns: int, record: NewRaw) -> RawRecord:
    (id,) = new_ids(db, ns, "raw", 1)
    *spoken, metadata, created, source = record
    bindings = (id, ns, *spoken, dumps(dict(metadata)), micros(created), source)
    db.execute("INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?, ?, ?)", bindings)
    return get(db, namespace, ns, [id])[id]


def replace(db: Connection, ns: int, id: int, content: str, metadata: Mapping[str, Json]) -> None:
    db.execute(
        "UPDATE raw SET content = ?, metadata = ? WHERE ns = ? AND id = ?", (content, dumps(dict(metadata)), ns, id)
    )


def get(db: Connection, namespace: str, ns: int, ids: Sequence[int]) -> dict[int, RawRecord]:
    found: dict[int, RawRecord] = {}
    for part in batches(possible(ids)):
        sql = (
            "SELECT id, content, speaker, session_id, metadata, created_at, source FROM raw "  # noqa: S608  (placeholders)
            f"WHERE +ns = ? AND id IN ({marks(len(part))})"
        )
        for record, content, speaker, session, metadata, created, source in db.execute(sql, (ns, *part)):
            found[record] = RawRecord(
                record, namespace, content, speaker, session, json.loads(metadata), moment(created), source
            )
    return found


def page(
    db: Connection,
    namespace: str,
    ns: int,
    session_id: str | None,
    speaker: str | None,
    limit: int,
    offset: int,
) -> Page[RawRecord]:
    """Newest first."""
    condition = "FROM raw WHERE ns = ?1 AND (?2 IS NULL OR session_id = ?2) AND (?3 IS NULL OR speaker = ?3)"
    sql = f"SELECT id {condition} ORDER BY id DESC LIMIT ?4 OFFSET ?5"
    ids = [record for (record,) in rows(db, sql, ns, session_id, speaker, limit, offset)]
    found = get(db, namespace, ns, ids)
    total = value(db, f"SELECT count(*) {condition}", ns, session_id, speaker)
    return Page((found[record] for record in ids), total, offset)


def forget(db: Connection, ns: int, ids: Sequence[int], *, force: bool) -> int:
    wanted = list(dict.fromkeys(ids))
    for record in wanted:
        if not possible([record]) or value(db, "SELECT 1 FROM raw WHERE ns = ? AND id = ?", ns, record) is None:
            raise no_raw(record)
        if force:
            db.execute("DELETE FROM sources WHERE raw = ?", (record,))
        sql = "SELECT DISTINCT item FROM sources WHERE raw = ? ORDER BY item LIMIT ?"
        if users := rows(db, sql, record, SHOWN_ITEMS + 1):
            raise still_a_source(record, [item for (item,) in users])
        db.execute("DELETE FROM raw WHERE id = ?", (record,))
    return len(wanted)
