"""New ids, which each namespace takes from its own block (fourfold.storage.codec)."""

from __future__ import annotations

from itertools import count as counted_from

from fourfold.storage.codec import BLOCK, NUMBERED, block_of, bounds, check_room
from fourfold.storage.postgres.sql import Db, run, value

_SEQUENCES = {"items": "item_ids", "raw": "raw_ids", "nodes": "node_ids"}
"""The sequences of older schemas, which counted over all namespaces."""


_COUNT = (
    "UPDATE ids SET last = %s + coalesce((SELECT max(id) FROM {} WHERE id > ids.last AND id < "
    "(ids.last / %s + 1) * %s), ids.last) WHERE ns = %s AND kind = %s RETURNING last - %s"
)
"""Also passes ids that a process of an older version, which counts otherwise, has given since it opened the store."""


def new(db: Db, ns: int, kind: str, count: int) -> range:
    """The next ids of a namespace, which the caller has locked; `kind`: the table."""
    if not count:
        return range(0)
    last = value(db, _COUNT.format(kind), count, BLOCK, BLOCK, ns, kind, count)
    if last is None:
        last = _last_given(db, _block(db, ns), kind)
        run(db, "INSERT INTO ids VALUES (%s, %s, %s)", ns, kind, last + count)
    check_room(last, count)
    return range(last + 1, last + 1 + count)


def reset(db: Db) -> None:
    """Forgets all blocks after a load, which has its own ids; namespaces then choose their blocks by these."""
    run(db, "DELETE FROM ids")
    run(db, "DELETE FROM id_blocks")


def _block(db: Db, ns: int) -> int:
    """The block of a namespace: that of its newest ids, or the next free one above them."""
    block = value(db, "SELECT block FROM id_blocks WHERE ns = %s", ns)
    if block is not None:
        return block
    own = [value(db, f"SELECT max(id) FROM {kind} WHERE ns = %s", ns) or 0 for kind in NUMBERED]  # noqa: S608  (our own tables)
    first = block_of(max(own))
    for block in counted_from(first):
        mine = block == first and max(own) > 0
        if (mine or _is_unused(db, block)) and _claim(db, block, ns):
            return block
    raise AssertionError("unreachable")


def _claim(db: Db, block: int, ns: int) -> bool:
    """Another namespace that claims the same block at the same time waits here, and does not get it."""
    return bool(run(db, "INSERT INTO id_blocks VALUES (%s, %s) ON CONFLICT DO NOTHING", block, ns))


def _is_unused(db: Db, block: int) -> bool:
    for kind in NUMBERED:
        sql = f"SELECT 1 FROM {kind} WHERE id > %s AND id < %s LIMIT 1"  # noqa: S608  (our own tables)
        if value(db, sql, *bounds(block)):
            return False
    return True


def _last_given(db: Db, block: int, kind: str) -> int:
    """In a block that a namespace begins to use, also by an older version and for what is forgotten by now."""
    low, high = bounds(block)
    tables = ("items", "versions") if kind == "items" else (kind,)
    found = max(value(db, f"SELECT max(id) FROM {table} WHERE id > %s AND id < %s", low, high) or 0 for table in tables)  # noqa: S608  (our own tables)
    given = value(db, f"SELECT last_value FROM {_SEQUENCES[kind]} WHERE is_called") or 0  # noqa: S608  (our own tables)
    return max(low, found, given if given < high else 0)
