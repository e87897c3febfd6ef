"""Raw records: the originals that items point back to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

import apsw

from fourfold.model import Json, RawRecord
from fourfold.stores.sqlite.database import dumps, micros, moment
from fourfold.stores.sqlite.items import batches, marks, possible


def add(
    db: apsw.Connection,
    ns: int,
    content: str,
    speaker: str | None,
    session_id: str | None,
    metadata: Mapping[str, Json],
    now: datetime,
) -> int:
    db.execute(
        "INSERT INTO raw (ns, content, speaker, session_id, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (ns, content, speaker, session_id, dumps(dict(metadata)), micros(now)),
    )
    return db.last_insert_rowid()


def get(db: apsw.Connection, namespace: str, ns: int, ids: Sequence[int]) -> dict[int, RawRecord]:
    found: dict[int, RawRecord] = {}
    for part in batches(possible(ids)):
        sql = (
            "SELECT id, content, speaker, session_id, metadata, created_at FROM raw "  # noqa: S608  (placeholders)
            f"WHERE +ns = ? AND id IN ({marks(len(part))})"
        )
        for record, content, speaker, session, metadata, created in db.execute(sql, (ns, *part)):
            found[record] = RawRecord(
                record, namespace, content, speaker, session, json.loads(metadata), moment(created)
            )
    return found
