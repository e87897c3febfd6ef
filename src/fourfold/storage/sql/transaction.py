"""One write to one namespace: rows, links and versions in one transaction of the database."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Generic

from fourfold.scheduling import paced
from fourfold.storage.sql.dialect import Db, micros
from fourfold.storage.sql.graph import GraphWriter
from fourfold.storage.sql.items import D, ItemTable, N, VectorWriter
from fourfold.storage.sql.linking import Linked, Linker, LinkRows
from fourfold.storage.sql.origins import FileWriter, RawWriter
from fourfold.storage.sql.rows import Row
from fourfold.text.entities import own_names


class SqlTransaction(ABC, Generic[D, N]):
    """The namespace is created by the first write that stores something: removals leave a missing one missing."""

    def __init__(self, db: D, ns: N, linkers: dict[int, Linker]) -> None:
        self.db = db
        self.ns = ns
        self.changed = False
        self.items_put = 0
        self.linked: set[int] = set()
        """Items whose texts this transaction wrote: indexes do not know them."""
        self._linkers = linkers
        self.items = self._items()
        self.files = FileWriter(self)
        self.raw = RawWriter(self)
        self.vectors = VectorWriter(self)
        self.graph = GraphWriter(self)

    @abstractmethod
    def _items(self) -> ItemTable[D, N]: ...

    @abstractmethod
    def _create(self) -> N: ...

    @abstractmethod
    def store(self) -> None:
        """Writes the row of the namespace at the end of the transaction."""

    @property
    @abstractmethod
    def link_rows(self) -> LinkRows: ...

    def stored(self) -> N:
        """The namespace, created if it does not exist: for a write that stores something."""
        if not self.ns.exists:
            self.ns = self._create()
        self.changed = True
        return self.ns

    @property
    def linker(self) -> Linker:
        return self._linkers.setdefault(self.ns.id, Linker())

    @property
    def requests(self) -> CarriedOut:
        return CarriedOut(self.db, self.ns.id if self.ns.exists else None)

    def link(self, rows: Sequence[Row]) -> None:
        """Makes nodes and mentions of changed and new items follow their texts."""
        changed = [_linked(row) for row in paced(rows) if row.touched and (row.is_retold or row.is_renamed)]
        changed.sort(key=lambda item: item.id)  # nodes are created in the order of items
        if changed:
            self.linker.link(self.link_rows, changed)
            self.linked.update(item.id for item in changed)


def _linked(row: Row) -> Linked:
    if not row.linked:
        return Linked(row.id, "", is_new=row.before is None)
    names = own_names(row.title, row.text, row.metadata, row.kind)
    return Linked(row.id, row.text, names, is_new=row.before is None)


KEPT: Final = timedelta(days=1)


class CarriedOut:
    """`ns`: None while the namespace does not exist; then nothing was carried out in it."""

    def __init__(self, db: Db, ns: int | None) -> None:
        self._db = db
        self._ns = ns

    def find(self, name: bytes) -> tuple[bytes, list[int]] | None:
        sql = "SELECT fingerprint, outcome FROM requests WHERE ns = ? AND name = ?"
        for fingerprint, outcome in [] if self._ns is None else self._db.rows(sql, self._ns, name):
            return bytes(fingerprint), json.loads(outcome)
        return None

    def record(self, name: bytes, fingerprint: bytes, outcome: Sequence[int], now: datetime) -> None:
        if self._ns is None:
            return
        self._db.run("DELETE FROM requests WHERE ns = ? AND done_at < ?", self._ns, micros(now - KEPT))
        row = (self._ns, name, fingerprint, json.dumps(list(outcome)), micros(now))
        self._db.run("INSERT INTO requests (ns, name, fingerprint, outcome, done_at) VALUES (?, ?, ?, ?, ?)", *row)
