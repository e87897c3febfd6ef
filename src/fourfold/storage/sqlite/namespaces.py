"""A namespace of the embedded store: its row, its change log, its vectors, and its items as indexes read them."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from fourfold.embed.windows import Span, Windows, flaw, rows_of, spans_of
from fourfold.index.log_tail import Change, TextRow
from fourfold.retrieval import Part
from fourfold.scheduling import paced
from fourfold.storage.sql.namespaces import Namespace, store_languages
from fourfold.storage.sql.reading import nearest_part
from fourfold.storage.sql.rows import TEXT_ROW
from fourfold.storage.sqlite.database import Connection, Database

if TYPE_CHECKING:
    from fourfold.index.rows import Ints, Matrix
    from fourfold.model import Vector


_SELECT = (
    "SELECT id, name, items, vectors, windows, names, fingerprint, dimension, superseded, expiring FROM namespaces"
)


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
    log_changes(db, ns.id, ns.touched.items())
    log_changes(db, ns.id, ((node, Change.NODE) for node in sorted(ns.renamed_nodes)))
    for done in (ns.touched, ns.relinked, ns.renamed_nodes):
        done.clear()


# ---------------------------------------------------------------- the change log


_KEPT_MARKS = 8
"""Publications that may take effect between the moments at which a process reads the files and the database."""


def log_changes(db: Connection, ns: int, changes: Iterable[tuple[int, int]]) -> None:
    """Logs items and what changed in each (`Change`)."""
    rows = ((ns, item, int(what)) for item, what in changes)
    db.executemany("INSERT INTO changes (ns, item, what) VALUES (?, ?, ?)", rows)


def last_change(db: Connection, ns: int) -> int:
    return db.value("SELECT max(seq) FROM changes WHERE ns = ?", ns) or 0


def count_changes(db: Connection, ns: int, after: int, limit: int, kinds: int = -1) -> int:
    """Changes after that one, of these kinds or of any, counted up to `limit`."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM changes WHERE ns = ? AND seq > ? AND what & ? LIMIT ?)"
    return db.value(sql, ns, after, int(kinds), limit)


def pruned_until(db: Connection, ns: int) -> int:
    """The log begins after this change."""
    return db.value("SELECT pruned FROM namespaces WHERE id = ?", ns)


def prune_changes(db: Connection, ns: int, last: int) -> None:
    """Removes changes up to `last`, which all published indexes hold."""
    db.execute("DELETE FROM changes WHERE ns = ? AND seq <= ?", (ns, last))
    db.execute("UPDATE namespaces SET pruned = max(pruned, ?) WHERE id = ?", (last, ns))


def read_texts(db: Connection, ids: Sequence[int]) -> Iterator[TextRow]:
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
        return pruned_until(self.db, self.ns)

    def all_ids(self) -> list[int]:
        return all_ids(self.db, self.ns)

    def changed_ids(self, after: int, last: int, kinds: Change) -> list[int]:
        sql = "SELECT DISTINCT item FROM changes WHERE ns = ? AND seq > ? AND seq <= ? AND what & ? ORDER BY item"
        return [item for (item,) in self.db.execute(sql, (self.ns, after, last, int(kinds)))]

    def count_changes(self, after: int, limit: int, kinds: Change | None = None) -> int:
        return count_changes(self.db, self.ns, after, limit, -1 if kinds is None else kinds)

    def texts(self, ids: Sequence[int]) -> Iterator[TextRow]:
        return read_texts(self.db, ids)

    def vectors(self, ids: Sequence[int], dimension: int) -> tuple[Ints, Matrix]:
        return read_vectors(self.db, ids, dimension)

    def publication_marks(self, kind: str) -> list[str]:
        return publication_marks(self.db, self.ns, kind)


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


def insert_vectors(db: Connection, ns: Namespace, given: Sequence[tuple[int, Vector | Windows]]) -> None:
    """Stores the vectors of items that have none."""
    spans = [spans_of(vector) for _, vector in given]
    db.run_many(
        "INSERT INTO vectors (item, vector, spans) VALUES (?, ?, ?)",
        [(item, rows_of(vector).tobytes(), packed(own)) for (item, vector), own in zip(given, spans, strict=True)],
    )
    ns.vectors += len(given)
    ns.windows += sum(max(0, len(own) - 1) for own in spans)


def drop_vectors(db: Connection, ns: Namespace, items: Sequence[int]) -> None:
    """Removes the vectors of items, and takes the items from the queue."""
    ids = db.ids(items)
    for (size,) in db.rows(f"DELETE FROM vectors WHERE item {db.any_id} RETURNING length(spans)", ids):  # noqa: S608  (constants)
        ns.vectors -= 1
        ns.windows -= 0 if size is None else size // SPAN_BYTES - 1
    db.run(f"DELETE FROM waiting WHERE ns = ? AND item {db.any_id}", ns.id, ids)  # noqa: S608  (constants)


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


def read_vectors(db: Connection, ids: Sequence[int], dimension: int) -> tuple[Ints, Matrix]:
    """The vectors of those of these items that have one, with their ids; those of an item are adjacent."""
    sql = f"SELECT item, vector FROM vectors WHERE item {db.any_id} AND length(vector) % ? = 0 ORDER BY item"  # noqa: S608  (constants)
    found: list[tuple[int, bytes]] = db.rows(sql, db.ids(ids), dimension * 4)
    matrix = np.frombuffer(b"".join(blob for _, blob in found), np.float32).reshape(-1, dimension)
    ids_of = np.array([item for item, _ in found], np.int64)
    if len(ids_of) == len(matrix):
        return ids_of, matrix
    return np.repeat(ids_of, [len(blob) // (dimension * 4) for _, blob in found]), matrix


def nearest_parts(db: Connection, ns: int, query: Vector, ids: Sequence[int]) -> dict[int, Part]:
    """Of items with several vectors: the part of the text whose vector is nearest."""
    sql = (
        f"SELECT item, vector, spans, length({BODY}) FROM vectors JOIN items ON id = item "  # noqa: S608  (constants)
        f"WHERE +ns = ? AND item {db.any_id} AND length(vector) * ? = length(spans) * ?"
    )
    found: dict[int, Part] = {}
    dimension = len(query)
    for item, vector, spans, characters in db.rows(sql, ns, db.ids(ids), SPAN_BYTES, dimension * 4):
        windows = Windows(np.frombuffer(vector, np.float32).reshape(-1, dimension), unpacked(spans))
        found[item] = nearest_part(windows, query, characters)
    return found


def flawed_windows(db: Connection) -> list[int]:
    """Items whose windows do not fit their texts."""
    sql = f"SELECT item, spans, length({BODY}) FROM vectors JOIN items ON id = item WHERE spans IS NOT NULL"  # noqa: S608  (constants)
    return [item for item, spans, characters in db.rows(sql) if flaw(unpacked(spans), characters) is not None]
