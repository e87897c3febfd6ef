"""A namespace of the embedded store: its row, its change log, its vectors, and its items as indexes read them."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from fourfold.embed.windows import Span, Windows, flaw
from fourfold.index.log_tail import Change, TextRow
from fourfold.scheduling import paced
from fourfold.storage.sql.namespaces import COLUMNS, Namespace, store_languages
from fourfold.storage.sql.rows import TEXT_ROW
from fourfold.storage.sqlite.database import Connection, Database

if TYPE_CHECKING:
    from fourfold.index.rows import Ints, Matrix
    from fourfold.model import Vector


_SELECT = f"SELECT {COLUMNS} FROM namespaces"  # noqa: S608  (constants)


def find_namespace(db: Connection, namespace: str) -> Namespace:
    rows = db.rows(f"{_SELECT} WHERE name = ?", namespace)
    return Namespace(*rows[0]) if rows else Namespace(0, namespace)


def read_namespace(db: Connection, ns: int) -> Namespace:
    return Namespace(*db.rows(f"{_SELECT} WHERE id = ?", ns)[0])


def all_namespaces(db: Connection) -> list[Namespace]:
    return [Namespace(*row) for row in db.rows(f"{_SELECT} ORDER BY name")]


def create_namespace(db: Connection, namespace: str) -> Namespace:
    db.run("INSERT OR IGNORE INTO namespaces (name) VALUES (?)", namespace)
    return find_namespace(db, namespace)


def namespace_languages(db: Connection, ns: int) -> dict[str, int]:
    """The languages of the namespace with the number of their items, the commonest first."""
    sql = "SELECT language, items FROM languages WHERE ns = ? AND items > 0 ORDER BY items DESC, language LIMIT 8"
    return dict(db.rows(sql, ns))


def store_namespace(db: Connection, ns: Namespace) -> None:
    """Writes the counters where they differ, and logs what the transaction has changed."""
    db.run(
        "UPDATE namespaces SET items = ?1, vectors = ?2, windows = ?3, names = ?4, fingerprint = ?5, dimension = ?6 "
        "WHERE id = ?7 AND (items, vectors, windows, names, fingerprint, dimension) IS NOT (?1, ?2, ?3, ?4, ?5, ?6)",
        ns.items, ns.vectors, ns.windows, ns.names, ns.fingerprint, ns.dimension, ns.id,
    )  # fmt: skip
    store_languages(db, ns)
    ns.touch(sorted(ns.relinked), Change.LABELS)
    nodes = [(node, Change.NODE.value) for node in sorted(ns.renamed_nodes)]
    SourceRows(db, ns.id).log([*ns.touched.items(), *nodes])
    for done in (ns.touched, ns.relinked, ns.renamed_nodes):
        done.clear()


# ---------------------------------------------------------------- the change log


_KEPT_MARKS = 8
"""Publications that may take effect between the moments at which a process reads the files and the database."""


class SourceRows:
    """The change log of a namespace and its rows, as indexes read them (`index.log_tail.SourceSnapshot`)."""

    def __init__(self, db: Connection, ns: int) -> None:
        self.db = db
        self.ns = ns

    @property
    def last_change(self) -> int:
        return self.db.value("SELECT max(seq) FROM changes WHERE ns = ?", self.ns) or 0

    @property
    def pruned(self) -> int:
        return self.db.value("SELECT pruned FROM namespaces WHERE id = ?", self.ns)

    def all_ids(self) -> list[int]:
        return self.db.column("SELECT id FROM items WHERE ns = ? ORDER BY id", self.ns)

    def changed_ids(self, after: int, last: int, kinds: Change) -> list[int]:
        sql = "SELECT DISTINCT item FROM changes WHERE ns = ? AND seq > ? AND seq <= ? AND what & ? ORDER BY item"
        return self.db.column(sql, self.ns, after, last, int(kinds))

    def count_changes(self, after: int, limit: int, kinds: Change | None = None) -> int:
        sql = "SELECT count(*) FROM (SELECT 1 FROM changes WHERE ns = ? AND seq > ? AND what & ? LIMIT ?)"
        return self.db.value(sql, self.ns, after, -1 if kinds is None else int(kinds), limit)

    def texts(self, ids: Sequence[int]) -> Iterator[TextRow]:
        """Those of the items that exist, in the order of their ids."""
        sql = f"SELECT {TEXT_ROW} FROM items WHERE id {self.db.any_id} ORDER BY id"  # noqa: S608  (constants)
        return paced(self.db.stream(sql, self.db.ids(ids)))

    def vectors(self, ids: Sequence[int], dimension: int) -> tuple[Ints, Matrix]:
        """The vectors of those of these items that have one, with their ids; those of an item are adjacent."""
        sql = f"SELECT item, vector FROM vectors WHERE item {self.db.any_id} AND length(vector) % ? = 0 ORDER BY item"  # noqa: S608  (constants)
        rows: list[tuple[int, bytes]] = self.db.rows(sql, self.db.ids(ids), dimension * 4)
        matrix = np.frombuffer(b"".join(blob for _, blob in rows), np.float32).reshape(-1, dimension)
        items = np.array([item for item, _ in rows], np.int64)
        if len(items) == len(matrix):
            return items, matrix
        return np.repeat(items, [len(blob) // (dimension * 4) for _, blob in rows]), matrix

    def publication_marks(self, kind: str) -> list[str]:
        marks: str | None = self.db.value("SELECT value FROM settings WHERE name = ?", f"published/{self.ns}/{kind}")
        return marks.split() if marks else []

    def log(self, changes: Iterable[tuple[int, int]]) -> None:
        """Logs items and what changed in each (`Change`)."""
        rows = [(self.ns, item, what) for item, what in changes]
        self.db.run_many("INSERT INTO changes (ns, item, what) VALUES (?, ?, ?)", rows)

    def prune(self, last: int) -> None:
        """Removes changes up to `last`, which all published indexes hold."""
        self.db.run("DELETE FROM changes WHERE ns = ? AND seq <= ?", self.ns, last)
        self.db.run("UPDATE namespaces SET pruned = max(pruned, ?) WHERE id = ?", last, self.ns)


class SqliteSource:
    """Implements `fourfold.index.log_tail.Source`."""

    def __init__(self, database: Database, ns: int) -> None:
        self.database = database
        self.ns = ns

    @contextmanager
    def read(self) -> Generator[SourceRows]:
        with self.database.read() as db:
            yield SourceRows(db, self.ns)

    def add_publication_mark(self, kind: str) -> str:
        mark = secrets.token_hex(8)
        with self.database.write() as db:
            marks = " ".join([*SourceRows(db, self.ns).publication_marks(kind), mark][-_KEPT_MARKS:])
            db.run("INSERT OR REPLACE INTO settings VALUES (?, ?)", f"published/{self.ns}/{kind}", marks)
        return mark


# ---------------------------------------------------------------- vectors


SPAN_BYTES = 8


def packed(spans: Sequence[Span]) -> bytes | None:
    """Starts and ends as 32-bit numbers; None without spans."""
    return np.array(spans, "<i4").tobytes() if spans else None


def unpacked(content: bytes | None) -> tuple[Span, ...]:
    whole = (content or b"")[: len(content or b"") // SPAN_BYTES * SPAN_BYTES]
    return tuple((start, end) for start, end in np.frombuffer(whole, "<i4").reshape(-1, 2).tolist())


BODY = "iif(text = '', title, text)"
"""What spans refer to."""


def stored_vectors(db: Connection, dimension: int | None, ids: Sequence[int]) -> dict[int, Vector | Windows]:
    """The vector of each item that has one, or its windows. `dimension`: that of the namespace."""
    if not dimension:
        return {}
    sql = f"SELECT item, vector, spans FROM vectors WHERE item {db.any_id} AND length(vector) % ? = 0"  # noqa: S608  (constants)
    made: dict[int, Vector | Windows] = {}
    for item, blob, spans in db.rows(sql, db.ids(ids), dimension * 4):
        matrix = np.frombuffer(blob, np.float32).reshape(-1, dimension)
        made[item] = matrix[0] if spans is None else Windows(matrix, unpacked(spans))
    return made


def flawed_windows(db: Connection) -> list[int]:
    """Items whose windows do not fit their texts."""
    sql = f"SELECT item, spans, length({BODY}) FROM vectors JOIN items ON id = item WHERE spans IS NOT NULL"  # noqa: S608  (constants)
    return [item for item, spans, characters in db.rows(sql) if flaw(unpacked(spans), characters) is not None]
