"""Tags as the tag retriever needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fourfold.stores.base import TagUse
from fourfold.stores.postgres.spaces import BY_NAME, Namespace
from fourfold.stores.postgres.sql import Db, Statement, rows, sendable


async def counts(db: Db, ns: Namespace) -> dict[str, int]:
    """Folded tag to the number of items that carry it."""
    sql = "SELECT folded, count(*) FROM item_tags WHERE ns = %s GROUP BY folded ORDER BY folded"
    return dict(await rows(db, sql, ns.id))


def using(namespace: str, candidates: Sequence[str]) -> Statement:
    return (
        f"SELECT item, folded FROM item_tags WHERE ns = {BY_NAME} AND folded = ANY(%s)",
        namespace,
        sendable(candidates),
    )


def tagged(found: Sequence[tuple[int, str]]) -> list[TagUse]:
    """Every use of those of the candidates that are tags."""
    uses = Counter(tag for _, tag in found)
    return sorted(TagUse(item, tag, uses[tag]) for item, tag in found)
