"""Vectors of items: one row per item, which holds one vector or one per window of a long text.

Every function runs inside its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.embed.windows import Windows, flaw, rows_of, spans_of
from fourfold.retrieval import Part
from fourfold.storage.parts import SPAN_BYTES, nearest_part, packed, unpacked
from fourfold.storage.sql.namespaces import Namespace
from fourfold.storage.sqlite.connection import Connection

if TYPE_CHECKING:
    from fourfold.index.rows import Ints, Matrix
    from fourfold.model import Vector

BODY = "iif(text = '', title, text)"
"""What spans refer to."""


def insert(db: Connection, ns: Namespace, given: Sequence[tuple[int, Vector | Windows]]) -> None:
    """Stores the vectors of items that have none."""
    spans = [spans_of(vector) for _, vector in given]
    db.run_many(
        "INSERT INTO vectors (item, vector, spans) VALUES (?, ?, ?)",
        [(item, rows_of(vector).tobytes(), packed(own)) for (item, vector), own in zip(given, spans, strict=True)],
    )
    ns.vectors += len(given)
    ns.windows += sum(max(0, len(own) - 1) for own in spans)


def drop(db: Connection, ns: Namespace, items: Sequence[int]) -> None:
    """Removes the vectors of items, and takes the items from the queue."""
    ids = db.ids(items)
    for (size,) in db.rows(f"DELETE FROM vectors WHERE item {db.any_id} RETURNING length(spans)", ids):  # noqa: S608  (constants)
        ns.vectors -= 1
        ns.windows -= 0 if size is None else size // SPAN_BYTES - 1
    db.run(f"DELETE FROM waiting WHERE ns = ? AND item {db.any_id}", ns.id, ids)  # noqa: S608  (constants)


def stored(db: Connection, dimension: int | None, ids: Sequence[int]) -> dict[int, Vector | Windows]:
    """The vector of each item that has one, or its windows. `dimension`: that of the namespace."""
    if not dimension:
        return {}
    sql = f"SELECT item, vector, spans FROM vectors WHERE item {db.any_id} AND length(vector) % ? = 0"  # noqa: S608  (constants)
    made: dict[int, Vector | Windows] = {}
    for item, blob, spans in db.rows(sql, db.ids(ids), dimension * 4):
        matrix = np.frombuffer(blob, np.float32).reshape(-1, dimension)
        made[item] = matrix[0] if spans is None else Windows(matrix, unpacked(spans))
    return made


def read(db: Connection, ids: Sequence[int], dimension: int) -> tuple[Ints, Matrix]:
    """The vectors of those of these items that have one, with their ids; those of an item are adjacent."""
    sql = f"SELECT item, vector FROM vectors WHERE item {db.any_id} AND length(vector) % ? = 0 ORDER BY item"  # noqa: S608  (constants)
    found: list[tuple[int, bytes]] = db.rows(sql, db.ids(ids), dimension * 4)
    matrix = np.frombuffer(b"".join(blob for _, blob in found), np.float32).reshape(-1, dimension)
    ids_of = np.array([item for item, _ in found], np.int64)
    if len(ids_of) == len(matrix):
        return ids_of, matrix
    return np.repeat(ids_of, [len(blob) // (dimension * 4) for _, blob in found]), matrix


def nearest_parts(db: Connection, ns: int, query: Vector, ids: Sequence[int]) -> dict[int, Part]:
    """Of items with several vectors: the part of the text whose vector is nearest."""
    sql = (
        f"SELECT item, vector, spans, length({BODY}) FROM vectors JOIN items ON id = item "  # noqa: S608  (constants)
        f"WHERE +ns = ? AND item {db.any_id} AND length(vector) * ? = length(spans) * ?"
    )
    found: dict[int, Part] = {}
    dimension = len(query)
    for item, vector, spans, characters in db.rows(sql, ns, db.ids(ids), SPAN_BYTES, dimension * 4):
        windows = Windows(np.frombuffer(vector, np.float32).reshape(-1, dimension), unpacked(spans))
        found[item] = nearest_part(windows, query, characters)
    return found


def flawed(db: Connection) -> list[int]:
    """Items whose windows do not fit their texts."""
    sql = f"SELECT item, spans, length({BODY}) FROM vectors JOIN items ON id = item WHERE spans IS NOT NULL"  # noqa: S608  (constants)
    return [item for item, spans, characters in db.rows(sql) if flaw(unpacked(spans), characters) is not None]
