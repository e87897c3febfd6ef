"""What the snapshots of one store share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from fourfold.model import Filters
from fourfold.storage.sqlite.database import Database
from fourfold.storage.sqlite.indexes import Indexes
from fourfold.storage.sqlite.link_columns import LinkCache
from fourfold.threads import Workers

if TYPE_CHECKING:
    from fourfold.index.rows import Ints
    from fourfold.storage.sqlite.snapshot import SqliteSnapshot

_VECTOR_THREADS = 4
_CACHED_FILTERS = 16


class Caches:
    """Indexes, threads for vector search, and values that hold until a change."""

    def __init__(self, database: Database, indexes: Indexes) -> None:
        self.database = database
        self.indexes = indexes
        self.vector_threads = Workers(_VECTOR_THREADS, "fourfold-near")
        self.links = LinkCache(database, indexes.tuning)
        self.languages: dict[int, tuple[int, Mapping[str, int]]] = {}
        """By namespace, with the change as of which they were read."""
        self.tag_counts: dict[int, tuple[int, float, Mapping[str, int]]] = {}
        self._allowed: OrderedDict[str, tuple[int, Ints]] = OrderedDict()
        self._filtering = [Lock() for _ in range(_CACHED_FILTERS)]

    def allowed(self, at: SqliteSnapshot, filters: Filters) -> Ints:
        """The ids that pass, cached until the namespace changes."""
        name = f"{at.ns} {filters!r}"
        with self._filtering[hash(name) % _CACHED_FILTERS]:  # concurrent searches evaluate a filter once
            known = self._allowed.get(name)
            if known is None or known[0] != at.last_change:
                known = (at.last_change, np.array(at.rows.ids(filters), np.int64))
                self._allowed[name] = known
                while len(self._allowed) > _CACHED_FILTERS:
                    self._allowed.popitem(last=False)
            return known[1]
