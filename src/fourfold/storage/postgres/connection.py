"""One connection, with the methods of `storage.sql.dialect.Db`.

Every wait has a deadline, and errors of the server become errors of Fourfold.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString, TypeAlias, TypeVar, cast

import numpy as np
import psycopg
from psycopg import errors
from psycopg.abc import Params, PQGen, Query

from fourfold import limits
from fourfold.errors import (
    DamagedStore,
    FourfoldError,
    InvalidItem,
    InvalidSetting,
    ReadOnlyStore,
    StorageFull,
    StoreBusy,
    StoreUnavailable,
    TimedOut,
)
from fourfold.filters import Test
from fourfold.model import Json
from fourfold.storage.sql.dialect import LAST_TEXT, Condition, Db, digest, dumps
from fourfold.storage.sql.reading import SIGNS, joined
from fourfold.storage.values import Deadline
from fourfold.text.globs import literal_prefix, matches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

T = TypeVar("T")

GRACE_SECONDS = 1.0
"""The server's own timeout gets this much time before the client gives up: then the connection stays usable."""
_WAIT_SECONDS = 0.1
"""How often a wait looks at its deadline."""
_CANCEL_SECONDS = 1.0


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time. The connection is closed."""


class Connection(Db, psycopg.Connection[Any]):
    """Ends every wait for the server, even if that hangs."""

    shown = "the server"
    """The address of the store in error messages."""
    deadline = Deadline()
    """The deadline of a read. Each single wait ends after READ_SECONDS in any case."""
    wait_seconds: float | None = None
    """Replaces READ_SECONDS."""

    any_id: ClassVar[str] = "= ANY(?::bigint[])"
    any_text: ClassVar[str] = "= ANY(?::text[])"
    any_digest: ClassVar[str] = "= ANY(?::bytea[])"
    any_tag: ClassVar[str] = f"ns = ? AND folded {any_text}"
    collation: ClassVar[str] = ' COLLATE "C"'
    item_tags: ClassVar[str] = "ARRAY(SELECT name FROM item_tags WHERE item = items.id ORDER BY folded)"
    item_sources: ClassVar[str] = "ARRAY(SELECT raw FROM sources WHERE item = items.id ORDER BY position)"
    mention_count: ClassVar[str] = "(SELECT count(*) FROM mentions WHERE node = nodes.id)"
    metadata_keys: ClassVar[str] = "jsonb_object_keys(items.facts) AS pair(key)"
    name_column: ClassVar[str] = "digest"
    any_name: ClassVar[str] = "digest = ANY(?::bytea[])"
    name_columns: ClassVar[Sequence[str]] = ("digest", "opening", "folded")
    id_set = list
    text_set = list
    digests = list

    def name_key(self, folded: str) -> bytes:
        return digest(folded)

    def names(self, folded: Iterable[str]) -> list[bytes]:
        return [digest(name) for name in folded]

    def name_values(self, folded: str) -> tuple[bytes, bytes, str]:
        opening = " ".join(folded.split(" ", 2)[:2])  # its only word, or its first two: texts are selected by them
        return digest(folded), digest(opening), folded

    def operand(self, value: Any, holds: str) -> tuple[str, Any]:
        """Numbers as text: their digits are what the server compares, whatever type the driver would give them."""
        if holds == "number":
            return "?::numeric", dumps(_fact(value))
        return ("?::bigint", value) if holds == "time" else ("?::text", _without_nul(value))

    def glob_test(self, ns: int, name: str, globs: Sequence[str]) -> Condition:
        """The paths that match are selected here: a glob means the same on every store."""
        paths: set[str] = set()
        sql = "SELECT DISTINCT path FROM items WHERE ns = ? AND path >= ? AND path <= ?"
        for glob in globs:
            start = literal_prefix(glob)
            paths.update(path for path in self.column(sql, ns, start, start + LAST_TEXT) if matches(glob, path))
        return f"{name} = ANY(?::text[])", (sorted(paths),)

    def metadata_test(self, test: Test) -> Condition:
        """Compares like with like: numbers with numbers, strings with strings, true with true."""
        path = [_without_nul(key) for key in test.field.path]
        if test.op == "in":
            wanted = [form for value in test.values for form in _contained(path, value)]
            return joined(" OR ", [("items.facts @> ?::jsonb", (json.dumps(form),)) for form in wanted])
        place = "strict $" + "[1]".join(f".{json.dumps(key)}" for key in path)
        if test.op == "exists":
            return "jsonb_path_exists(items.facts, ?::jsonpath, '{}', true)", (place,)
        compared = f"? (@ {SIGNS[test.op]} $bound)"
        bound = json.dumps({"bound": _fact(test.values[0])})
        sql = "jsonb_path_exists(items.facts, ?::jsonpath, ?::jsonb, true)"
        return joined(" OR ", [(sql, (f"{place} {compared}", bound)), (sql, (f"{place}[1][*] {compared}", bound))])

    def execute(
        self,
        query: Query,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool = True,
    ) -> psycopg.Cursor[Any]:
        sql = _with_placeholders(query, bool(params)) if isinstance(query, str) else query
        try:
            return super().execute(sql, params or None, prepare=prepare, binary=binary)
        except psycopg.Error as error:
            raise self.failure(error) from error

    def run(self, sql: str, *bindings: Any) -> int:
        return self.execute(cast("LiteralString", sql), bindings, binary=False).rowcount

    def run_many(self, sql: str, bindings: Sequence[Sequence[Any]]) -> None:
        if not bindings:
            return
        try:
            with self.cursor() as cursor:
                cursor.executemany(_with_placeholders(sql, True), bindings)
        except psycopg.Error as error:
            raise self.failure(error) from error

    def insert(self, table: str, types: Sequence[str], rows: Sequence[Sequence[Any]], conflict: str = "") -> None:
        if rows:
            columns = ", ".join(f"?::{each}[]" for each in types)
            sql = f"INSERT INTO {table} SELECT * FROM unnest({columns}) {conflict}"  # noqa: S608  (our own clauses)
            self.run(sql, *map(list, zip(*rows, strict=True)))

    def delete(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[int]]) -> None:
        if rows:
            bound = ", ".join("?::bigint[]" for _ in columns)
            gone = f"unnest({bound}) AS gone ({', '.join(columns)})"
            same = " AND ".join(f"{table}.{name} = gone.{name}" for name in columns)
            self.run(f"DELETE FROM {table} USING {gone} WHERE {same}", *map(list, zip(*rows, strict=True)))  # noqa: S608  (our own clauses)

    def wait(self, gen: PQGen[T], interval: float = _WAIT_SECONDS, timeout: float | None = None) -> T:
        seconds = timeout if timeout is not None else self.wait_seconds
        if seconds is None:
            seconds = limits.READ_SECONDS + GRACE_SECONDS
        now = time.monotonic()
        until = min(self.deadline.until, now + seconds)
        return super().wait(self._until(until, gen), max(0.001, min(interval, until - now)))

    def _until(self, deadline: float, gen: PQGen[T]) -> PQGen[T]:
        """Runs the generator. psycopg resumes it at every interval, also while the server is silent."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() >= deadline:
                    with suppress(psycopg.Error):  # a server that hangs does not accept a cancellation, either
                        self.cancel_safe(timeout=_CANCEL_SECONDS)
                    self.close()
                    raise NoAnswer("the server does not answer")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value

    def failure(self, error: psycopg.Error) -> Exception:
        """The error to raise instead of one of psycopg's, which stays itself if it can only be a bug of ours."""
        if isinstance(error, NoAnswer) and self.deadline.until < math.inf:
            return _too_slow(self.shown)
        return translated(error, self.shown) or error


