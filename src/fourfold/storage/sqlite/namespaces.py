"""Rows of `namespaces`."""

from __future__ import annotations

from fourfold.index.log_tail import Change
from fourfold.storage.sql.namespaces import Namespace, store_languages
from fourfold.storage.sqlite import changes
from fourfold.storage.sqlite.connection import Connection

_SELECT = (
    "SELECT id, name, items, vectors, windows, names, fingerprint, dimension, superseded, expiring FROM namespaces"
)


def find(db: Connection, namespace: str) -> Namespace:
    rows = db.rows(f"{_SELECT} WHERE name = ?", namespace)
    return Namespace(*rows[0]) if rows else Namespace(0, namespace)


def read(db: Connection, ns: int) -> Namespace:
    return Namespace(*db.rows(f"{_SELECT} WHERE id = ?", ns)[0])


def everyone(db: Connection) -> list[Namespace]:
    return [Namespace(*row) for row in db.rows(f"{_SELECT} ORDER BY name")]


def create(db: Connection, namespace: str) -> Namespace:
    db.run("INSERT OR IGNORE INTO namespaces (name) VALUES (?)", namespace)
    return find(db, namespace)


def languages(db: Connection, ns: int) -> dict[str, int]:
    """The languages of the namespace with the number of their items, the commonest first."""
    sql = "SELECT language, items FROM languages WHERE ns = ? AND items > 0 ORDER BY items DESC, language LIMIT 8"
    return dict(db.rows(sql, ns))


def store(db: Connection, ns: Namespace) -> None:
    """Writes the counters where they differ, and logs what the transaction has changed."""
    db.run(
        "UPDATE namespaces SET items = ?1, vectors = ?2, windows = ?3, names = ?4, fingerprint = ?5, dimension = ?6 "
        "WHERE id = ?7 AND (items, vectors, windows, names, fingerprint, dimension) IS NOT (?1, ?2, ?3, ?4, ?5, ?6)",
        ns.items, ns.vectors, ns.windows, ns.names, ns.fingerprint, ns.dimension, ns.id,
    )  # fmt: skip
    store_languages(db, ns)
    ns.touch(sorted(ns.relinked), Change.LABELS)
    changes.log(db, ns.id, ns.touched.items())
    changes.log(db, ns.id, ((node, Change.NODE) for node in sorted(ns.renamed_nodes)))
    for done in (ns.touched, ns.relinked, ns.renamed_nodes):
        done.clear()
