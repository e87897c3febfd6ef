"""The items of a namespace for merging and restoring, inside a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from fourfold.embed.windows import Windows
from fourfold.model import Item, NewItem
from fourfold.storage.postgres import items as item_rows
from fourfold.storage.postgres import windows
from fourfold.storage.postgres.rows import load
from fourfold.storage.postgres.sql import column, value
from fourfold.storage.sql.dialect import possible
from fourfold.storage.versioning import given_dimension

if TYPE_CHECKING:
    from fourfold.model import Vector
    from fourfold.storage.postgres.transaction import PostgresTransaction


class StoredItems:
    def __init__(self, tx: PostgresTransaction) -> None:
        self._tx = tx

    def get(self, ids: Sequence[int]) -> Mapping[int, Item]:
        return {row.id: row.as_item(self._tx.ns.name) for row in load(self._tx.db, self._tx.ns.id, ids)}

    def find_key(self, key: str) -> int | None:
        return value(self._tx.db, "SELECT id FROM items WHERE ns = %s AND key = %s", self._tx.ns.id, key)

    def known_raw(self, ids: Sequence[int]) -> Sequence[int]:
        sql = "SELECT id FROM raw WHERE ns = %s AND id = ANY(%s::bigint[])"
        known = set(column(self._tx.db, sql, self._tx.ns.id, possible(ids))) if ids else set[int]()
        return [raw for raw in ids if raw in known]

    def linked(self, item: int) -> bool:
        return bool(value(self._tx.db, "SELECT linked FROM items WHERE id = %s", item))

    def given_vector(self, item: int) -> Vector | None:
        dimension = given_dimension(self._tx.ns.space)
        vector = windows.stored(self._tx.db, self._tx.ns.dimension, [item]).get(item) if dimension else None
        return None if isinstance(vector, Windows) else vector

    def node_texts(self, items: Sequence[int]) -> Sequence[int]:
        sql = "SELECT DISTINCT item FROM node_items WHERE item = ANY(%s::bigint[]) AND made ORDER BY item"
        return column(self._tx.db, sql, list(items))

    def rewrite(self, item: int, new: NewItem, now: datetime) -> None:
        (row,) = load(self._tx.db, self._tx.ns.id, [item])
        item_rows.rewrite(self._tx.db, self._tx.ns, row, new, now)
        self._tx.link([row])

    def insert(self, item: int, new: NewItem, updated: datetime, *, linked: bool, vector: Vector | None) -> None:
        draft = item_rows.Draft([])
        row = draft.add(new, updated, links=linked)
        row.id = item
        if vector is not None and len(vector) == given_dimension(self._tx.ns.space):
            row.vector = vector
        item_rows.write(self._tx.db, self._tx.ns, [row])
        self._tx.link([row])

    def remove(self, items: Sequence[int]) -> None:
        self._tx.remove(items)
