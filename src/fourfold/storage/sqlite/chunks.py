"""Rows of files and of their chunks. Every function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import rows
from fourfold.storage.values import FileRow, FileState
from fourfold.text.fold import fold

_OF_FILE = "WHERE ns = ? AND path = ? AND key IS NULL"
_CHUNKS = f"FROM items {_OF_FILE}"
_COLUMNS = "path, size, mtime_ns, digest, skipped"
_LAST = "\U0010ffff"
"""Sorts behind every path."""


class Chunks:
    """The rows that `chunk_matching` changes."""

    def __init__(self, db: Connection, ns: int) -> None:
        self._db, self._ns = db, ns

    def stored(self, path: str) -> list[tuple[int, int, str, str]]:
        sql = f"SELECT id, chunk_index, title, text {_CHUNKS} ORDER BY chunk_index"
        return rows(self._db, sql, self._ns, path)

    def set_path(self, source: str, target: str) -> None:
        self._db.execute(f"UPDATE items SET path = ? {_OF_FILE}", (target, self._ns, source))  # noqa: S608  (constants)

    def set_numbers(self, path: str, numbers: Mapping[int, int]) -> None:
        self._db.execute(f"UPDATE items SET chunk_index = -1 - chunk_index {_OF_FILE}", (self._ns, path))  # noqa: S608  (constants)
        sql = "UPDATE items SET chunk_index = ? WHERE id = ?"
        self._db.executemany(sql, ((number, item) for item, number in numbers.items()))

    def forget_state(self, path: str) -> None:
        forget_states(self._db, self._ns, [path])


def note(db: Connection, ns: int, state: FileState) -> None:
    name = fold(state.path.rpartition("/")[2])
    db.execute(f"INSERT OR REPLACE INTO files (ns, name, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", (ns, name, *state))  # noqa: S608  (constants)


def forget_states(db: Connection, ns: int, paths: Sequence[str]) -> None:
    db.executemany("DELETE FROM files WHERE ns = ? AND path = ?", ((ns, path) for path in paths))


def states(db: Connection, ns: int, prefix: str) -> dict[str, FileRow]:
    sql = f"SELECT {_COLUMNS} FROM files WHERE ns = ? AND path >= ? AND path < ? ORDER BY path"  # noqa: S608  (constants)
    return {row[0]: row for row in rows(db, sql, ns, prefix, prefix + _LAST)}


def ids(db: Connection, ns: int, path: str, first: int = 0, last: int = 1 << 62) -> list[int]:
    """Chunks of a file, in order."""
    sql = f"SELECT id {_CHUNKS} AND chunk_index BETWEEN ? AND ? ORDER BY chunk_index"
    return [item for (item,) in rows(db, sql, ns, path, first, last)]
