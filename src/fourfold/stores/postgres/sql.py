"""Talking to PostgreSQL: rows, values, and what may not be sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, LiteralString, TypeAlias, cast

from fourfold.limits import LARGEST_ID

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Db: TypeAlias = AsyncConnection[Any]
else:
    Db = Any

Statement: TypeAlias = tuple[Any, ...]
"""SQL and its bindings."""
Answer: TypeAlias = tuple[str, int, int, bytes]
"""What statements give that are asked together with the look for a namespace."""


UNPREPARED = "to_bm25query"
"""What has this in it is planned every time: pg_textsearch 1.0.0 notes the LIMIT when it plans, and whatever is planned
in between makes it forget that, so that a plan which is kept ranks everything."""


async def rows(db: Db, sql: str, *bindings: Any) -> list[Any]:
    """All rows, as tuples."""
    prepare = False if UNPREPARED in sql else None
    cursor = await db.execute(cast("LiteralString", sql), bindings or None, binary=True, prepare=prepare)
    return await cursor.fetchall()


async def together(db: Db, statements: Sequence[Statement]) -> list[list[Any]]:
    """The rows of several statements that have the same columns, asked as one: one way to the server and back.

    (A pipeline of psycopg saves the way, too, but takes several times as much work here.)
    """
    if len(statements) <= 1:
        return [await rows(db, *statement) for statement in statements]
    parts = (f"(SELECT {place}, q{place}.* FROM ({sql}) AS q{place})" for place, (sql, *_) in enumerate(statements))  # noqa: S608  (our own clauses)
    found: list[list[Any]] = [[] for _ in statements]
    for row in await rows(db, " UNION ALL ".join(parts), *chain(*(bindings for _, *bindings in statements))):
        found[row[0]].append(row[1:])
    return found


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


def possible(ids: Iterable[int]) -> list[int]:
    """Those that a store could have given."""
    return [number for number in ids if 0 < number <= LARGEST_ID]


def array(numbers: Iterable[int]) -> str:
    """What may be bound to a `bigint[]`; psycopg would look at every number of a list several times."""
    return f"{{{','.join(map(str, numbers))}}}"


def sendable(texts: Iterable[str]) -> list[str]:
    """Those that PostgreSQL could hold; it has none of the others."""
    return [text for text in texts if "\x00" not in text and _is_text(text)]


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def digest(text: str) -> bytes:
    """Stands for a text of any length in an index."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
