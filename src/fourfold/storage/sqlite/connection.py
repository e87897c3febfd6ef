"""One connection to the SQLite file, with the methods of `storage.sql.dialect.Db`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, cast

import apsw

from fourfold.scheduling import paced
from fourfold.storage.sql.dialect import possible, sendable


class Connection(apsw.Connection):
    any_id: ClassVar[str] = "IN (SELECT value FROM json_each(?))"
    any_text: ClassVar[str] = any_id

    name_column: ClassVar[str] = "folded"
    any_name: ClassVar[str] = f"folded {any_text}"
    name_columns: ClassVar[Sequence[str]] = ("folded",)

    def ids(self, wanted: Iterable[int]) -> str:
        return json.dumps(possible(wanted))

    def texts(self, wanted: Iterable[str]) -> str:
        return json.dumps(sendable(wanted), ensure_ascii=False)

    def name_key(self, folded: str) -> str:
        return folded

    def names(self, folded: Iterable[str]) -> str:
        return self.texts(folded)

    def name_values(self, folded: str) -> tuple[str]:
        return (folded,)

    def rows(self, sql: str, *bindings: Any) -> list[Any]:
        return cast("list[Any]", self.execute(sql, bindings).fetchall())

    def stream(self, sql: str, *bindings: Any) -> Iterator[Any]:
        return self.execute(sql, bindings)

    def column(self, sql: str, *bindings: Any) -> list[Any]:
        return [row[0] for row in self.execute(sql, bindings)]

    def value(self, sql: str, *bindings: Any) -> Any:
        found = self.rows(sql, *bindings)
        return found[0][0] if found else None

    def run(self, sql: str, *bindings: Any) -> int:
        self.execute(sql, bindings)
        return self.changes()

    def run_many(self, sql: str, bindings: Sequence[Sequence[Any]]) -> None:
        self.executemany(sql, paced(bindings))

    def insert(self, table: str, types: Sequence[str], rows: Sequence[Sequence[Any]], conflict: str = "") -> None:
        self.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(types))}) {conflict}", rows)  # noqa: S608  (our own clauses)

    def delete(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[int]]) -> None:
        self.executemany(f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = ?' for name in columns)}", rows)  # noqa: S608  (our own clauses)

    def last_of_sequence(self, kind: str) -> int:
        return self.value("SELECT seq FROM sqlite_sequence WHERE name = ?", kind) or 0