@lru_cache(1000)
def _with_placeholders(sql: str, are_bound: bool) -> LiteralString:
    """A statement as psycopg expects it: without bindings, it takes every character as it is."""
    return cast("LiteralString", sql.replace("%", "%%").replace("?", "%s") if are_bound else sql)


def _too_slow(where: str) -> TimedOut:
    return TimedOut(f"{where} did not answer in time", "Ask for less, or try again")


def translated(error: psycopg.Error, where: str) -> FourfoldError | None:
    """The server's error in Fourfold's words; None for an error that can only be a bug of ours."""
    what = str(error).strip().partition("\n")[0]
    match error:
        case errors.DiskFull() | errors.OutOfMemory():
            return StorageFull(f"the server of {where} has no space left", "Free some; what was confirmed is safe")
        case errors.QueryCanceled():
            return _too_slow(where)
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return StoreBusy(f"another client has been writing to {where} for too long", "Try again")
        case errors.TooManyConnections() | errors.ConfigurationLimitExceeded():
            return _crowded(where)
        case errors.ReadOnlySqlTransaction() | errors.InsufficientPrivilege():
            return ReadOnlyStore(f"{where} cannot be written ({what})", "Grant the rights that docs/postgres.md lists")
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification() | errors.InvalidCatalogName():
            return StoreUnavailable(f"{where} refuses the connection ({what})", "Check user, password and database")
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return DamagedStore(f"{where} is damaged ({what})", "Restore a backup of the server")
        case errors.ProgramLimitExceeded():
            return InvalidItem(f"the server cannot index that ({what})", "Shorten names and tags")
        case errors.UndefinedFile() | errors.UndefinedObject() | errors.FeatureNotSupported():
            return InvalidSetting(f"the server of {where} lacks something ({what})", "Install pgvector 0.8 or newer")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            full = ("too many clients", "remaining connection slots", "too many connections")
            return _crowded(where) if any(part in what for part in full) else gone(error, where)
        case _:
            return None


