"""Namespaces, their vector spaces, and the queue of items that wait for vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fourfold.embed.vectors import check_dimension
from fourfold.errors import SpaceMismatch
from fourfold.index.source import Change
from fourfold.model import Space
from fourfold.storage.sqlite import changes, vectors
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import chunks, marks, rows, value
from fourfold.storage.values import GIVEN_SPACE, MadeVectors, PendingText, Size

if TYPE_CHECKING:
    from fourfold.model import Vector


def find(db: Connection, namespace: str) -> int | None:
    return value(db, "SELECT id FROM namespaces WHERE name = ?", namespace)


def ensure(db: Connection, namespace: str) -> int:
    db.execute("INSERT OR IGNORE INTO namespaces (name) VALUES (?)", (namespace,))
    return value(db, "SELECT id FROM namespaces WHERE name = ?", namespace)


def size(db: Connection, ns: int) -> Size:
    return Size(*rows(db, "SELECT items, vectors, windows FROM namespaces WHERE id = ?", ns)[0])


def languages(db: Connection, ns: int) -> dict[str, int]:
    """The languages of the namespace with the number of their items, the commonest first."""
    sql = "SELECT language, items FROM languages WHERE ns = ? AND items > 0 ORDER BY items DESC, language LIMIT 8"
    return dict(rows(db, sql, ns))


def space(db: Connection, ns: int) -> Space | None:
    fingerprint, dimension = rows(db, "SELECT fingerprint, dimension FROM namespaces WHERE id = ?", ns)[0]
    return None if fingerprint is None else Space(fingerprint, dimension)


def set_space(db: Connection, ns: int, wanted: Space) -> None:
    known = space(db, ns)
    if known is None:
        _write_space(db, ns, wanted)
    elif known != wanted:
        raise SpaceMismatch(
            f"the vectors here come from {known.fingerprint}, not from {wanted.fingerprint}",
            "Go back to that embedder, or rebuild all vectors: fourfold reembed",
        )


def reset_space(db: Connection, ns: int, wanted: Space) -> None:
    if space(db, ns) == wanted:
        return
    _write_space(db, ns, wanted)
    gone = [item for (item,) in rows(db, "SELECT item FROM vectors JOIN items ON id = item WHERE ns = ?", ns)]
    for item in gone:
        vectors.drop(db, ns, item)
    changes.log(db, ns, ((item, Change.VECTOR) for item in gone))


def renew(db: Connection, ns: int, wanted: Space, ids: Sequence[int]) -> None:
    """Drops the vectors of these items and renames the space."""
    _write_space(db, ns, wanted)
    sql = "SELECT item FROM vectors JOIN items ON id = item WHERE ns = ? AND item IN ({}) ORDER BY item"
    for part in chunks(sorted(set(ids))):
        gone = [item for (item,) in rows(db, sql.format(marks(len(part))), ns, *part)]
        for item in gone:
            vectors.drop(db, ns, item)
        changes.log(db, ns, ((item, Change.VECTOR) for item in gone))


def _write_space(db: Connection, ns: int, wanted: Space) -> None:
    db.execute(
        "UPDATE namespaces SET fingerprint = ?, dimension = ? WHERE id = ?",
        (wanted.fingerprint, wanted.dimension, ns),
    )


def put_given(db: Connection, ns: int, item: int, vector: Vector) -> None:
    """A caller's own vector for an item that is there."""
    fit_given(db, ns, [len(vector)])
    vectors.put(db, ns, item, vector)


def fit_given(db: Connection, ns: int, dimensions: Iterable[int]) -> None:
    """Callers' own vectors have to fit; the first one fixes the space of a namespace that has none."""
    known = space(db, ns)
    for dimension in dimensions:
        if known is None:
            known = Space(GIVEN_SPACE, dimension)
            _write_space(db, ns, known)
        check_dimension(dimension, known.dimension)


def queues(db: Connection) -> list[str]:
    """Namespaces in which items wait for a vector."""
    sql = (
        "SELECT name FROM namespaces WHERE EXISTS "
        "(SELECT 1 FROM waiting WHERE ns = namespaces.id AND refused IS NULL) ORDER BY name"
    )
    return [name for (name,) in rows(db, sql)]


def pending(db: Connection, ns: int, limit: int, among: Sequence[int] | None = None) -> list[PendingText]:
    """Items that wait for a vector: of all but the rejected ones, or of `among`, rejected or not."""
    sql = (
        "SELECT id, title, text FROM waiting JOIN items ON id = item WHERE waiting.ns = ? AND {} ORDER BY item LIMIT ?"
    )
    if among is None:
        return rows(db, sql.format("refused IS NULL"), ns, limit)
    found: list[PendingText] = []
    for part in chunks(sorted(set(among))):
        found += rows(db, sql.format(f"item IN ({marks(len(part))})"), ns, *part, limit)
    return found[:limit]


def reject(db: Connection, ns: int, waits: PendingText, reason: str) -> None:
    """Marks an item as rejected by the embedder, unless its text has changed meanwhile."""
    sql = (
        "UPDATE waiting SET refused = ? WHERE ns = ? AND item = ? "
        "AND EXISTS (SELECT 1 FROM items WHERE id = item AND title = ? AND text = ?)"
    )
    db.execute(sql, (reason, ns, *waits))


def retry_rejected(db: Connection, ns: int) -> None:
    db.execute("UPDATE waiting SET refused = NULL WHERE ns = ? AND refused IS NOT NULL", (ns,))


def put_made(db: Connection, ns: int, wanted: Space, made: Sequence[MadeVectors]) -> int:
    """Stores vectors made from (title, text); an item whose text has changed meanwhile keeps waiting."""
    set_space(db, ns, wanted)
    stored: list[int] = []
    for item, title, text, vector in made:
        sql = "SELECT 1 FROM items WHERE ns = ? AND id = ? AND title = ? AND text = ?"
        if value(db, sql, ns, item, title, text):
            vectors.put(db, ns, item, vector)
            stored.append(item)
    changes.log(db, ns, ((item, Change.VECTOR) for item in stored))
    return len(stored)
