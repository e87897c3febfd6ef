"""The items of a namespace for merging and restoring, inside a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from fourfold.index.source import Change
from fourfold.model import Item, NewItem
from fourfold.storage.sqlite import changes, items, spaces, vectors
from fourfold.storage.sqlite.database import possible, value
from fourfold.storage.versioning import given_dimension

if TYPE_CHECKING:
    from fourfold.model import Vector
    from fourfold.storage.sqlite.transaction import SqliteTransaction


class StoredItems:
    def __init__(self, tx: SqliteTransaction) -> None:
        self._tx = tx

    def get(self, ids: Sequence[int]) -> Mapping[int, Item]:
        return items.get(self._tx.db, self._tx.namespace, self._tx.ns, ids)

    def find_key(self, key: str) -> int | None:
        return items.by_keys(self._tx.db, self._tx.ns, [key]).get(key)

    def known_raw(self, ids: Sequence[int]) -> Sequence[int]:
        sql = "SELECT 1 FROM raw WHERE ns = ? AND id = ?"
        return [raw for raw in possible(ids) if value(self._tx.db, sql, self._tx.ns, raw)]

    def linked(self, item: int) -> bool:
        return items.is_linked(self._tx.db, item)

    def given_vector(self, item: int) -> Vector | None:
        dimension = given_dimension(spaces.space(self._tx.db, self._tx.ns))
        return vectors.single(self._tx.db, [item], dimension).get(item) if dimension else None

    def node_texts(self, items: Sequence[int]) -> Sequence[int]:
        sql = "SELECT 1 FROM node_items WHERE item = ? AND made"
        return [item for item in items if value(self._tx.db, sql, item)]

    def rewrite(self, item: int, new: NewItem, now: datetime) -> None:
        self._tx.items.rewrite(item, new, now)

    def insert(self, item: int, new: NewItem, updated: datetime, *, linked: bool, vector: Vector | None) -> None:
        tx = self._tx
        items.insert(tx.db, tx.ns, new, updated, item)
        tx.db.execute("UPDATE namespaces SET items = items + 1 WHERE id = ?", (tx.ns,))
        change = Change.TEXT
        if vector is not None and len(vector) == given_dimension(spaces.space(tx.db, tx.ns)):
            vectors.put(tx.db, tx.ns, item, np.asarray(vector, np.float32))
            change |= Change.VECTOR
        tx.items.link([item], linked)
        changes.log(tx.db, tx.ns, [(item, change)])

    def remove(self, items: Sequence[int]) -> None:
        self._tx.items.remove(items)
