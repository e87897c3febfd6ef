"""The indexes of all namespaces of one store, opened when they are first needed, and kept up under the lease."""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import apsw
import numpy as np

from fourfold.model import NO_FILTERS, Filters
from fourfold.stores.base import Space
from fourfold.stores.sqlite import files, items, publish, spaces
from fourfold.stores.sqlite.lease import lease
from fourfold.stores.sqlite.text_index import TextIndex, TextState
from fourfold.stores.sqlite.vector_index import VectorIndex, VectorState

if TYPE_CHECKING:
    from fourfold.stores.sqlite.rows import Ints

PUBLISH_AT = 1000
"""Changes in the tail that are worth a publication."""
_REMEMBERED_FILTERS = 16


class OfItem(Protocol):
    @property
    def item(self) -> int: ...


T = TypeVar("T", bound=OfItem)


class Indexes:
    def __init__(self, folder: Path, store: str) -> None:
        self._folder = folder
        self._store = store
        self._texts: dict[int, TextIndex] = {}
        self._vectors: dict[int, VectorIndex] = {}
        self._opening = threading.Lock()
        self._filtered: OrderedDict[str, tuple[int, Ints]] = OrderedDict()

    # ------------------------------------------------------------ searching

    def texts(self, db: apsw.Connection, ns: int) -> TextState:
        with self._opening:
            index = self._texts.setdefault(ns, TextIndex(self._folder / str(ns) / "text", ns, self._store))
        return index.current(db, items.last_change(db, ns))

    def vectors(self, db: apsw.Connection, ns: int, space: Space) -> VectorState:
        with self._opening:
            index = self._vectors.get(ns)
            if index is None or (index.space, index.dimension) != (space.fingerprint, space.dimension):
                folder = self._folder / str(ns) / "vectors"
                index = VectorIndex(folder, ns, self._store, space.fingerprint, space.dimension)
                self._vectors[ns] = index
        return index.current(db, items.last_change(db, ns))

    def allowed(self, db: apsw.Connection, ns: int, filters: Filters) -> Ints | None:
        """The ids that pass; None if all do. Remembered while the change number stands."""
        if filters == NO_FILTERS:
            return None
        name, last = f"{ns} {filters!r}", items.last_change(db, ns)
        known = self._filtered.get(name)
        if known is None or known[0] != last:
            known = (last, np.array(items.matching(db, ns, filters), np.int64))
            self._filtered[name] = known
            while len(self._filtered) > _REMEMBERED_FILTERS:
                self._filtered.popitem(last=False)
        return known[1]

    def passing(self, db: apsw.Connection, ns: int, filters: Filters, found: list[T]) -> list[T]:
        """Those whose item passes."""
        allowed = self.allowed(db, ns, filters)
        if allowed is None or not found:
            return found
        ids = np.array([each.item for each in found], np.int64)
        places = np.minimum(np.searchsorted(allowed, ids), max(len(allowed) - 1, 0))
        passes = allowed[places] == ids if len(allowed) else np.zeros(len(ids), np.bool_)
        return list(compress(found, passes))

    def close(self) -> None:
        """Lets go of the mapped files."""
        self._texts.clear()
        self._vectors.clear()
        self._filtered.clear()

    # ------------------------------------------------------------ keeping up

    def lag(self, db: apsw.Connection, ns: int) -> int:
        """Changes that the published keyword index does not hold yet."""
        try:
            manifest = files.read_manifest(self._folder / str(ns) / "text")
        except files.Damaged:
            manifest = None
        after = manifest.seq if manifest is not None else 0
        sql = "SELECT count(*) FROM changes WHERE ns = ? AND seq > ?"
        return int(db.execute(sql, (ns, after)).get)

    def publish(self, db: apsw.Connection, ns: int) -> bool:
        """Publishes what the tails hold, unless another process is at it."""
        folder = self._folder / str(ns)
        folder.mkdir(parents=True, exist_ok=True)
        with lease(folder / "lease") as mine:
            if not mine:
                return False
            last = items.last_change(db, ns)
            publish.publish_text(db, folder / "text", ns, self._store, last)
            space = spaces.space(db, ns)
            if space is not None:
                publish.publish_vectors(db, folder / "vectors", ns, self._store, space, last)
        self._reload(ns)
        return True

    def _reload(self, ns: int) -> None:
        for indexes in (self._texts, self._vectors):
            if ns in indexes:
                indexes[ns].reload()

    def rebuild(self, db: apsw.Connection, ns: int) -> None:
        """Begins anew, whatever the files say."""
        for name in ("text", "vectors"):
            (self._folder / str(ns) / name / "manifest.json").unlink(missing_ok=True)
        self.publish(db, ns)
