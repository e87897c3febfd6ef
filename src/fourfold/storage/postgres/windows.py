"""Windows of long items: all vectors of an item, the part that is nearest to a query, and windows of another text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fourfold.embed.windows import Windows, flaw
from fourfold.retrieval import Part
from fourfold.storage.parts import nearest_part
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db
from fourfold.storage.postgres.vectors import matrix
from fourfold.storage.sql.dialect import possible

if TYPE_CHECKING:
    from fourfold.model import Vector

_BODY = "CASE WHEN text = '' THEN title ELSE text END"
"""What spans refer to."""


def stored(db: Db, dimension: int | None, items: Sequence[int]) -> dict[int, Vector | Windows]:
    """The vector of each item that has one, or its windows. `dimension`: that of the namespace."""
    found: dict[int, list[tuple[bytes, int | None, int | None]]] = {}
    sql = "SELECT item, v, starts, ends FROM vectors WHERE item = ANY(?::bigint[]) ORDER BY item, part"
    for item, *row in db.rows(sql, list(items)):
        found.setdefault(item, []).append((row[0], row[1], row[2]))
    made: dict[int, Vector | Windows] = {}
    for item, windows in found.items():
        vectors = matrix(b"".join(sent for sent, _, _ in windows), dimension or 0)
        spans = tuple((start, end) for _, start, end in windows if start is not None and end is not None)
        made[item] = Windows(vectors, spans) if spans else vectors[0]
    return made


def nearest_parts(db: Db, ns: Namespace, queries: Sequence[Vector], ids: Sequence[int]) -> dict[int, Part]:
    """Of items with several vectors: the part of the text whose vector is nearest."""
    if not ns.windows:
        return {}
    sql = (
        f"SELECT id, char_length({_BODY}) FROM items WHERE ns = ? AND id = ANY(?::bigint[]) "  # noqa: S608  (constants)
        "AND EXISTS (SELECT 1 FROM vectors WHERE item = id AND part > 0)"
    )
    lengths = dict(db.rows(sql, ns.id, possible(ids)))
    known = stored(db, ns.dimension, list(lengths))
    return {
        item: nearest_part(windows, queries, lengths[item])
        for item, windows in known.items()
        if isinstance(windows, Windows) and len(windows.spans) == len(windows.vectors)
    }


def flawed(db: Db) -> list[int]:
    """Items whose windows do not fit their texts."""
    sql = (
        "SELECT item, array_agg(part ORDER BY part), array_agg(starts ORDER BY part), array_agg(ends ORDER BY part), "  # noqa: S608  (constants)
        f"char_length({_BODY}) FROM vectors JOIN items ON id = item WHERE part > 0 OR starts IS NOT NULL "
        "GROUP BY item, title, text"
    )
    return [
        item
        for item, parts, starts, ends, characters in db.rows(sql)
        if parts != list(range(len(parts)))
        or None in (*starts, *ends)
        or flaw(list(zip(starts, ends, strict=True)), characters) is not None
    ]
