"""Rows of `namespaces`: counters and vector spaces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.sql import Literal

from fourfold.storage.postgres import index_log
from fourfold.storage.postgres.connection import Connection
from fourfold.storage.postgres.index_log import Generation
from fourfold.storage.sql import namespaces as sql_namespaces

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


def found(answer: Sequence[Any], namespace: str) -> Namespace:
    return Namespace.read(answer[0]) if answer else Namespace(0, namespace)


def find(db: Connection, namespace: str) -> Namespace:
    return found(db.rows(f"{_SELECT} WHERE name = ?", namespace), namespace)


def everyone(db: Connection) -> list[Namespace]:
    return [Namespace.read(row) for row in db.rows(f"{_SELECT} ORDER BY name")]


def create(db: Connection, namespace: str) -> Namespace:
    """Creates and locks a namespace; locks it where another process has just created it."""
    db.run("INSERT INTO namespaces (name) VALUES (?) ON CONFLICT DO NOTHING", namespace)
    return found(db.rows(f"{_SELECT} WHERE name = ? FOR NO KEY UPDATE", namespace), namespace)


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
