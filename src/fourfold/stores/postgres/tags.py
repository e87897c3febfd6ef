"""Tags as the tag retriever needs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fourfold.limits import HUB
from fourfold.stores.base import TagUse
from fourfold.stores.postgres.spaces import BY_NAME, Namespace
from fourfold.stores.postgres.sql import Db, Statement, possible, rows, sendable


async def counts(db: Db, ns: Namespace) -> dict[str, int]:
    """Folded tag to the number of items that carry it."""
    sql = "SELECT folded, count(*) FROM item_tags WHERE ns = %s GROUP BY folded ORDER BY folded"
    return dict(await rows(db, sql, ns.id))


def carried(namespace: str, ids: Sequence[int]) -> Statement:
    """The tags of these items with the number of items that carry each, counted no further than it matters."""
    sql = (
        "SELECT folded, (SELECT count(*) FROM (SELECT 1 FROM item_tags AS others "  # noqa: S608  (constants)
        f"WHERE others.ns = mine.ns AND others.folded = mine.folded LIMIT {HUB + 1}) AS few) "
        f"FROM (SELECT DISTINCT ns, folded FROM item_tags WHERE ns = {BY_NAME} AND item = ANY(%s::bigint[])) AS mine"
    )
    return sql, namespace, possible(ids)


def using(namespace: str, candidates: Sequence[str]) -> Statement:
    return (
        f"SELECT item, folded FROM item_tags WHERE ns = {BY_NAME} AND folded = ANY(%s)",  # noqa: S608  (constants)
        namespace,
        sendable(candidates),
    )


def tagged(found: Sequence[tuple[int, str]]) -> list[TagUse]:
    """Every use of those of the candidates that are tags."""
    uses = Counter(tag for _, tag in found)
    return sorted(TagUse(item, tag, uses[tag]) for item, tag in found)
