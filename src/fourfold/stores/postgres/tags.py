"""Tags as the tag retriever needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fourfold.stores.base import TagUse
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, rows, sendable


async def counts(db: Db, ns: Namespace) -> dict[str, int]:
    """Folded tag to the number of items that carry it."""
    sql = "SELECT folded, count(*) FROM item_tags WHERE ns = %s GROUP BY folded ORDER BY folded"
    return dict(await rows(db, sql, ns.id))


async def tagged(db: Db, ns: Namespace, candidates: Sequence[str]) -> list[TagUse]:
    """Every use of those of these folded strings that are tags."""
    sql = "SELECT item, folded FROM item_tags WHERE ns = %s AND folded = ANY(%s)"
    found = await rows(db, sql, ns.id, sendable(candidates)) if candidates else []
    uses = Counter(tag for _, tag in found)
    return sorted(TagUse(item, tag, uses[tag]) for item, tag in found)
