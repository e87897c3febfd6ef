"""New ids, which each namespace takes from its own block (fourfold.storage.codec)."""

from __future__ import annotations

from itertools import count as counted_from

import apsw

from fourfold.storage.codec import NUMBERED, block_of, bounds, check_room
from fourfold.storage.sqlite.database import value


def new(db: apsw.Connection, ns: int, kind: str, count: int) -> range:
    """The next ids of a namespace; `kind`: the table."""
    if not count:
        return range(0)
    last = value(db, "SELECT last FROM ids WHERE ns = ? AND kind = ?", ns, kind)
    if last is None:
        last = _last_given(db, _block(db, ns), kind)
    last = _passed(db, last, kind)
    check_room(last, count)
    db.execute("INSERT OR REPLACE INTO ids VALUES (?, ?, ?)", (ns, kind, last + count))
    return range(last + 1, last + 1 + count)


def reset(db: apsw.Connection) -> None:
    """After a load, which brings its own ids: namespaces choose their blocks by these."""
    db.execute("DELETE FROM ids")
    db.execute("DELETE FROM id_blocks")


def _block(db: apsw.Connection, ns: int) -> int:
    """The block of a namespace: that of its newest ids, or the first above them that is free."""
    block = value(db, "SELECT block FROM id_blocks WHERE ns = ?", ns)
    if block is not None:
        return block
    own = max(value(db, f"SELECT max(id) FROM {kind} WHERE ns = ?", ns) or 0 for kind in NUMBERED)  # noqa: S608  (our own tables)
    first = block_of(own)
    if not own or value(db, "SELECT 1 FROM id_blocks WHERE block = ?", first):
        first = next(block for block in counted_from(first) if _is_free(db, block))
    db.execute("INSERT INTO id_blocks VALUES (?, ?)", (first, ns))
    return first


def _is_free(db: apsw.Connection, block: int) -> bool:
    if value(db, "SELECT 1 FROM id_blocks WHERE block = ?", block):
        return False
    return not any(
        value(db, f"SELECT 1 FROM {kind} WHERE id > ? AND id < ? LIMIT 1", *bounds(block))  # noqa: S608  (our own tables)
        for kind in NUMBERED
    )


def _passed(db: apsw.Connection, last: int, kind: str) -> int:
    """What a process of an older version, which counts otherwise, may have given since it opened the store."""
    _, high = bounds(block_of(last))
    return value(db, f"SELECT max(id) FROM {kind} WHERE id > ? AND id < ?", last, high) or last  # noqa: S608  (our own tables)


def _last_given(db: apsw.Connection, block: int, kind: str) -> int:
    """In a block that a namespace begins to use, also by an older version and for what is forgotten by now."""
    low, high = bounds(block)
    tables = ("items", "versions") if kind == "items" else (kind,)
    found = max(value(db, f"SELECT max(id) FROM {table} WHERE id > ? AND id < ?", low, high) or 0 for table in tables)  # noqa: S608  (our own tables)
    given = value(db, "SELECT seq FROM sqlite_sequence WHERE name = ?", kind) or 0
    return max(low, found, given if given < high else 0)
