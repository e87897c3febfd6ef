"""A connection to either database, as the row code uses it, and values as every store writes them.

Statements have a `?` for each binding. JSON has sorted keys, times are microseconds since 1970, UTC.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

from fourfold.filters import Test
from fourfold.limits import LARGEST_ID
from fourfold.model import Json
from fourfold.scheduling import paced

Condition: TypeAlias = tuple[str, tuple[Any, ...]]
"""A condition in SQL, and its bindings."""
BODY: Final = "CASE WHEN text = '' THEN title ELSE text END"
"""What the spans of windows refer to."""
LAST_TEXT: Final = "\U0010ffff"
"""Sorts behind every text that begins otherwise."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAGE_WEIGHT: Final = 8_000_000
"""Bytes or characters of text that are held in memory together."""
_PACED_ROWS = 100
"""A step over fewer rows needs no pauses for searches."""

T = TypeVar("T")


class Db(ABC):
    """A connection inside a transaction. Errors of the database are raised as errors of Fourfold.

    The methods below do what a database in this process needs, where a statement costs no round trip.
    """

    any_id: ClassVar[str]
    """Follows a column in a condition: its value is one of `ids`, which are bound to the one `?` of this."""
    any_text: ClassVar[str]
    """The same for `texts`."""
    any_digest: ClassVar[str]
    """The same for `digests`."""
    any_tag: ClassVar[str]
    """A condition on `item_tags`, to which a namespace and `texts` are bound: the tag is one of these, folded."""
    collation: ClassVar[str] = ""
    """Follows a column of texts that is compared."""
    looks_up_sparse: ClassVar[bool] = False
    """Whether the database has to be told to begin with the items that have a sparse column."""
    item_tags: ClassVar[str]
    """The tags of a row of `items`, as a list or joined by NUL, which no tag contains."""
    item_sources: ClassVar[str]
    """Its raw records, as a list or joined by commas."""
    mention_count: ClassVar[str]
    """The number of items that mention a row of `nodes`."""
    metadata_keys: ClassVar[str]
    """A table `pair` with a row for each `key` of the metadata of a row of `items`."""
    ordered_join: ClassVar[str] = "JOIN"
    """JOIN, from the left to the right if the database does not know better itself."""
    name_column: ClassVar[str]
    """The column of `nodes` and `names` by which a name in normal form is found: PostgreSQL cannot index long texts."""
    any_name: ClassVar[str]
    """A condition: the column has one of `names`, which are bound to the one `?` of this."""
    name_columns: ClassVar[Sequence[str]]
    """All columns of `names` that follow from a name in normal form."""
    id_set: Callable[[list[int]], Any]
    """The binding of several numbers."""
    text_set: Callable[[list[str]], Any]
    digests: Callable[[list[bytes]], Any]
    """The binding of hashes."""
    execute: Any
    executemany: Any
    changes: Any

    # ------------------------------------------------------------ bindings

    def ids(self, wanted: Iterable[int]) -> Any:
        """The binding of those numbers that a store could have assigned."""
        return self.id_set(possible(wanted))

    def texts(self, wanted: Iterable[str]) -> Any:
        """The binding of those texts that a store can hold; the others cannot match anything."""
        return self.text_set(sendable(wanted))

    def name_key(self, folded: str) -> Any:
        """The value of `name_column`."""
        return folded

    def names(self, folded: Iterable[str]) -> Any:
        """The binding of names in normal form."""
        return self.texts(folded)

    def name_values(self, folded: str) -> Sequence[Any]:
        """The values of `name_columns`."""
        return (folded,)

    @abstractmethod
    def operand(self, value: Any, holds: str) -> tuple[str, Any]:
        """The placeholder and the binding of a value that a column is compared with; `holds`: see `fields.Column`."""

    @abstractmethod
    def glob_test(self, ns: int, name: str, globs: Sequence[str]) -> Condition:
        """Whether a column of paths matches one of the globs."""

    @abstractmethod
    def metadata_test(self, test: Test) -> Condition: ...

    # ------------------------------------------------------------ statements

    def rows(self, sql: str, *bindings: Any) -> list[Any]:
        """All rows, as tuples."""
        return self.execute(sql, bindings).fetchall()

    def stream(self, sql: str, *bindings: Any) -> Iterator[Any]:
        """The same, not all of them in memory at once if the database can do that."""
        return iter(self.execute(sql, bindings))

    def column(self, sql: str, *bindings: Any) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in self.execute(sql, bindings).fetchall()]

    def value(self, sql: str, *bindings: Any) -> Any:
        """The first column of the first row, or None."""
        rows = self.execute(sql, bindings).fetchall()
        return rows[0][0] if rows else None

    def run(self, sql: str, *bindings: Any) -> int:
        """Executes a statement; returns how many rows it changed."""
        self.execute(sql, bindings)
        return self.changes()

    def run_many(self, sql: str, bindings: Sequence[Sequence[Any]]) -> None:
        """Executes a statement for many rows, without a round trip for each."""
        if bindings:
            self.executemany(sql, paced_rows(bindings))

    def insert(self, table: str, types: Sequence[str], rows: Sequence[Sequence[Any]], conflict: str = "") -> None:
        """Inserts rows by one statement if the database can do that, so that its triggers run once.

        `types`: those of the columns on PostgreSQL; `conflict`: a clause ON CONFLICT.
        """
        self.run_many(f"INSERT INTO {table} VALUES ({', '.join('?' * len(types))}) {conflict}", rows)  # noqa: S608  (our own clauses)

    def delete(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[int]]) -> None:
        """Deletes the rows that have these ids in these columns, by one statement if the database can do that."""
        self.run_many(f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = ?' for name in columns)}", rows)  # noqa: S608  (our own clauses)


def possible(ids: Iterable[int]) -> list[int]:
    """The ids that a store could have assigned."""
    return [number for number in ids if 0 < number <= LARGEST_ID]


def pages(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(rows)
    while page := list(islice(rest, size)):
        yield page


def light_pages(rows: Iterable[T], size: int, weight: Callable[[T], int]) -> Iterator[list[T]]:
    """Lists of at most `size` rows; one ends earlier with the row that brings its weight to _PAGE_WEIGHT."""
    page: list[T] = []
    heavy = 0
    for row in rows:
        page.append(row)
        heavy += weight(row)
        if len(page) == size or heavy >= _PAGE_WEIGHT:
            yield page
            page, heavy = [], 0
    if page:
        yield page


def paced_rows(rows: Sequence[T]) -> Iterable[T]:
    """The rows; bulk work yields to searches between those of many."""
    return rows if len(rows) < _PACED_ROWS else paced(rows)


def sendable(texts: Iterable[str]) -> list[str]:
    """The texts that a store can hold."""
    return [text for text in texts if "\x00" not in text and (text.isascii() or not _SURROGATE.search(text))]


# ---------------------------------------------------------------- values

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def dumps(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> bytes:
    """A key of fixed length for a text of any length."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


@lru_cache(64)  # items that were stored together have the same time
def moment(stamp: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stamp)


def optional_micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def optional_moment(stamp: int | None) -> datetime | None:
    return None if stamp is None else moment(stamp)


# ---------------------------------------------------------------- tables: `tables.sql` has those of both databases


def read_tables(folder: Path) -> dict[str, str]:
    """The parts of the file `tables.sql` by their names, which follow `-- ==`."""
    _, *parts = re.split(r"^-- == (\w+)\n", (folder / "tables.sql").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


ITEMS, ROWS, FILES, IDS, FACTS, VERSIONS, RAW_SESSIONS, RECEIPTS, REQUESTS, SYNCED = read_tables(
    Path(__file__).parent
).values()


class Types(NamedTuple):
    int: str
    id: str
    """Of numbers beyond 32 bits."""
    text: str
    key: str
    """Of texts that are compared, by their bytes."""
    hash: str
    flag: str
    true: str
    real: str
    first_id: str
    """The column of ids of a table that assigned its own in older versions."""
    name_type: str
    """Of the column by which a name in normal form is found (`Db.name_column`)."""
    name_column: str
    rowless: str
    """Follows a table whose rows lie in its primary key."""

    def ddl(self, shared: str) -> str:
        return Template(shared).substitute(self._asdict())
