"""Rows of items: tags and vectors, which differ from PostgreSQL's, and reading by conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fourfold.scheduling import paced
from fourfold.storage.sql.items import ItemTable
from fourfold.storage.sql.namespaces import Namespace
from fourfold.storage.sql.rows import Row
from fourfold.storage.sqlite import vectors
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import unchecked

if TYPE_CHECKING:
    from fourfold.embed.windows import Windows
    from fourfold.model import Vector

_MANY_ITEMS = 100
"""New items from which on foreign keys and triggers cost more than compiling statements again without them."""


class SqliteItems(ItemTable[Connection, Namespace]):
    def stored_vectors(self, items: Sequence[int]) -> Mapping[int, Vector | Windows]:
        return vectors.stored(self.db, self.ns.dimension, items)

    def _drop_vectors(self, items: Sequence[int]) -> None:
        vectors.drop(self.db, self.ns, items)

    def _insert_vectors(self, given: Sequence[tuple[int, Vector | Windows]]) -> None:
        vectors.insert(self.db, self.ns, given)

    def _insert(self, fresh: Sequence[Row]) -> None:
        if len(fresh) < _MANY_ITEMS:
            super()._insert(fresh)
        else:
            with unchecked(self.db):
                super()._insert(fresh)
                self._count_for_triggers(fresh)

    def _count_for_triggers(self, fresh: Sequence[Row]) -> None:
        """What the triggers of new rows count."""
        uses = Counter(tag for row in fresh for tag in row.tags)
        counts = [(count, self.ns.id, tag) for tag, count in uses.items()]
        self.db.run_many("UPDATE tags SET uses = uses + ? WHERE ns = ? AND folded = ?", counts)
        superseded = sum(row.superseded_at is not None for row in fresh)
        expiring = sum(row.details.get("expires_at") is not None for row in fresh)
        if superseded or expiring:
            sql = "UPDATE namespaces SET superseded = superseded + ?, expiring = expiring + ? WHERE id = ?"
            self.db.run(sql, superseded, expiring, self.ns.id)

    def _insert_tags(self, rows: Sequence[Row]) -> None:
        folded = sorted({tag for row in rows for tag in row.tags})
        if not folded:
            return
        db = self.db
        db.run_many("INSERT OR IGNORE INTO tags (ns, folded) VALUES (?, ?)", [(self.ns.id, tag) for tag in folded])
        sql = f"SELECT folded, id FROM tags WHERE ns = ? AND folded {db.any_text}"  # noqa: S608  (constants)
        ids = dict(db.rows(sql, self.ns.id, db.texts(folded)))
        tagged = [(ids[tag], row.id, name) for row in rows for tag, name in row.tags.items()]
        db.run_many("INSERT INTO item_tags VALUES (?, ?, ?)", tagged)


# ---------------------------------------------------------------- reading


def texts(db: Connection, ids: Sequence[int]) -> Iterator[tuple[int, str, str, str]]:
    """(id, title, text, language) of the items that exist, in the order of their ids."""
    sql = f"SELECT id, title, text, language FROM items WHERE id {db.any_id} ORDER BY id"  # noqa: S608  (constants)
    return paced(db.stream(sql, db.ids(ids)))


def all_ids(db: Connection, ns: int) -> list[int]:
    return db.column("SELECT id FROM items WHERE ns = ? ORDER BY id", ns)
