"""Tags as the tag retriever needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fourfold.limits import HUB
from fourfold.stores.base import TagUse
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, Statement, possible, rows, sendable


async def counts(db: Db, ns: Namespace) -> dict[str, int]:
    """Folded tag to the number of items that carry it."""
    sql = "SELECT folded, count(*) FROM item_tags WHERE ns = %s GROUP BY folded ORDER BY folded"
    return dict(await rows(db, sql, ns.id))


def carried(ns: Namespace, ids: Sequence[int]) -> Statement:
    """The tags of these items with the number of items that carry each, counted no further than it matters."""
    sql = (
        "SELECT folded, (SELECT count(*) FROM (SELECT 1 FROM item_tags AS others "
        f"WHERE others.ns = mine.ns AND others.folded = mine.folded LIMIT {HUB + 1}) AS few) "
        "FROM (SELECT DISTINCT ns, folded FROM item_tags WHERE ns = %s AND item = ANY(%s::bigint[])) AS mine"
    )
    return sql, ns.id, possible(ids)


def using(ns: Namespace, candidates: Sequence[str]) -> Statement:
    return "SELECT item, folded FROM item_tags WHERE ns = %s AND folded = ANY(%s)", ns.id, sendable(candidates)


def tagged(found: Sequence[tuple[int, str]]) -> list[TagUse]:
    """Every use of those of the candidates that are tags."""
    uses = Counter(tag for _, tag in found)
    return sorted(TagUse(item, tag, uses[tag]) for item, tag in found)
