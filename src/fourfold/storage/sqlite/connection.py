"""One connection to the SQLite file (`storage.sql.dialect.Db`), and SQLite's errors in Fourfold's words."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import apsw

from fourfold.errors import (
    DamagedStore,
    FourfoldError,
    ReadOnlyStore,
    StorageFull,
    StoreBusy,
    StoreUnavailable,
)
from fourfold.filters import Test
from fourfold.limits import BUSY_SECONDS
from fourfold.model import Json
from fourfold.storage.codec import dumps
from fourfold.storage.sql.dialect import Condition, Db
from fourfold.storage.sql.reading import SIGNS, joined

WORLD = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.IOError,
    apsw.ProtocolError,
    apsw.ConnectionClosedError,
    json.JSONDecodeError,
    OSError,
)
"""Errors that are translated. Any other error of apsw is a bug of ours."""


@contextmanager
def translated(path: Path) -> Generator[None]:
    try:
        yield
    except WORLD as error:
        raise translate(error, path) from error


def translate(error: Exception, path: Path) -> FourfoldError:
    what = str(error) or type(error).__name__
    match error:
        case OSError(errno=errno.ENOSPC):
            return StorageFull(f"no space left for {error.filename or path}", "Free some space; what is stored is safe")
        case OSError(errno=errno.EROFS | errno.EACCES | errno.EPERM):
            return ReadOnlyStore(f"{error.filename or path} cannot be written", "Check the permissions of the folder")
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"another process has been using {path} for {BUSY_SECONDS:.0f} s", "Try again")
        case apsw.ConnectionClosedError():
            return StoreUnavailable(f"{path.parent} was closed", "Open it again")
        case apsw.FullError():
            return StorageFull(f"no space left for {path}", "Free some space; what was confirmed is safe")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return ReadOnlyStore(f"{path} cannot be written", "Check the permissions of the folder and its files")
        case apsw.CorruptError() | apsw.NotADBError() | json.JSONDecodeError():
            return DamagedStore(
                f"{path} is damaged ({what})",
                "Restore a backup into a new folder: fourfold --store FOLDER restore FILE",
            )
        case _:
            return StoreUnavailable(
                f"{path} cannot be used ({what})", "Check that the folder exists and can be written"
            )


class Connection(Db, apsw.Connection):
    any_id: ClassVar[str] = "IN (SELECT value FROM json_each(?))"
    any_text: ClassVar[str] = any_id
    any_digest: ClassVar[str] = "IN (SELECT unhex(value) FROM json_each(?))"
    any_tag: ClassVar[str] = f"tag IN (SELECT id FROM tags WHERE ns = ? AND folded {any_text})"  # noqa: S608  (constants)
    looks_up_sparse: ClassVar[bool] = True
    item_tags: ClassVar[str] = "(SELECT group_concat(name, char(0)) FROM item_tags WHERE item = items.id)"
    item_sources: ClassVar[str] = "(SELECT group_concat(raw ORDER BY position) FROM sources WHERE item = items.id)"
    mention_count: ClassVar[str] = "mentioned"
    metadata_keys: ClassVar[str] = "json_each(items.metadata) AS pair"
    ordered_join: ClassVar[str] = "CROSS JOIN"
    name_column: ClassVar[str] = "folded"
    any_name: ClassVar[str] = f"folded {any_text}"
    name_columns: ClassVar[Sequence[str]] = ("folded",)
    set_of = json.JSONEncoder(ensure_ascii=False).encode

    def digests(self, wanted: Iterable[bytes]) -> str:
        return json.dumps([each.hex() for each in wanted])

    def operand(self, value: Any, holds: str) -> tuple[str, Any]:
        return "?", number(value) if holds == "number" else value

    def glob_test(self, ns: int, name: str, globs: Sequence[str]) -> Condition:
        return f"({' OR '.join([f'{name} REGEXP ?'] * len(globs))})", tuple(globs)

    def metadata_test(self, test: Test) -> Condition:
        return metadata_test(test)

    def last_of_sequence(self, kind: str) -> int:
        return self.value("SELECT seq FROM sqlite_sequence WHERE name = ?", kind) or 0


# ---------------------------------------------------------------- filters: what differs from `storage.sql.reading`


def metadata_test(test: Test) -> Condition:
    """Walks down the keys; the value found, or one of its scalar elements, has to pass."""
    path = test.field.path
    tables = ["json_each(items.metadata) AS k0"]
    tables += [
        f"json_each(CASE k{step - 1}.type WHEN 'object' THEN k{step - 1}.value END) AS k{step}"
        for step in range(1, len(path))
    ]
    keys = " AND ".join(f"k{step}.key = ?" for step in range(len(path)))
    found, bindings = f"SELECT 1 FROM {', '.join(tables)} WHERE {keys}", tuple(path)  # noqa: S608  (our own clauses)
    if test.op == "exists":
        return f"EXISTS ({found})", bindings
    last = f"k{len(path) - 1}"
    whole = _value(test, last, [*_SCALARS, "json"])
    element = _value(test, "element", _SCALARS)
    elements = f"SELECT 1 FROM json_each(CASE {last}.type WHEN 'array' THEN {last}.value END) AS element WHERE"  # noqa: S608  (our own clauses)
    sql = f"EXISTS ({found} AND ({whole[0]} OR EXISTS ({elements} {element[0]})))"
    return sql, (*bindings, *whole[1], *element[1])


_TYPES: Final = {
    "null": "'null'",
    "true": "'true'",
    "false": "'false'",
    "number": "'integer', 'real'",
    "text": "'text'",
    "json": "'array', 'object'",
}
_SCALARS: Final = ("null", "true", "false", "number", "text")


def _value(test: Test, name: str, kinds: Iterable[str]) -> Condition:
    """Compares like with like: numbers with numbers, strings with strings, true with true."""
    wanted: dict[str, list[Any]] = {}
    for value in test.values:
        kind, operand = _operand(value)
        wanted.setdefault(kind, []).append(operand)
    parts: list[Condition] = []
    for kind in kinds:
        if kind not in wanted:
            continue
        operands = () if kind in ("null", "true", "false") else tuple(wanted[kind])
        sign = f"IN ({', '.join('?' * len(operands))})" if test.op == "in" else f"{SIGNS[test.op]} ?"
        compared = f" AND {name}.value {sign}" if operands else ""
        parts.append((f"({name}.type IN ({_TYPES[kind]}){compared})", operands))
    return joined(" OR ", parts or [("0", ())])


def _operand(data: Json) -> tuple[str, Any]:
    match data:
        case None:
            return "null", None
        case bool():
            return "true" if data else "false", None
        case int() | float():
            return "number", number(data)
        case str():
            return "text", data
        case _:
            return "json", dumps(data)


def number(number: int | float) -> int | float:
    """As SQLite has it: a real number beyond 64 bits."""
    if isinstance(number, float) or -(1 << 63) <= number < 1 << 63:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
