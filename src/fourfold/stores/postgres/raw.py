"""Raw records: the originals that items point back to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from fourfold.model import Json, Page, RawRecord
from fourfold.stores.postgres.ids import new as new_ids
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, possible, rows, run, value
from fourfold.stores.raw import SHOWN_ITEMS, no_raw, still_a_source
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
    (record,) = await new_ids(db, ns.id, "raw", 1)
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


async def page(
    db: Db, ns: Namespace, session_id: str | None, speaker: str | None, limit: int, offset: int
) -> Page[RawRecord]:
    """Newest first."""
    condition = "FROM raw WHERE ns = %s"
    wanted: list[str] = []
    for column, name in (("session_id", session_id), ("speaker", speaker)):
        if name is not None:
            condition += f" AND {column} = %s"
            wanted.append(name)
    sql = f"SELECT id {condition} ORDER BY id DESC LIMIT %s OFFSET %s"
    ids = [record for (record,) in await rows(db, sql, ns.id, *wanted, limit, offset)]
    found = await get(db, ns, ids)
    total = await value(db, f"SELECT count(*) {condition}", ns.id, *wanted)
    return Page((found[record] for record in ids), total, offset)


async def forget(db: Db, ns: Namespace, ids: Sequence[int], *, force: bool) -> int:
    wanted = list(dict.fromkeys(ids))
    for record in wanted:
        if not possible([record]) or not await rows(db, "SELECT 1 FROM raw WHERE ns = %s AND id = %s", ns.id, record):
            raise no_raw(record)
        if force:
            await run(db, "DELETE FROM sources WHERE raw = %s", record)
        sql = "SELECT DISTINCT item FROM sources WHERE raw = %s ORDER BY item LIMIT %s"
        if users := await rows(db, sql, record, SHOWN_ITEMS + 1):
            raise still_a_source(record, [item for (item,) in users])
        await run(db, "DELETE FROM raw WHERE id = %s", record)
    return len(wanted)
