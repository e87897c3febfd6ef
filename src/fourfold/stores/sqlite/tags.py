"""Tags as the tag retriever needs them."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from fourfold.stores.sqlite.database import rows
from fourfold.stores.sqlite.items import marks


def counts(db: apsw.Connection, ns: int) -> dict[str, int]:
    """Folded tag to the number of items that carry it."""
    sql = "SELECT folded, count(*) FROM tags JOIN item_tags ON tag = id WHERE ns = ? GROUP BY folded ORDER BY folded"
    return dict(rows(db, sql, ns))


def tagged(db: apsw.Connection, ns: int, tags: Sequence[str]) -> list[tuple[int, str]]:
    """(item, tag)"""
    sql = (
        f"SELECT item, folded FROM tags CROSS JOIN item_tags ON tag = tags.id "
        f"WHERE tags.ns = ? AND folded IN ({marks(len(tags))}) ORDER BY item, folded"
    )
    return rows(db, sql, ns, *tags)
