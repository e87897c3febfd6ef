"""Rows of files and of their chunks. Every function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from fourfold.limits import CANDIDATES
from fourfold.model import Filters
from fourfold.stores.base import FileRow, FileState, FileUpdate
from fourfold.stores.chunks import continued
from fourfold.stores.sqlite.database import rows
from fourfold.stores.sqlite.filters import where
from fourfold.stores.sqlite.items import batches, marks
from fourfold.text.fold import fold

_CHUNKS = "FROM items WHERE ns = ? AND path = ? AND key IS NULL"
_COLUMNS = "path, size, mtime_ns, digest, skipped"
_LAST = "\U0010ffff"
"""Sorts behind every path."""


def renumber(db: apsw.Connection, ns: int, file: FileUpdate) -> list[int]:
    """Gives the stored chunks of a file the path and the numbers that they go on under; those that are left over."""
    path, gone = file.state.path, list[int]()
    if file.moved_from is not None:
        gone = _move(db, ns, file.moved_from, path)
    if file.chunks is None:
        return gone
    old = rows(db, f"SELECT id, chunk_index, title, text {_CHUNKS} ORDER BY chunk_index", ns, path)
    kept, rest = continued([(item, title, text) for item, _, title, text in old], file.chunks)
    numbers = {item: number for number, item in enumerate(kept) if item is not None}
    if any(numbers.get(item) != number for item, number, *_ in old):
        db.execute(
            "UPDATE items SET chunk_index = -1 - chunk_index WHERE ns = ? AND path = ? AND key IS NULL", (ns, path)
        )
        db.executemany("UPDATE items SET chunk_index = ? WHERE id = ?", ((n, item) for item, n in numbers.items()))
    return gone + rest


def _move(db: apsw.Connection, ns: int, source: str, target: str) -> list[int]:
    """Items that have to go, since something is stored under the target already."""
    db.execute("DELETE FROM files WHERE ns = ? AND path = ?", (ns, source))
    if rows(db, f"SELECT 1 {_CHUNKS} LIMIT 1", ns, target):
        return ids(db, ns, source)
    db.execute("UPDATE items SET path = ? WHERE ns = ? AND path = ? AND key IS NULL", (target, ns, source))
    return []


def note(db: apsw.Connection, ns: int, state: FileState) -> None:
    name = fold(state.path.rpartition("/")[2])
    db.execute(f"INSERT OR REPLACE INTO files (ns, name, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", (ns, name, *state))  # noqa: S608  (constants)


def forget_states(db: apsw.Connection, ns: int, paths: Sequence[str]) -> None:
    db.executemany("DELETE FROM files WHERE ns = ? AND path = ?", ((ns, path) for path in paths))


def states(db: apsw.Connection, ns: int, prefix: str) -> dict[str, FileRow]:
    sql = f"SELECT {_COLUMNS} FROM files WHERE ns = ? AND path >= ? AND path < ? ORDER BY path"  # noqa: S608  (constants)
    return {row[0]: row for row in rows(db, sql, ns, prefix, prefix + _LAST)}


def ids(db: apsw.Connection, ns: int, path: str, first: int = 0, last: int = 1 << 62) -> list[int]:
    """Chunks of a file, in order."""
    sql = f"SELECT id {_CHUNKS} AND chunk_index BETWEEN ? AND ? ORDER BY chunk_index"
    return [item for (item,) in rows(db, sql, ns, path, first, last)]


def named(db: apsw.Connection, ns: int, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
    condition, bindings = where(filters, ns)
    found: list[tuple[int, str]] = []
    for part in batches(names):
        sql = (
            "SELECT items.id, items.path FROM files CROSS JOIN items "  # noqa: S608  (our own clauses and placeholders)
            "ON items.ns = files.ns AND items.path = files.path "
            f"WHERE files.ns = ? AND files.name IN ({marks(len(part))}) AND items.key IS NULL{condition} "
            "ORDER BY items.path, items.chunk_index LIMIT ?"
        )
        found += rows(db, sql, ns, *part, *bindings, CANDIDATES)
    return sorted(found, key=lambda row: row[1])[:CANDIDATES]
