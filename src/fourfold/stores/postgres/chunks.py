"""Rows of files and of their chunks. Every function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.limits import CANDIDATES
from fourfold.stores.base import FileRow, FileState, FileUpdate
from fourfold.stores.chunks import continued
from fourfold.stores.postgres.filters import Condition
from fourfold.stores.postgres.spaces import BY_NAME, Namespace
from fourfold.stores.postgres.sql import Db, rows, run, run_many, sendable
from fourfold.text.fold import fold

_CHUNKS = "FROM items WHERE ns = %s AND path = %s AND key IS NULL"
_COLUMNS = "path, size, mtime_ns, digest, skipped"
_LAST = "\U0010ffff"
"""Sorts behind every path."""


async def renumber(db: Db, ns: int, file: FileUpdate) -> list[int]:
    """Gives the stored chunks of a file the path and the numbers that they go on under; those that are left over."""
    path, gone = file.state.path, list[int]()
    if file.moved_from is not None:
        gone = await _move(db, ns, file.moved_from, path)
    if file.chunks is None:
        return gone
    old = await rows(db, f"SELECT id, chunk_index, title, text {_CHUNKS} ORDER BY chunk_index", ns, path)
    kept, rest = continued([(item, title, text) for item, _, title, text in old], file.chunks)
    numbers = {item: number for number, item in enumerate(kept) if item is not None}
    if any(numbers.get(item) != number for item, number, *_ in old):
        sql = "UPDATE items SET chunk_index = -1 - chunk_index WHERE ns = %s AND path = %s AND key IS NULL"
        await run(db, sql, ns, path)
        sql = "UPDATE items SET chunk_index = %s WHERE id = %s"
        await run_many(db, sql, [(number, item) for item, number in numbers.items()])
    return gone + rest


async def _move(db: Db, ns: int, source: str, target: str) -> list[int]:
    """Items that have to go, since something is stored under the target already."""
    await forget_states(db, ns, [source])
    if await rows(db, f"SELECT 1 {_CHUNKS} LIMIT 1", ns, target):
        return await ids(db, ns, [source])
    await run(db, "UPDATE items SET path = %s WHERE ns = %s AND path = %s AND key IS NULL", target, ns, source)
    return []


async def note(db: Db, ns: int, states: Sequence[FileState]) -> None:
    await run_many(
        db,
        f"INSERT INTO files (ns, name, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (ns, path) "  # noqa: S608  (constants)
        "DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns, digest = excluded.digest, "
        "skipped = excluded.skipped",
        [(ns, fold(state.path.rpartition("/")[2]), *state) for state in states],
    )


async def forget_states(db: Db, ns: int, paths: Sequence[str]) -> None:
    await run(db, "DELETE FROM files WHERE ns = %s AND path = ANY(%s)", ns, sendable(paths))


async def states(db: Db, ns: Namespace, prefix: str) -> dict[str, FileRow]:
    if not sendable([prefix]):
        return {}
    sql = f"SELECT {_COLUMNS} FROM files WHERE ns = %s AND path >= %s AND path < %s ORDER BY path"  # noqa: S608  (constants)
    return {row[0]: row for row in await rows(db, sql, ns.id, prefix, prefix + _LAST)}


async def ids(db: Db, ns: int, paths: Sequence[str], first: int = 0, last: int = 1 << 62) -> list[int]:
    """Chunks of files, in order."""
    sql = (
        "SELECT id FROM items WHERE ns = %s AND path = ANY(%s) AND key IS NULL "
        "AND chunk_index BETWEEN %s AND %s ORDER BY path, chunk_index"
    )
    return [item for (item,) in await rows(db, sql, ns, sendable(paths), first, last)]


async def named(db: Db, namespace: str, names: Sequence[str], condition: Condition) -> list[tuple[int, str]]:
    passes, bindings = condition
    sql = (
        "SELECT items.id, items.path FROM files JOIN items ON items.ns = files.ns AND items.path = files.path "  # noqa: S608  (constants and our own clauses)
        f"WHERE files.ns = {BY_NAME} AND files.name = ANY(%s) AND items.key IS NULL{passes} "
        "ORDER BY items.path, items.chunk_index LIMIT %s"
    )
    return await rows(db, sql, namespace, sendable(names), *bindings, CANDIDATES)
