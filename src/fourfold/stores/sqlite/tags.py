"""Tags as the tag retriever needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from fourfold.stores.base import TagUse
from fourfold.stores.sqlite.database import rows, value
from fourfold.stores.sqlite.items import batches, marks, possible


def counts(db: apsw.Connection, ns: int) -> dict[str, int]:
    """Folded tag to the number of items that carry it."""
    return dict(rows(db, "SELECT folded, uses FROM tags WHERE ns = ? AND uses > 0 ORDER BY folded", ns))


def carried(db: apsw.Connection, ns: int, ids: Sequence[int]) -> dict[str, int]:
    """The tags of these items, folded, each with the number of items that carry it."""
    found: dict[str, int] = {}
    for part in batches(possible(ids)):
        sql = (
            "SELECT folded, uses FROM item_tags CROSS JOIN tags ON tags.id = tag "  # noqa: S608  (placeholders)
            f"WHERE item IN ({marks(len(part))}) AND ns = ?"
        )
        found.update(rows(db, sql, *part, ns))
    return found


class _Seen(NamedTuple):
    change: int
    newest: int
    """The highest number of a tag. With its name: where the last ones were removed, numbers are given again."""
    name: str
    tags: frozenset[str]


class SeenTags:
    """The tags that namespaces have or had: most words of a query are none, and then there is nothing to look up."""

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}

    def among(self, db: apsw.Connection, ns: int, change: int, candidates: Sequence[str]) -> list[str]:
        """Those of the candidates that may be tags at this change, the last that `db` sees."""
        seen = self._seen.get(ns)
        if seen is None or seen.change != change:
            seen = self._seen[ns] = self._followed(db, ns, change, seen)
        if len(seen.tags) > _REMEMBERED:
            return list(candidates)
        return [tag for tag in candidates if tag in seen.tags]

    def _followed(self, db: apsw.Connection, ns: int, change: int, seen: _Seen | None) -> _Seen:
        if seen is None or value(db, "SELECT folded FROM tags WHERE id = ?", seen.newest) != seen.name:
            seen = _Seen(change, 0, "", frozenset())
        sql = f"SELECT id, folded FROM tags WHERE id > ? AND +ns = ? ORDER BY id LIMIT {_REMEMBERED + 1}"  # noqa: S608  (constants)
        fresh = rows(db, sql, seen.newest, ns)
        if not fresh:
            return seen._replace(change=change)
        newest, name = fresh[-1]
        return _Seen(change, newest, name, seen.tags.union(tag for _, tag in fresh))


_REMEMBERED = 100_000


def tagged(db: apsw.Connection, ns: int, candidates: Sequence[str]) -> list[TagUse]:
    """Every use of those of these folded strings that are tags."""
    found: list[TagUse] = []
    for part in batches(candidates):
        sql = (
            "SELECT item, folded, uses FROM tags CROSS JOIN item_tags ON tag = tags.id "  # noqa: S608  (placeholders)
            f"WHERE ns = ? AND folded IN ({marks(len(part))})"
        )
        found.extend(map(TagUse._make, rows(db, sql, ns, *part)))
    return sorted(found)
