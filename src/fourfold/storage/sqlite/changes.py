"""The change log of a namespace, and its items as indexes read them."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fourfold.index.log_tail import Change, TextRow
from fourfold.scheduling import paced
from fourfold.storage.sql.rows import TEXT_ROW
from fourfold.storage.sqlite import vectors
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database

if TYPE_CHECKING:
    from fourfold.index.rows import Ints, Matrix

_KEPT_MARKS = 8
"""Publications that may take effect between the moments at which a process reads the files and the database."""


def log(db: Connection, ns: int, changes: Iterable[tuple[int, int]]) -> None:
    """Logs items and what changed in each (`Change`)."""
    rows = ((ns, item, int(what)) for item, what in changes)
    db.executemany("INSERT INTO changes (ns, item, what) VALUES (?, ?, ?)", rows)


def last_change(db: Connection, ns: int) -> int:
    return db.value("SELECT max(seq) FROM changes WHERE ns = ?", ns) or 0


def count_changes(db: Connection, ns: int, after: int, limit: int, kinds: int = -1) -> int:
    """Changes after that one, of these kinds or of any, counted up to `limit`."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM changes WHERE ns = ? AND seq > ? AND what & ? LIMIT ?)"
    return db.value(sql, ns, after, int(kinds), limit)


def pruned(db: Connection, ns: int) -> int:
    """The log begins after this change."""
    return db.value("SELECT pruned FROM namespaces WHERE id = ?", ns)


def prune(db: Connection, ns: int, last: int) -> None:
    """Removes changes up to `last`, which all published indexes hold."""
    db.execute("DELETE FROM changes WHERE ns = ? AND seq <= ?", (ns, last))
    db.execute("UPDATE namespaces SET pruned = max(pruned, ?) WHERE id = ?", (last, ns))


def texts(db: Connection, ids: Sequence[int]) -> Iterator[TextRow]:
    """Those of the items that exist, in the order of their ids."""
    sql = f"SELECT {TEXT_ROW} FROM items WHERE id {db.any_id} ORDER BY id"  # noqa: S608  (constants)
    return paced(db.stream(sql, db.ids(ids)))


def all_ids(db: Connection, ns: int) -> list[int]:
    return db.column("SELECT id FROM items WHERE ns = ? ORDER BY id", ns)


def publication_marks(db: Connection, ns: int, kind: str) -> list[str]:
    known: str | None = db.value("SELECT value FROM settings WHERE name = ?", f"published/{ns}/{kind}")
    return known.split() if known else []


class SqliteSource:
    """Implements `fourfold.index.log_tail.Source`."""

    def __init__(self, database: Database, ns: int) -> None:
        self.database = database
        self.ns = ns

    @contextmanager
    def read(self) -> Generator[SqliteSourceSnapshot]:
        with self.database.read() as db:
            yield SqliteSourceSnapshot(db, self.ns)

    def add_publication_mark(self, kind: str) -> str:
        mark = secrets.token_hex(8)
        with self.database.write() as db:
            kept = " ".join([*publication_marks(db, self.ns, kind), mark][-_KEPT_MARKS:])
            db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (f"published/{self.ns}/{kind}", kept))
        return mark


class SqliteSourceSnapshot:
    """Implements `fourfold.index.log_tail.SourceSnapshot` inside the transaction of `db`."""

    def __init__(self, db: Connection, ns: int) -> None:
        self.db = db
        self.ns = ns

    @property
    def last_change(self) -> int:
        return last_change(self.db, self.ns)

    @property
    def pruned(self) -> int:
        return pruned(self.db, self.ns)

    def all_ids(self) -> list[int]:
        return all_ids(self.db, self.ns)

    def changed_ids(self, after: int, last: int, kinds: Change) -> list[int]:
        sql = "SELECT DISTINCT item FROM changes WHERE ns = ? AND seq > ? AND seq <= ? AND what & ? ORDER BY item"
        return [item for (item,) in self.db.execute(sql, (self.ns, after, last, int(kinds)))]

    def count_changes(self, after: int, limit: int, kinds: Change | None = None) -> int:
        return count_changes(self.db, self.ns, after, limit, -1 if kinds is None else kinds)

    def texts(self, ids: Sequence[int]) -> Iterator[TextRow]:
        return texts(self.db, ids)

    def vectors(self, ids: Sequence[int], dimension: int) -> tuple[Ints, Matrix]:
        return vectors.read(self.db, ids, dimension)

    def publication_marks(self, kind: str) -> list[str]:
        return publication_marks(self.db, self.ns, kind)
