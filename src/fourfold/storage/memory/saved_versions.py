"""Earlier versions and merged items of a namespace."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.storage.memory.state import Namespace
from fourfold.storage.values import Version


class SavedVersions:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def of_items(self, items: Sequence[int]) -> list[Version]:
        wanted = set(items)
        return [version for version in self.all() if version.item in wanted]

    def of_ids(self, ids: Sequence[int]) -> list[Version]:
        wanted = set(ids)
        return [version for version in self.all() if version.id in wanted]

    def all(self) -> list[Version]:
        """All versions, latest first; an item comes after the one into which it was merged."""
        return sorted(self._ns.versions.values(), key=lambda each: (-each.until, each.merged, each.id))

    def add(self, versions: Sequence[Version]) -> None:
        self._ns.versions.update({version.id: version for version in versions})

    def remove(self, ids: Sequence[int]) -> None:
        for id in ids:
            self._ns.versions.pop(id, None)

    def new_id(self) -> int:
        return self._ns.counters.new(self._ns.name, "items")
