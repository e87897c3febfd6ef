"""The queue of items that wait for a vector."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.storage.sql.dialect import Db
from fourfold.storage.values import PendingText


def queues(db: Db, replaced: Sequence[str] = ()) -> list[str]:
    """Namespaces in which items wait for a vector, or whose space has a fingerprint that begins with `replaced`."""
    sql = (
        "SELECT name FROM namespaces WHERE EXISTS "  # noqa: S608  (question marks only)
        "(SELECT 1 FROM waiting WHERE ns = namespaces.id AND refused IS NULL)"
        f"{' OR substr(fingerprint, 1, length(?)) = ?' * len(replaced)} ORDER BY name"
    )
    return db.column(sql, *(name for name in replaced for _ in range(2)))


def pending(db: Db, ns: int, limit: int, among: Sequence[int] | None = None) -> list[PendingText]:
    """Items that wait for a vector: all but the rejected ones, or those of `among`, rejected or not."""
    sql = (
        "SELECT id, title, text FROM waiting JOIN items ON id = item WHERE waiting.ns = ? AND {} ORDER BY item LIMIT ?"
    )
    if among is None:
        return db.rows(sql.format("refused IS NULL"), ns, limit)
    return db.rows(sql.format(f"item {db.any_id}"), ns, db.ids(among), limit)


def reject(db: Db, ns: int, pending: PendingText, reason: str) -> None:
    """Marks an item as rejected by the embedder, unless its text has changed."""
    sql = (
        "UPDATE waiting SET refused = ? WHERE ns = ? AND item = ? "
        "AND EXISTS (SELECT 1 FROM items WHERE id = item AND title = ? AND text = ?)"
    )
    db.run(sql, reason.replace("\x00", ""), ns, *pending)


def retry_rejected(db: Db, ns: int) -> None:
    """Queues the rejected items again."""
    db.run("UPDATE waiting SET refused = NULL WHERE ns = ? AND refused IS NOT NULL", ns)
