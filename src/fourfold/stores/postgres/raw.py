"""Raw records: the originals that items point back to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from fourfold.model import Json, RawRecord
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, new_ids, possible, rows, run
from fourfold.stores.sqlite.database import dumps, micros, moment


async def add(
    db: Db,
    ns: Namespace,
    content: str,
    speaker: str | None,
    session_id: str | None,
    metadata: Mapping[str, Json],
    now: datetime,
) -> RawRecord:
    (record,) = await new_ids(db, "raw_ids", 1)
    await run(
        db,
        "INSERT INTO raw VALUES (%s, %s, %s, %s, %s, %s, %s)",
        record, ns.id, content, speaker, session_id, dumps(dict(metadata)), micros(now),
    )  # fmt: skip
    return (await get(db, ns, [record]))[record]


async def get(db: Db, ns: Namespace, ids: Sequence[int]) -> dict[int, RawRecord]:
    sql = (
        "SELECT id, content, speaker, session_id, metadata, created_at FROM raw "
        "WHERE ns = %s AND id = ANY(%s::bigint[]) ORDER BY id"
    )
    return {
        record: RawRecord(record, ns.name, content, speaker, session, json.loads(metadata), moment(created))
        for record, content, speaker, session, metadata, created in await rows(db, sql, ns.id, possible(ids))
    }
