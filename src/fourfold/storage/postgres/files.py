"""Rows of files and of their chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.limits import CANDIDATES
from fourfold.storage.postgres.filters import Condition
from fourfold.storage.postgres.sql import Db, column, rows, run, run_many
from fourfold.storage.sql.dialect import sendable
from fourfold.storage.values import FileRow, FileState
from fourfold.text.fold import fold

_OF_FILE = "WHERE ns = %s AND path = %s AND key IS NULL"
_COLUMNS = "path, size, mtime_ns, digest, skipped"
_LAST = "\U0010ffff"
"""Sorts after every path."""


class Chunks:
    """The rows that `chunk_matching` changes."""

    def __init__(self, db: Db, ns: int) -> None:
        self._db, self._ns = db, ns

    def stored(self, path: str) -> list[tuple[int, int, str, str]]:
        sql = f"SELECT id, chunk_index, title, text FROM items {_OF_FILE} ORDER BY chunk_index"  # noqa: S608  (constants)
        return rows(self._db, sql, self._ns, path)

    def set_path(self, source: str, target: str) -> None:
        run(self._db, f"UPDATE items SET path = %s {_OF_FILE}", target, self._ns, source)  # noqa: S608  (constants)

    def set_numbers(self, path: str, numbers: Mapping[int, int]) -> None:
        run(self._db, f"UPDATE items SET chunk_index = -1 - chunk_index {_OF_FILE}", self._ns, path)  # noqa: S608  (constants)
        sql = "UPDATE items SET chunk_index = %s WHERE id = %s"
        run_many(self._db, sql, [(number, item) for item, number in numbers.items()])

    def forget_state(self, path: str) -> None:
        forget_states(self._db, self._ns, [path])


def put_states(db: Db, ns: int, states: Sequence[FileState]) -> None:
    run_many(
        db,
        f"INSERT INTO files (ns, name, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (ns, path) "  # noqa: S608  (constants)
        "DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns, digest = excluded.digest, "
        "skipped = excluded.skipped",
        [(ns, fold(state.path.rpartition("/")[2]), *state) for state in states],
    )


def forget_states(db: Db, ns: int, paths: Sequence[str]) -> None:
    run(db, "DELETE FROM files WHERE ns = %s AND path = ANY(%s)", ns, sendable(paths))


def states(db: Db, ns: int, prefix: str) -> dict[str, FileRow]:
    if not sendable([prefix]):
        return {}
    sql = f"SELECT {_COLUMNS} FROM files WHERE ns = %s AND path >= %s AND path < %s ORDER BY path"  # noqa: S608  (constants)
    return {row[0]: row for row in rows(db, sql, ns, prefix, prefix + _LAST)}


def chunk_ids(db: Db, ns: int, paths: Sequence[str], first: int = 0, last: int = 1 << 62) -> list[int]:
    """The chunks of files, in order."""
    sql = (
        "SELECT id FROM items WHERE ns = %s AND path = ANY(%s) AND key IS NULL "
        "AND chunk_index BETWEEN %s AND %s ORDER BY path, chunk_index"
    )
    return column(db, sql, ns, sendable(paths), first, last)


def named(db: Db, ns: int, names: Sequence[str], condition: Condition) -> list[tuple[int, str]]:
    passes, bindings = condition
    sql = (
        "SELECT items.id, items.path FROM files JOIN items ON items.ns = files.ns AND items.path = files.path "  # noqa: S608  (constants and our own clauses)
        f"WHERE files.ns = %s AND files.name = ANY(%s) AND items.key IS NULL{passes} "
        "ORDER BY items.path, items.chunk_index LIMIT %s"
    )
    return rows(db, sql, ns, sendable(names), *bindings, CANDIDATES)
