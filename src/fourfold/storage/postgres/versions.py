"""Earlier versions of items, and the order of the values of facts, inside the transaction of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from fourfold.storage.codec import optional_moment
from fourfold.storage.postgres import windows
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.rows import Row
from fourfold.storage.postgres.sql import Db, column, rows, run
from fourfold.storage.values import Place, arranged

_VALUES = (
    "SELECT id, coalesce(valid_from, created_at), superseded_at, supersedes FROM items WHERE ns = %s AND fact = %s"
)


def settle(db: Db, ns: Namespace, written: Sequence[Row]) -> None:
    """Orders the values of the facts that these rows state."""
    by_id = {row.id: row for row in written}
    for fact in dict.fromkeys(row.fact for row in written if row.fact is not None):
        for place in arranged([Place(*value) for value in rows(db, _VALUES, ns.id, fact)]):
            run(
                db,
                "UPDATE items SET superseded_at = %s, supersedes = %s, "
                "identity = CASE WHEN %s THEN identity END WHERE id = %s",
                place.superseded_at,
                place.supersedes,
                place.superseded_at is None,
                place.id,
            )
            if (row := by_id.get(place.id)) is not None:
                row.superseded_at, row.supersedes = optional_moment(place.superseded_at), place.supersedes
            ns.touched.add(place.id)


def version(db: Db, ns: Namespace, row: Row, now: datetime) -> Row:
    """A copy of a stored row, to be written as its superseded version."""
    made = windows.stored(db, ns.dimension, [row.id])
    return replace(
        row,
        id=0,
        key=None,
        path=None,
        chunk_index=None,
        linked=False,
        valid_from=row.valid_from or row.created_at,
        superseded_at=row.superseded_at or now,
        version_of=row.id,
        tags=dict(row.tags),
        sources=list(row.sources),
        before=None,
        retold=True,
        reworded=True,
        renamed=False,
        vector=made.get(row.id),
        touched=True,
    )


def copy_refusal(db: Db, row: Row, kept: Row) -> None:
    """A version of a text that the embedder rejected is not tried again."""
    sql = "UPDATE waiting SET refused = (SELECT refused FROM waiting WHERE item = %s) WHERE item = %s"
    run(db, sql, row.id, kept.id)


def versions_of(db: Db, ids: Sequence[int]) -> list[int]:
    """The earlier versions of these items, and versions of these."""
    found = column(db, "SELECT id FROM items WHERE version_of = ANY(%s::bigint[])", list(ids))
    return [*found, *versions_of(db, found)] if found else []


def relink(db: Db, gone: Sequence[int]) -> None:
    """Makes successors of items that are about to go the successors of what these superseded."""
    sql = (
        "UPDATE items SET supersedes = gone.supersedes FROM items AS gone WHERE items.supersedes = gone.id "
        "AND gone.id = ANY(%s::bigint[]) AND NOT items.id = ANY(%s::bigint[]) RETURNING items.id"
    )
    while rows(db, sql, list(gone), list(gone)):
        pass
