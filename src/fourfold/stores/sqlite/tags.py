"""Tags as the tag retriever needs them."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from fourfold.stores.base import TagUse
from fourfold.stores.sqlite.database import rows
from fourfold.stores.sqlite.items import batches, marks, possible


def counts(db: apsw.Connection, ns: int) -> dict[str, int]:
    """Folded tag to the number of items that carry it."""
    return dict(rows(db, "SELECT folded, uses FROM tags WHERE ns = ? AND uses > 0 ORDER BY folded", ns))


def carried(db: apsw.Connection, ns: int, ids: Sequence[int]) -> dict[str, int]:
    """The tags of these items, folded, each with the number of items that carry it."""
    found: dict[str, int] = {}
    for part in batches(possible(ids)):
        sql = (
            "SELECT folded, uses FROM item_tags CROSS JOIN tags ON tags.id = tag "
            f"WHERE item IN ({marks(len(part))}) AND ns = ?"
        )
        found.update(rows(db, sql, *part, ns))
    return found


def tagged(db: apsw.Connection, ns: int, candidates: Sequence[str]) -> list[TagUse]:
    """Every use of those of these folded strings that are tags."""
    found: list[TagUse] = []
    for part in batches(candidates):
        sql = (
            "SELECT item, folded, uses FROM tags CROSS JOIN item_tags ON tag = tags.id "
            f"WHERE ns = ? AND folded IN ({marks(len(part))})"
        )
        found.extend(map(TagUse._make, rows(db, sql, ns, *part)))
    return sorted(found)
