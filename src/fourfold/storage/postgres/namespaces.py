"""A namespace of a PostgreSQL store: its row, and one write to it, for which the row is locked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from psycopg.sql import Literal

from fourfold.embed.windows import Windows
from fourfold.index.log_tail import TextRow
from fourfold.index.rows import term_hash
from fourfold.model import Vector
from fourfold.storage.postgres import index_log
from fourfold.storage.postgres.connection import Connection, copy_rows, facts
from fourfold.storage.postgres.index_log import Generation
from fourfold.storage.postgres.vectors import stored, vector_rows
from fourfold.storage.postgres.words import write_texts
from fourfold.storage.sql import namespaces as sql_namespaces
from fourfold.storage.sql.dialect import digest, sendable
from fourfold.storage.sql.linking import LinkRows, name_terms
from fourfold.storage.sql.rows import Row
from fourfold.storage.sql.transaction import ItemTable, SqlTransaction

_LANGUAGES = (
    "(SELECT json_object_agg(language, items) FROM (SELECT language, items FROM languages "
    "WHERE ns = namespaces.id AND items > 0 ORDER BY items DESC, language LIMIT 8) AS spoken)"
)
_SELECT = (
    "SELECT json_build_array(id, name, items, vectors, windows, names, fingerprint, dimension, superseded, expiring, "  # noqa: S608  (constants)
    "tokens, changes, text_changes, vector_changes, parts, logged, "
    "EXISTS (SELECT 1 FROM files WHERE ns = namespaces.id), "
    f"{index_log.ACTIVE}, {_LANGUAGES})::text FROM namespaces"
)

_LOCK = 0x466F4E73
"""Ours among the advisory locks of a database, for namespaces that have no row yet."""


@dataclass(slots=True)
class Namespace(sql_namespaces.Namespace):
    """A writer holds the row locked."""

    tokens: int = 0
    changes: int = 0
    text_changes: int = 0
    vector_changes: int = 0
    parts: list[int] = field(default_factory=list[int])
    """The parts of its postings, each by its last change. Written only by `postings`."""
    logged: bool = False
    """Whether a distributed index follows its changes. Written only by `index_log`."""
    has_files: bool = False
    generation: Generation | None = None
    """The generation that answers searches. Written only by `index_log`."""
    languages: dict[str, int] = field(default_factory=dict[str, int])
    """The languages with the number of their items, most frequent first."""

    @property
    def vectors_per_item(self) -> int:
        """The average number of vectors of an item, rounded up."""
        return 1 + -(-self.windows // max(self.vectors, 1))

    @property
    def average_length(self) -> float:
        return self.tokens / max(self.items, 1)

    def count_language(self, language: str, items: int) -> None:
        super(Namespace, self).count_language(language, items)
        self.languages[language] = self.languages.get(language, 0) + items

    @staticmethod
    def read(row: Any) -> Namespace:
        *fields, active, languages = json.loads(row[0])
        return Namespace(*fields, generation=active and Generation(*active), languages=languages or {})


def finding(namespace: str, *, lock: bool = False) -> str:
    """SQL with the name inside: it is sent together with BEGIN, which takes no bindings."""
    name = Literal(namespace).as_string(None)
    return f"{_SELECT} WHERE name = {name}{' FOR NO KEY UPDATE' if lock else ''}"


def in_answer(answer: Sequence[Any], namespace: str) -> Namespace:
    return Namespace.read(answer[0]) if answer else Namespace(0, namespace)


def find(db: Connection, namespace: str) -> Namespace:
    return in_answer(db.rows(f"{_SELECT} WHERE name = ?", namespace), namespace)


def awaited(db: Connection, ns: Namespace) -> Namespace:
    """A namespace without a row, once no other process writes to it, so that a write can rely on what it reads."""
    db.run("SELECT pg_advisory_xact_lock(?, hashtext(?))", _LOCK, ns.name)
    return in_answer(db.rows(f"{_SELECT} WHERE name = ? FOR NO KEY UPDATE", ns.name), ns.name)


def everyone(db: Connection) -> list[Namespace]:
    return [Namespace.read(row) for row in db.rows(f"{_SELECT} ORDER BY name")]


def create(db: Connection, namespace: str) -> Namespace:
    """Creates and locks a namespace; locks it where another process has just created it."""
    db.run("INSERT INTO namespaces (name) VALUES (?) ON CONFLICT DO NOTHING", namespace)
    return in_answer(db.rows(f"{_SELECT} WHERE name = ? FOR NO KEY UPDATE", namespace), namespace)


def store(db: Connection, ns: Namespace) -> None:
    """Writes the counters; the new `changes` tells every reader that something is new."""
    ns.changes += 1
    db.run("UPDATE namespaces SET items = ?, vectors = ?, windows = ?, tokens = ?, changes = ?, text_changes = ?, "
        "vector_changes = ?, names = ?, fingerprint = ?, dimension = ? WHERE id = ?",
        ns.items, ns.vectors, ns.windows, ns.tokens, ns.changes, ns.text_changes, ns.vector_changes, ns.names,
        ns.fingerprint, ns.dimension, ns.id,
    )  # fmt: skip
    sql_namespaces.store_languages(db, ns)
    if ns.logged:
        index_log.record(db, ns.id, ns.changes, ns.touched)
    ns.touched.clear()
    ns.relinked.clear()
    ns.renamed_nodes.clear()


# ---------------------------------------------------------------- writing


class PostgresItems(ItemTable[Connection, Namespace]):
    more_columns: ClassVar[Mapping[str, str]] = {"facts": "?::jsonb"}

    def _more_values(self, row: Row) -> tuple[Any, ...]:
        return (facts(row.metadata),)

    def stored_vectors(self, items: Sequence[int]) -> Mapping[int, Vector | Windows]:
        return stored(self.db, self.tx.ns.dimension, items)

    def insert_vectors(self, vectors: Sequence[tuple[int, Vector | Windows]]) -> None:
        """A row is the vector of an item, or of one of its windows."""
        if not vectors:
            return
        rows = [row for item, vector in vectors for row in vector_rows(item, self.tx.ns.id, vector)]
        copy_rows(self.db, "vectors", rows)
        self.tx.ns.vectors += len(vectors)
        self.tx.ns.windows += len(rows) - len(vectors)
        self.tx.ns.vector_changes += 1

    def drop_vectors(self, items: Sequence[int]) -> None:
        """In one round trip."""
        sql = (
            "WITH gone AS (DELETE FROM vectors WHERE item = ANY(?::bigint[]) RETURNING part), "
            "left_ AS (DELETE FROM waiting WHERE item = ANY(?::bigint[])) "
            "SELECT count(*), count(*) FILTER (WHERE part > 0) FROM gone"
        )
        ((gone, windows),) = self.db.rows(sql, list(items), list(items)) if items else [(0, 0)]
        if gone:
            self.tx.ns.vectors -= gone - windows
            self.tx.ns.windows -= windows
            self.tx.ns.vector_changes += 1

    def _insert_tags(self, rows: Sequence[Row]) -> None:
        tagged = [(row.id, self.tx.ns.id, folded, name) for row in rows for folded, name in row.tags.items()]
        self.db.run_many("INSERT INTO item_tags VALUES (?, ?, ?, ?)", tagged)

    def _index_texts(self, old: Sequence[TextRow], new: Sequence[TextRow]) -> None:
        write_texts(self.db, self.tx.ns, old, new)

    def _remove(self, items: Sequence[int]) -> None:
        """Also drops the states of the files of which these items are chunks; SQLite has a trigger for that."""
        chunks = f"SELECT path FROM items WHERE id {self.db.any_id} AND key IS NULL AND path IS NOT NULL"  # noqa: S608  (constants)
        self.db.run(f"DELETE FROM files WHERE ns = ? AND path IN ({chunks})", self.tx.ns.id, self.db.ids(items))  # noqa: S608  (our own clauses)
        super()._remove(items)


@dataclass(frozen=True, eq=False)
class PostgresLinkRows(LinkRows):
    ns: Namespace

    def names_beginning(self, words: set[str], pairs: set[str]) -> list[str]:
        sql = "SELECT folded FROM names WHERE ns = ? AND opening = ANY(?::bytea[])"
        return self.db.column(sql, self.ns.id, [digest(start) for start in words | pairs])

    def may_mention(self, name: str) -> list[int]:
        groups = [sendable(group) for group in name_terms(name, tuple(self.ns.languages))]
        keys = [[self.ns.id << 32 | term_hash(term) for term in group] for group in groups]
        if not keys:
            return self.db.column("SELECT id FROM items WHERE ns = ? ORDER BY id", self.ns.id)
        held = " AND ".join(["keys && ?::bigint[]"] * len(keys))
        return self.db.column(f"SELECT item FROM texts WHERE {held} ORDER BY item", *keys)  # noqa: S608  (our own clauses)


class PostgresTransaction(SqlTransaction[Connection, Namespace]):
    item_table = PostgresItems

    def _create(self) -> Namespace:
        return create(self.db, self.ns.name)

    def store(self) -> None:
        if self.changed:
            store(self.db, self.ns)

    @property
    def link_rows(self) -> PostgresLinkRows:
        return PostgresLinkRows(self.db, self.ns)
