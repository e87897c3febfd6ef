"""Rows of earlier versions and merged items, as both SQL stores keep them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from fourfold.storage.codec import dumps
from fourfold.storage.values import Version

COLUMNS = "id, item, until, merged, record"
LATEST_FIRST = "ORDER BY until DESC, merged, id"
"""What an item was merged into comes before it."""


class VersionRows(ABC):
    def of_items(self, items: Sequence[int]) -> list[Version]:
        return self._among("item", items)

    def of_ids(self, ids: Sequence[int]) -> list[Version]:
        return self._among("id", ids)

    @abstractmethod
    def _among(self, column: Literal["item", "id"], wanted: Sequence[int]) -> list[Version]: ...


def version_of(row: tuple[Any, ...]) -> Version:
    id, item, until, merged, record = row
    return Version(id, item, until, bool(merged), json.loads(record))


def row_of(version: Version) -> tuple[Any, ...]:
    return (version.id, version.item, version.until, version.merged, dumps(version.record))
