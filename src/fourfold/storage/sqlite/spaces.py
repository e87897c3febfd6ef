"""Namespaces and their vector spaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fourfold.embed.vectors import check_dimension
from fourfold.index.source import Change
from fourfold.model import Space
from fourfold.storage.refusals import other_space
from fourfold.storage.sqlite import changes, vectors
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import chunks, marks, rows, value
from fourfold.storage.values import GIVEN_SPACE, MadeVectors, Size

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
        raise other_space(known, wanted)


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
