"""Earlier versions of items, and the order of the values of facts. Every function runs inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fourfold.fields import DETAILS
from fourfold.index.source import Change
from fourfold.storage.codec import micros
from fourfold.storage.sql import ids
from fourfold.storage.sqlite import changes, vectors
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import batches, marks, rows, value
from fourfold.storage.values import Place, arranged

_COPIED = f"title, text, kind, language, metadata, created_at, updated_at, {', '.join(DETAILS)}, fact, supersedes"
_KEEP = (
    f"INSERT INTO items (id, ns, linked, {_COPIED}, valid_from, superseded_at, version_of) "  # noqa: S608  (constants)
    f"SELECT ?1, ns, 0, {_COPIED}, coalesce(valid_from, created_at), coalesce(superseded_at, ?2), id "
    "FROM items WHERE id = ?3"
)


def settle(db: Connection, ns: int, facts: Iterable[bytes]) -> None:
    """Orders the values of these facts."""
    sql = (
        "SELECT id, coalesce(valid_from, created_at), superseded_at, supersedes FROM items "
        "WHERE ns = ? AND fact = ? AND fact IS NOT NULL"
    )
    for fact in facts:
        for place in arranged([Place(*row) for row in rows(db, sql, ns, fact)]):
            db.execute(
                "UPDATE items SET superseded_at = ?1, supersedes = ?2, identity = iif(?1 IS NULL, identity, NULL) "
                "WHERE id = ?3",
                (place.superseded_at, place.supersedes, place.id),
            )


def keep(db: Connection, ns: int, item: int, now: datetime) -> None:
    """Stores a copy of an item as its superseded version; the item is believed from now on."""
    (version,) = ids.new(db, ns, "items", 1)
    db.execute(_KEEP, (version, micros(now), item))
    db.execute("INSERT INTO item_tags SELECT tag, ?1, name FROM item_tags WHERE item = ?2", (version, item))
    db.execute("INSERT INTO sources SELECT ?1, position, raw FROM sources WHERE item = ?2", (version, item))
    vectors.copy(db, ns, item, version)
    sql = "INSERT INTO waiting (ns, item, refused) SELECT ns, ?1, refused FROM waiting WHERE item = ?2"
    db.execute(sql, (version, item))
    db.execute("UPDATE namespaces SET items = items + 1 WHERE id = ?", (ns,))
    db.execute(
        "UPDATE languages SET items = items + 1 WHERE ns = ? AND language = (SELECT language FROM items WHERE id = ?)",
        (ns, version),
    )
    sql = "UPDATE items SET valid_from = ?, superseded_at = NULL, supersedes = ? WHERE id = ?"
    db.execute(sql, (micros(now), version, item))
    changes.log(db, ns, [(version, Change.TEXT | Change.VECTOR)])


def versions_of(db: Connection, items: Sequence[int]) -> list[int]:
    """The earlier versions of these items, and versions of these."""
    found: list[int] = []
    for part in batches(items):
        sql = f"SELECT id FROM items WHERE version_of IN ({marks(len(part))})"  # noqa: S608  (placeholders)
        found += (item for (item,) in rows(db, sql, *part))
    return [*found, *versions_of(db, found)] if found else []


def relink(db: Connection, gone: int) -> None:
    """Makes the successor of an item that is about to go the successor of its predecessor."""
    db.execute(
        "UPDATE items SET supersedes = (SELECT supersedes FROM items WHERE id = ?1) WHERE supersedes = ?1", (gone,)
    )


def restore(db: Connection, item: int, place: Sequence[int | None]) -> None:
    """Gives a loaded item its valid_from, superseded_at, supersedes and version_of."""
    db.execute(
        "UPDATE items SET valid_from = ?1, superseded_at = ?2, supersedes = ?3, version_of = ?4, "
        "identity = iif(?2 IS NULL, identity, NULL) WHERE id = ?5",
        (*place, item),
    )


def history(db: Connection, ns: int, item: int) -> list[int]:
    """Ids of an item, its superseded versions and the values of its fact."""
    fact = value(db, "SELECT fact FROM items WHERE ns = ? AND id = ?", ns, item)
    sql = "SELECT id FROM items WHERE ns = ? AND "
    found = [*rows(db, f"{sql} id = ?", ns, item), *rows(db, f"{sql} version_of = ?", ns, item)]
    if fact is not None:
        found += rows(db, f"{sql} fact = ? AND fact IS NOT NULL", ns, fact)
    return list(dict.fromkeys(id for (id,) in found))


def last_expiry(db: Connection, ns: int, now: datetime) -> int | None:
    sql = "SELECT max(expires_at) FROM items WHERE ns = ? AND expires_at <= ? AND expires_at IS NOT NULL"
    return value(db, sql, ns, micros(now))
