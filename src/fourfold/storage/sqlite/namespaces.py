"""A namespace of the embedded store: its row, its change log, its vectors, and one write to it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fourfold.embed.windows import Span, Windows, flaw
from fourfold.index.log_tail import Change, TextRow
from fourfold.model import Vector
from fourfold.scheduling import paced
from fourfold.storage.sql import graph, linking
from fourfold.storage.sql.dialect import BODY
from fourfold.storage.sql.linking import PER_LOOKUP, Linker, LinkRows
from fourfold.storage.sql.namespaces import COLUMNS, Namespace, store_languages
from fourfold.storage.sql.rows import TEXT_ROW, Row
from fourfold.storage.sql.transaction import ItemTable, SqlTransaction
from fourfold.storage.sqlite.database import Connection, Database, unchecked

if TYPE_CHECKING:
    from fourfold.index.rows import Ints, Matrix


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


LOG = "INSERT INTO changes (ns, item, what) VALUES (?, ?, ?)"
"""Logs what changed in an item (`Change`)."""


def store_namespace(db: Connection, ns: Namespace) -> None:
    """Writes the counters where they differ, and logs what the transaction has changed."""
    db.run(
        "UPDATE namespaces SET items = ?1, vectors = ?2, windows = ?3, names = ?4, fingerprint = ?5, dimension = ?6 "
        "WHERE id = ?7 AND (items, vectors, windows, names, fingerprint, dimension) IS NOT (?1, ?2, ?3, ?4, ?5, ?6)",
        ns.items, ns.vectors, ns.windows, ns.names, ns.fingerprint, ns.dimension, ns.id,
    )  # fmt: skip
    store_languages(db, ns)
    ns.touch(sorted(ns.relinked), Change.LABELS)
    nodes = [(ns.id, node, Change.NODE.value) for node in sorted(ns.renamed_nodes)]
    db.run_many(LOG, [*((ns.id, *change) for change in ns.touched.items()), *nodes])
    for done in (ns.touched, ns.relinked, ns.renamed_nodes):
        done.clear()


# ---------------------------------------------------------------- the change log


_KEPT_MARKS = 8
"""Publications that may take effect between the moments at which a process reads the files and the database."""


@dataclass(slots=True, eq=False)
class SourceRows:
    """The change log of a namespace and its rows, as indexes read them (`index.log_tail.SourceSnapshot`)."""

    db: Connection
    ns: int

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

    def prune(self, last: int) -> None:
        """Removes changes up to `last`, which all published indexes hold."""
        self.db.run("DELETE FROM changes WHERE ns = ? AND seq <= ?", self.ns, last)
        self.db.run("UPDATE namespaces SET pruned = max(pruned, ?) WHERE id = ?", last, self.ns)


@dataclass(slots=True, eq=False)
class SqliteSource:
    """Implements `fourfold.index.log_tail.Source`."""

    database: Database
    ns: int

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


# ---------------------------------------------------------------- writing


class SqliteItems(ItemTable[Connection, Namespace]):
    def stored_vectors(self, items: Sequence[int]) -> Mapping[int, Vector | Windows]:
        return stored_vectors(self.db, self.tx.ns.dimension, items)

    def insert_vectors(self, vectors: Sequence[tuple[int, Vector | Windows]]) -> None:
        rows = [
            (item, vector.vectors.tobytes(), packed(vector.spans))
            if isinstance(vector, Windows)
            else (item, np.asarray(vector, np.float32).tobytes(), None)
            for item, vector in vectors
        ]
        self.db.run_many("INSERT INTO vectors (item, vector, spans) VALUES (?, ?, ?)", rows)
        self.tx.ns.vectors += len(rows)
        self.tx.ns.windows += sum(max(0, len(each.spans) - 1) for _, each in vectors if isinstance(each, Windows))

    def drop_vectors(self, items: Sequence[int]) -> None:
        db, ns, ids = self.db, self.tx.ns, self.db.ids(items)
        for (size,) in db.rows(f"DELETE FROM vectors WHERE item {db.any_id} RETURNING length(spans)", ids):  # noqa: S608  (constants)
            ns.vectors -= 1
            ns.windows -= 0 if size is None else size // SPAN_BYTES - 1
        db.run(f"DELETE FROM waiting WHERE ns = ? AND item {db.any_id}", ns.id, ids)  # noqa: S608  (constants)

    def _insert_many(self, fresh: Sequence[Row]) -> None:
        """Foreign keys and triggers cost more here than compiling statements again without them."""
        with unchecked(self.db):
            self._insert(fresh)
            self._count_for_triggers(fresh)

    def _count_for_triggers(self, fresh: Sequence[Row]) -> None:
        """What the triggers of new rows count."""
        uses = Counter(tag for row in fresh for tag in row.tags)
        counts = [(count, self.tx.ns.id, tag) for tag, count in uses.items()]
        self.db.run_many("UPDATE tags SET uses = uses + ? WHERE ns = ? AND folded = ?", counts)
        superseded = sum(row.superseded_at is not None for row in fresh)
        expiring = sum(row.details.get("expires_at") is not None for row in fresh)
        if superseded or expiring:
            sql = "UPDATE namespaces SET superseded = superseded + ?, expiring = expiring + ? WHERE id = ?"
            self.db.run(sql, superseded, expiring, self.tx.ns.id)

    def _insert_tags(self, rows: Sequence[Row]) -> None:
        folded = sorted({tag for row in rows for tag in row.tags})
        if not folded:
            return
        db = self.db
        db.run_many("INSERT OR IGNORE INTO tags (ns, folded) VALUES (?, ?)", [(self.tx.ns.id, tag) for tag in folded])
        sql = f"SELECT folded, id FROM tags WHERE ns = ? AND folded {db.any_text}"  # noqa: S608  (constants)
        ids = dict(db.rows(sql, self.tx.ns.id, db.texts(folded)))
        tagged = [(ids[tag], row.id, name) for row in rows for tag, name in row.tags.items()]
        db.run_many("INSERT INTO item_tags VALUES (?, ?, ?)", tagged)


Lookup = Callable[[int, str], Sequence[int] | None]
"""Items of a namespace that may contain a name; None if that is unknown now."""


def no_lookup(ns: int, name: str) -> None:
    return None


@dataclass(frozen=True, eq=False)
class SqliteLinkRows(LinkRows):
    lookup: Lookup = no_lookup

    def names_beginning(self, words: set[str], pairs: set[str]) -> set[str]:
        names = set(graph.named_nodes(self.db, self.ns.id, words))
        sql = "SELECT folded FROM names WHERE ns = ? AND folded >= ? AND folded < ?"
        for pair in pairs:  # "!" sorts after a space and before any letter
            names.update(self.db.column(sql, self.ns.id, pair, f"{pair}!"))
        return names

    def may_mention(self, name: str) -> Sequence[int] | None:
        return self.lookup(self.ns.id, name)


def catch_up(database: Database, ns: int, lookup: Lookup = no_lookup) -> None:
    """Searches older items for the names of postponed nodes."""

    @contextmanager
    def reading() -> Generator[SqliteLinkRows]:
        with database.read() as db:
            yield SqliteLinkRows(db, read_namespace(db, ns), lookup)

    @contextmanager
    def writing() -> Generator[SqliteLinkRows]:
        with database.write() as db:
            row = read_namespace(db, ns)
            yield SqliteLinkRows(db, row, lookup)
            store_namespace(db, row)

    linking.catch_up(reading, writing, lambda name: lookup(ns, name))


def is_long(db: Connection, ns: int, count: int) -> bool:
    """Whether more items than this have to be read for the names that wait."""
    waiting = db.value("SELECT count(*) FROM unlinked WHERE ns = ?", ns)
    stored = db.value("SELECT items FROM namespaces WHERE id = ?", ns)
    return stored > count and waiting * PER_LOOKUP > stored


def is_behind(db: Connection, ns: int) -> bool:
    return db.value("SELECT 1 FROM unlinked WHERE ns = ? LIMIT 1", ns) is not None


MOST_LINKED_ITEMS = 1000
"""After more texts, one transaction leaves it to `publish` to search them for further new names."""


class SqliteTransaction(SqlTransaction[Connection, Namespace]):
    item_table = SqliteItems

    def __init__(
        self, db: Connection, namespace: str, linkers: dict[int, Linker], may_mention: Lookup = no_lookup
    ) -> None:
        super().__init__(db, find_namespace(db, namespace), linkers)
        self._may_mention = may_mention

    def _create(self) -> Namespace:
        return create_namespace(self.db, self.ns.name)

    def store(self) -> None:
        if self.ns.id:
            store_namespace(self.db, self.ns)

    @property
    def link_rows(self) -> SqliteLinkRows:
        return SqliteLinkRows(self.db, self.ns, self._lookup)

    def _lookup(self, ns: int, name: str) -> Sequence[int] | None:
        committed = self._may_mention(ns, name)
        if committed is None or len(self.linked) > MOST_LINKED_ITEMS:
            return None
        return sorted(self.linked.union(committed))
