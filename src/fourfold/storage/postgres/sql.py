"""SQL statements on a connection: rows, values, and what PostgreSQL can store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import psycopg

from fourfold.storage.postgres.connection import Connection as Db

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


Statement: TypeAlias = tuple[Any, ...]
"""SQL and its bindings."""
Answer: TypeAlias = tuple[str, int, bytes]
"""A row of the statements that a keyword or vector search sends together."""


def together(db: Db, statements: Sequence[Statement]) -> list[list[Any]]:
    """The rows of several statements that have the same columns, in one round trip.

    (A pipeline of psycopg needs one round trip, too, but several times the CPU time.)
    """
    if len(statements) <= 1:
        return [db.rows(*statement) for statement in statements]
    parts = (f"(SELECT {place}, q{place}.* FROM ({sql}) AS q{place})" for place, (sql, *_) in enumerate(statements))  # noqa: S608  (our own clauses)
    found: list[list[Any]] = [[] for _ in statements]
    for row in db.rows(" UNION ALL ".join(parts), *chain(*(bindings for _, *bindings in statements))):
        found[row[0]].append(row[1:])
    return found


def copy_rows(db: Db, table: str, data: Iterable[bytes]) -> None:
    """Adds rows to a table, each in the binary format of COPY."""
    try:
        with db.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)".encode()) as copy:
            copy.write(b"".join([b"PGCOPY\n\xff\r\n\x00", bytes(8), *data, b"\xff\xff"]))
    except psycopg.Error as error:
        raise db.failure(error) from error


def array(numbers: Iterable[int]) -> str:
    """The text form of a `bigint[]`: psycopg inspects every element of a list several times."""
    return f"{{{','.join(map(str, numbers))}}}"


# ---------------------------------------------------------------- many rows in one
#
# A server sends row by row, and a client that receives many small messages spends its time waiting. Proposed and
# scored rows therefore come as one row: numbers, lengths, and one long content, which needs no loop here, either.


_HEAD = np.dtype([("first", ">i8"), ("second", ">i8"), ("length", ">i4")])


@dataclass(frozen=True, slots=True)
class Packed:
    first: Ints
    """The selected number of each row, such as its item."""
    second: Ints
    lengths: Ints
    """Bytes of each row in `content`."""
    content: memoryview

    @staticmethod
    def read(answer: Answer) -> Packed:
        _, count, content = answer
        heads = np.frombuffer(content, _HEAD, count)
        first, second, lengths = (heads[name].astype(np.int64) for name in ("first", "second", "length"))
        return Packed(first, second, lengths, memoryview(content)[count * _HEAD.itemsize :])

    def __iter__(self) -> Iterator[tuple[int, int, memoryview]]:
        start = 0
        for first, second, length in zip(self.first.tolist(), self.second.tolist(), self.lengths.tolist(), strict=True):
            yield first, second, self.content[start : start + length]
            start += length


def packed(statement: Statement, content: str, *, first: str = "item", second: str = "0::bigint") -> Statement:
    """One row for all of a statement's: expressions over its columns."""
    sql, *bindings = statement
    head = f"int8send({first}) || int8send({second}) || int4send(octet_length({content}))"
    return (
        f"SELECT NULL::text, count(*), coalesce(string_agg({head}, ''), '') || "  # noqa: S608  (our own clauses)
        f"coalesce(string_agg({content}, ''), '') FROM ({sql}) AS found",
        *bindings,
    )
