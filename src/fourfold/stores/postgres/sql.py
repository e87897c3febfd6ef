"""Talking to PostgreSQL: rows, values, and what may not be sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, LiteralString, TypeAlias, cast

from fourfold.limits import LARGEST_ID

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Db: TypeAlias = AsyncConnection[Any]
else:
    Db = Any

Statement: TypeAlias = tuple[Any, ...]
"""SQL and its bindings."""


async def rows(db: Db, sql: str, *bindings: Any) -> list[Any]:
    """All rows, as tuples."""
    cursor = await db.execute(cast("LiteralString", sql), bindings or None, binary=True)
    return await cursor.fetchall()


async def together(db: Db, statements: Sequence[Statement]) -> list[list[Any]]:
    """The rows of several statements, which are sent at once: one way to the server and back."""
    if len(statements) <= 1:
        return [await rows(db, *statement) for statement in statements]
    async with db.pipeline():
        cursors = [
            await db.execute(cast("LiteralString", sql), bindings or None, binary=True) for sql, *bindings in statements
        ]
        return [await cursor.fetchall() for cursor in cursors]


async def value(db: Db, sql: str, *bindings: Any) -> Any:
    """The first column of the first row, or None."""
    found = await rows(db, sql, *bindings)
    return found[0][0] if found else None


async def run(db: Db, sql: str, *bindings: Any) -> int:
    """Executes a statement; how many rows it changed."""
    cursor = await db.execute(cast("LiteralString", sql), bindings or None)
    return cursor.rowcount


async def run_many(db: Db, sql: str, bindings: Sequence[Sequence[Any]]) -> None:
    """The same statement for many rows, sent without waiting for each."""
    if bindings:
        async with db.cursor() as cursor:
            await cursor.executemany(cast("LiteralString", sql), bindings)


async def new_ids(db: Db, sequence: str, count: int) -> list[int]:
    found = await rows(db, f"SELECT nextval('{sequence}') FROM generate_series(1, %s)", count) if count else []
    return sorted(number for (number,) in found)


def possible(ids: Iterable[int]) -> list[int]:
    """Those that a store could have given."""
    return [number for number in ids if 0 < number <= LARGEST_ID]


def sendable(texts: Iterable[str]) -> list[str]:
    """Those that PostgreSQL could hold; it has none of the others."""
    return [text for text in texts if "\x00" not in text and _is_text(text)]


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def digest(text: str) -> bytes:
    """Stands for a text of any length in an index."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
