"""New ids, which each namespace takes from its own block (fourfold.storage.codec)."""

from __future__ import annotations

from itertools import count as counted_from

from fourfold.storage.codec import BLOCK, NUMBERED, block_of, bounds, check_room
from fourfold.storage.sql.dialect import Db

_COUNT = (
    "UPDATE ids SET last = ? + coalesce((SELECT max(id) FROM {} WHERE id > ids.last AND id < "
    "(ids.last / ? + 1) * ?), ids.last) WHERE ns = ? AND kind = ? RETURNING last - ?"
)
"""Also passes ids that a process of an older version, which counts otherwise, has given since it opened the store."""


def new(db: Db, ns: int, kind: str, count: int) -> range:
    """The next ids of a namespace, which the caller has locked; `kind`: the table."""
    if not count:
        return range(0)
    last = db.value(_COUNT.format(kind), count, BLOCK, BLOCK, ns, kind, count)
    if last is None:
        last = _last_given(db, _block(db, ns), kind)
        db.run("INSERT INTO ids VALUES (?, ?, ?)", ns, kind, last + count)
    check_room(last, count)
    return range(last + 1, last + 1 + count)


def reset(db: Db) -> None:
    """Forgets all blocks with a load, which has its own ids; namespaces then choose their blocks by these."""
    db.run("DELETE FROM ids")
    db.run("DELETE FROM id_blocks")


def _block(db: Db, ns: int) -> int:
    """The block of a namespace: that of its newest ids, or the next free one above them."""
    block = db.value("SELECT block FROM id_blocks WHERE ns = ?", ns)
    if block is not None:
        return block
    own = max(db.value(f"SELECT max(id) FROM {kind} WHERE ns = ?", ns) or 0 for kind in NUMBERED)  # noqa: S608  (our own tables)
    first = block_of(own)
    for block in counted_from(first):
        mine = block == first and own > 0
        if (mine or _is_unused(db, block)) and _claim(db, block, ns):
            return block
    raise AssertionError("unreachable")


def _claim(db: Db, block: int, ns: int) -> bool:
    """Another namespace that claims the same block at the same time waits here, and does not get it."""
    return bool(db.run("INSERT INTO id_blocks VALUES (?, ?) ON CONFLICT DO NOTHING", block, ns))


def _is_unused(db: Db, block: int) -> bool:
    sql = "SELECT 1 FROM {} WHERE id > ? AND id < ? LIMIT 1"
    return not any(db.value(sql.format(kind), *bounds(block)) for kind in NUMBERED)


def _last_given(db: Db, block: int, kind: str) -> int:
    """In a block that a namespace begins to use, also by an older version and for what is forgotten by now."""
    low, high = bounds(block)
    tables = ("items", "versions") if kind == "items" else (kind,)
    found = max(db.value(f"SELECT max(id) FROM {table} WHERE id > ? AND id < ?", low, high) or 0 for table in tables)  # noqa: S608  (our own tables)
    given = db.last_of_sequence(kind)
    return max(low, found, given if given < high else 0)
