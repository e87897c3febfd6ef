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
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import batches, marks, possible, rows

if TYPE_CHECKING:
    from fourfold.index.rows import Ints, Matrix
    from fourfold.model import Vector

BODY = "iif(text = '', title, text)"
"""What spans refer to."""


def put(db: Connection, ns: int, item: int, vector: Vector | Windows) -> None:
    remove(db, ns, item)
    spans = spans_of(vector)
    sql = "INSERT INTO vectors (item, vector, spans) VALUES (?, ?, ?)"
    db.execute(sql, (item, rows_of(vector).tobytes(), packed(spans)))
    db.execute("DELETE FROM waiting WHERE ns = ? AND item = ?", (ns, item))
    count(db, ns, 1, max(0, len(spans) - 1))


def drop(db: Connection, ns: int, item: int) -> None:
    """Removes the vectors of an item, which then waits for new ones."""
    remove(db, ns, item)
    db.execute("INSERT OR REPLACE INTO waiting (ns, item) VALUES (?, ?)", (ns, item))


def remove(db: Connection, ns: int, item: int) -> None:
    for (size,) in rows(db, "DELETE FROM vectors WHERE item = ? RETURNING length(spans)", item):
        count(db, ns, -1, -_windows(size))


def copy(db: Connection, ns: int, item: int, target: int) -> None:
    """Gives another item the same vectors."""
    sql = (
        "INSERT INTO vectors (item, vector, spans) SELECT ?1, vector, spans FROM vectors WHERE item = ?2 "
        "RETURNING length(spans)"
    )
    for (size,) in rows(db, sql, target, item):
        count(db, ns, 1, _windows(size))


def count(db: Connection, ns: int, items: int, windows: int = 0) -> None:
    """`windows`: vectors beyond the first of each item."""
    db.execute("UPDATE namespaces SET vectors = vectors + ?, windows = windows + ? WHERE id = ?", (items, windows, ns))


def _windows(size: int | None) -> int:
    return 0 if size is None else size // SPAN_BYTES - 1


def single(db: Connection, ids: Sequence[int], dimension: int) -> dict[int, Vector]:
    """The vectors of those of these items that have exactly one."""
    found: dict[int, Vector] = {}
    for part in batches(possible(ids)):
        sql = f"SELECT item, vector FROM vectors WHERE item IN ({marks(len(part))}) AND length(vector) = ?"  # noqa: S608  (placeholders)
        found |= {item: np.frombuffer(blob, np.float32) for item, blob in db.execute(sql, (*part, dimension * 4))}
    return found


def read(db: Connection, ids: Sequence[int], dimension: int) -> tuple[Ints, Matrix]:
    """The vectors of those of these items that have one, with their ids; those of an item are adjacent."""
    found: list[tuple[int, bytes]] = []
    for part in batches(ids):
        sql = (
            f"SELECT item, vector FROM vectors WHERE item IN ({marks(len(part))}) AND length(vector) % ? = 0 "  # noqa: S608  (placeholders)
            "ORDER BY item"
        )
        found.extend(db.execute(sql, (*part, dimension * 4)))
    matrix = np.frombuffer(b"".join(blob for _, blob in found), np.float32).reshape(-1, dimension)
    ids_of = np.array([item for item, _ in found], np.int64)
    if len(ids_of) == len(matrix):
        return ids_of, matrix
    return np.repeat(ids_of, [len(blob) // (dimension * 4) for _, blob in found]), matrix


def nearest_parts(db: Connection, ns: int, queries: Sequence[Vector], ids: Sequence[int]) -> dict[int, Part]:
    """Of items with several vectors: the part of the text whose vector is nearest."""
    found: dict[int, Part] = {}
    for part in batches(ids):
        sql = (
            f"SELECT item, vector, spans, length({BODY}) FROM vectors JOIN items ON id = item "  # noqa: S608  (placeholders)
            f"WHERE ns = ? AND item IN ({marks(len(part))}) AND length(vector) * ? = length(spans) * ?"
        )
        dimension = len(queries[0])
        for item, vector, spans, characters in rows(db, sql, ns, *part, SPAN_BYTES, dimension * 4):
            windows = Windows(np.frombuffer(vector, np.float32).reshape(-1, dimension), unpacked(spans))
            found[item] = nearest_part(windows, queries, characters)
    return found


def flawed(db: Connection) -> list[int]:
    """Items whose windows do not fit their texts."""
    sql = f"SELECT item, spans, length({BODY}) FROM vectors JOIN items ON id = item WHERE spans IS NOT NULL"  # noqa: S608  (constants)
    return [item for item, spans, characters in rows(db, sql) if flaw(unpacked(spans), characters) is not None]
