"""Rows of files and of their chunks. Every function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.storage.sql.dialect import LAST_TEXT, Db, sendable
from fourfold.storage.values import FileRow, FileState
from fourfold.text.fold import fold

_OF_FILE = "WHERE ns = ? AND path = ? AND key IS NULL"
_COLUMNS = "path, size, mtime_ns, digest, skipped"


class Chunks:
    """The rows that `chunk_matching` changes."""

    def __init__(self, db: Db, ns: int) -> None:
        self._db, self._ns = db, ns

    def stored(self, path: str) -> list[tuple[int, int, str, str]]:
        sql = f"SELECT id, chunk_index, title, text FROM items {_OF_FILE} ORDER BY chunk_index"  # noqa: S608  (constants)
        return self._db.rows(sql, self._ns, path)

    def set_path(self, source: str, target: str) -> None:
        self._db.run(f"UPDATE items SET path = ? {_OF_FILE}", target, self._ns, source)  # noqa: S608  (constants)

    def set_numbers(self, path: str, numbers: Mapping[int, int]) -> None:
        self._db.run(f"UPDATE items SET chunk_index = -1 - chunk_index {_OF_FILE}", self._ns, path)  # noqa: S608  (constants)
        sql = "UPDATE items SET chunk_index = ? WHERE id = ?"
        self._db.run_many(sql, [(number, item) for item, number in numbers.items()])

    def forget_state(self, path: str) -> None:
        forget_states(self._db, self._ns, [path])


def put_states(db: Db, ns: int, states: Sequence[FileState]) -> None:
    db.run_many(
        f"INSERT INTO files (ns, name, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (ns, path) "  # noqa: S608  (constants)
        "DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns, digest = excluded.digest, "
        "skipped = excluded.skipped",
        [(ns, fold(state.path.rpartition("/")[2]), *state) for state in states],
    )


def forget_states(db: Db, ns: int, paths: Sequence[str]) -> None:
    db.run(f"DELETE FROM files WHERE ns = ? AND path {db.any_text}", ns, db.texts(paths))  # noqa: S608  (constants)


def states(db: Db, ns: int, prefix: str) -> dict[str, FileRow]:
    if not sendable([prefix]):
        return {}
    sql = f"SELECT {_COLUMNS} FROM files WHERE ns = ? AND path >= ? AND path < ? ORDER BY path"  # noqa: S608  (constants)
    return {row[0]: row for row in db.rows(sql, ns, prefix, prefix + LAST_TEXT)}


def chunk_ids(db: Db, ns: int, paths: Sequence[str], first: int = 0, last: int = 1 << 62) -> list[int]:
    """The chunks of files, in order."""
    sql = (
        f"SELECT id FROM items WHERE ns = ? AND path {db.any_text} AND key IS NULL "  # noqa: S608  (constants)
        "AND chunk_index BETWEEN ? AND ? ORDER BY path, chunk_index"
    )
    return db.column(sql, ns, db.texts(paths), first, last)
