"""The items of a namespace for merging and restoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from fourfold.embed.windows import Windows
from fourfold.model import Item, NewItem
from fourfold.storage.memory import graph, items
from fourfold.storage.memory.state import Namespace
from fourfold.storage.versioning import given_dimension

if TYPE_CHECKING:
    from fourfold.model import Vector


class StoredItems:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def get(self, ids: Sequence[int]) -> Mapping[int, Item]:
        return {id: self._ns.items[id].item for id in ids if id in self._ns.items}

    def find_key(self, key: str) -> int | None:
        return items.find_keys(self._ns, [key]).get(key)

    def known_raw(self, ids: Sequence[int]) -> Sequence[int]:
        return [raw for raw in ids if raw in self._ns.raw]

    def linked(self, item: int) -> bool:
        return self._ns.items[item].linked

    def given_vector(self, item: int) -> Vector | None:
        vector = self._ns.items[item].vector if given_dimension(self._ns.space) else None
        return None if isinstance(vector, Windows) else vector

    def node_texts(self, items: Sequence[int]) -> Sequence[int]:
        return sorted({item for (_, item), made in self._ns.own.items() if made and item in items})

    def rewrite(self, item: int, new: NewItem, now: datetime) -> None:
        if items.rewrite(self._ns, item, new, now):
            graph.link(self._ns, [item])

    def insert(self, item: int, new: NewItem, updated: datetime, *, linked: bool, vector: Vector | None) -> None:
        fits = vector is not None and len(vector) == given_dimension(self._ns.space)
        items.insert(self._ns, item, new, updated, linked)
        self._ns.items[item] = replace(self._ns.items[item], vector=vector if fits else None)
        self._ns.items = dict(sorted(self._ns.items.items()))
        graph.link(self._ns, [item])

    def remove(self, items: Sequence[int]) -> None:
        for item in items:
            graph.remove(self._ns, item)
