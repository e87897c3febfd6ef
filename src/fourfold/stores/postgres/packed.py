"""Many rows in one: a server sends row by row, and a client that waits for each of many pieces does little else.

What is proposed or scored comes as one row: numbers, lengths, and one long content. It needs no loop here, either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fourfold.stores.postgres.sql import Answer, Statement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_HEAD = np.dtype([("first", ">i8"), ("second", ">i8"), ("length", ">i4")])


@dataclass(frozen=True, slots=True)
class Packed:
    first: Ints
    """Of each row: its item, or whatever was asked for."""
    second: Ints
    lengths: Ints
    """Bytes of each row in `content`."""
    content: memoryview
    proposed: int
    """Rows that there were before some were left out."""
    note: str

    @staticmethod
    def read(answer: Answer) -> Packed:
        note, count, proposed, content = answer
        heads = np.frombuffer(content, _HEAD, count)
        first, second, lengths = (heads[name].astype(np.int64) for name in ("first", "second", "length"))
        return Packed(first, second, lengths, memoryview(content)[count * _HEAD.itemsize :], proposed, note)

    def __iter__(self) -> Iterator[tuple[int, int, memoryview]]:
        start = 0
        for first, second, length in zip(self.first.tolist(), self.second.tolist(), self.lengths.tolist(), strict=True):
            yield first, second, self.content[start : start + length]
            start += length


def packed(
    statement: Statement,
    content: str,
    *,
    first: str = "item",
    second: str = "0::bigint",
    kept: str = "true",
    note: str = "NULL::text",
) -> Statement:
    """One row for all of a statement's: expressions over its columns. `note`: an aggregate; `kept`: which to send."""
    sql, *bindings = statement
    kept = "" if kept == "true" else f" FILTER (WHERE {kept})"
    head = f"int8send({first}) || int8send({second}) || int4send(octet_length({content}))"
    return (
        f"SELECT {note}, count(*){kept}, count(*), coalesce(string_agg({head}, ''){kept}, '') || "  # noqa: S608  (our own clauses)
        f"coalesce(string_agg({content}, ''){kept}, '') FROM ({sql}) AS found",
        *bindings,
    )