def _crowded(where: str) -> StoreBusy:
    return StoreBusy(f"{where} accepts no more connections", "Close other clients, or raise max_connections")


def gone(error: Exception, where: str) -> StoreUnavailable:
    what = str(error).strip().partition("\n")[0] or type(error).__name__
    return StoreUnavailable(
        f"{where} cannot be reached ({what})",
        "Check that the server runs; what was not confirmed may or may not be stored, and can be stored again",
    )


# ---------------------------------------------------------------- filters: metadata as they are stored for comparing


def facts(metadata: Json) -> str:
    """Metadata as jsonb that answers every test of equality by containment, and holds no NUL, which jsonb lacks.

    A scalar stands for itself, a map is [its JSON text, {its facts}], a list [its JSON text, [its scalars]].
    """
    return json.dumps(_facts(metadata))


def _facts(members: Mapping[str, Json]) -> dict[str, Json]:
    return {_without_nul(key): _fact(data) for key, data in members.items()}


def _fact(data: Json) -> Json:
    match data:
        case Mapping():
            return [_without_nul(dumps(data)), _facts(cast("Mapping[str, Json]", data))]
        case list() | tuple():
            elements = cast("Sequence[Json]", data)
            scalars = [_fact(value) for value in elements if not isinstance(value, list | tuple | Mapping)]
            return [_without_nul(dumps(data)), scalars]
        case float() if data.is_integer():
            return int(data)  # its repr may show another number than the equal int
        case _:
            return _without_nul(data)


def _without_nul(data: Json) -> Json:
    return data.replace("\x00", "\ufffd").replace("\\u0000", "\ufffd") if isinstance(data, str) else data


def _contained(path: Sequence[str], value: Json) -> list[Json]:
    """What the facts of an item contain if the value at the path, or one of its elements, equals this one."""
    if isinstance(value, list | tuple | Mapping):
        forms: list[Json] = [_fact(value)[:1]]
    else:
        forms = [_fact(value), [[_fact(value)]]]
    for key in reversed(path[1:]):
        forms = [[{key: form}] for form in forms]
    return [{path[0]: form} for form in forms]


# ---------------------------------------------------------------- statements

Statement: TypeAlias = tuple[Any, ...]
"""SQL and its bindings."""
Answer: TypeAlias = tuple[str, int, bytes]
"""A row of the statements that a keyword or vector search sends together."""


def together(db: Connection, statements: Sequence[Statement]) -> list[list[Any]]:
    """The rows of several statements that have the same columns, in one round trip.

    (A pipeline of psycopg needs one round trip, too, but several times the CPU time.)
    """
    if len(statements) <= 1:
        return [db.rows(*statement) for statement in statements]
    parts = (f"(SELECT {place}, q{place}.* FROM ({sql}) AS q{place})" for place, (sql, *_) in enumerate(statements))  # noqa: S608  (our own clauses)
    answers: list[list[Any]] = [[] for _ in statements]
    for row in db.rows(" UNION ALL ".join(parts), *chain(*(bindings for _, *bindings in statements))):
        answers[row[0]].append(row[1:])
    return answers


def copy_rows(db: Connection, table: str, data: Iterable[bytes]) -> None:
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
