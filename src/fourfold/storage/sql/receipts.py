"""Receipts: how often each interface was asked and could answer, and when each item was last given to someone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from fourfold.model import Stats, Supply
from fourfold.storage.sql.dialect import Db, micros, moment, possible
from fourfold.storage.values import Receipt

_PRESENT = "FROM items WHERE ns = ? AND superseded_at IS NULL"


def add(db: Db, namespace: str, supplies: Mapping[str, Receipt], items: Mapping[int, int], now: datetime) -> None:
    """Adds to the receipts of a namespace. `items`: how often each was given; those that are gone are left out."""
    ns = db.value("SELECT id FROM namespaces WHERE name = ?", namespace)
    if ns is None:
        return
    moment_ = micros(now)
    db.run_many(
        "INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (ns, via) DO UPDATE SET "
        "asked = receipts.asked + excluded.asked, answered = receipts.answered + excluded.answered, "
        "items = receipts.items + excluded.items",
        [(ns, via, *receipt, moment_) for via, receipt in sorted(supplies.items())],
    )
    db.run_many(
        "INSERT INTO retrievals SELECT id, ?, ? FROM items WHERE id = ? AND ns = ? ON CONFLICT (item) DO UPDATE SET "
        "times = retrievals.times + excluded.times, last_at = excluded.last_at",
        [(items[id], moment_, id, ns) for id in sorted(possible(items))],
    )


def stats(db: Db, ns: int, limit: int) -> Stats:
    """`limit`: how many of the items that nobody was given are named, the oldest first."""
    supplies = db.rows("SELECT via, asked, answered, items, since FROM receipts WHERE ns = ? ORDER BY via", ns)
    total = db.value(f"SELECT count(*) {_PRESENT}", ns)
    unused = "AND NOT EXISTS (SELECT 1 FROM retrievals WHERE item = items.id)"
    return Stats(
        since=moment(min(row[-1] for row in supplies)) if supplies else None,
        supplies=tuple(
            Supply(via, asked, answered, asked - answered, given) for via, asked, answered, given, _ in supplies
        ),
        items=total,
        never_retrieved=db.value(f"SELECT count(*) {_PRESENT} {unused}", ns),
        oldest_unused=tuple(db.column(f"SELECT id {_PRESENT} {unused} ORDER BY created_at, id LIMIT ?", ns, limit)),
    )
