"""Export and import of a store on PostgreSQL: what differs from `storage.sql.portable`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from fourfold.embed.windows import rows_of, spans_of
from fourfold.errors import RequestError
from fourfold.storage import records as formats
from fourfold.storage.postgres import items, namespaces, windows
from fourfold.storage.postgres.items import Draft
from fourfold.storage.postgres.links import PostgresLinkRows
from fourfold.storage.postgres.rows import load
from fourfold.storage.postgres.sql import Db
from fourfold.storage.sql import portable
from fourfold.storage.sql.portable import NamespaceRow, SqlPortable
from fourfold.storage.values import Record
from fourfold.text.entities import links, normal_name

if TYPE_CHECKING:
    from fourfold.storage.postgres.store import PostgresStore


def records(db: Db, namespace: str | None = None) -> Iterator[Record]:
    """All records, or those of one namespace, in an order that depends on the content alone."""
    return portable.records(db, namespace, _items)


def _items(db: Db, ns: NamespaceRow, page: Sequence[int]) -> Iterator[Record]:
    made = windows.stored(db, ns.dimension, page)
    for row in load(db, ns.id, page):
        vector = made.get(row.id)
        sent = None if vector is None else rows_of(vector).tobytes()
        yield formats.item_record(row.as_item(ns.name), linked=row.linked, vector=sent, spans=spans_of(vector))


class PostgresPortable(SqlPortable[Db]):
    def __init__(self, store: PostgresStore) -> None:
        super().__init__(nullcontext())
        self._store = store

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        for each in self._store.namespaces() if namespace is None else (namespace,):
            self._store.maintenance.catch_up(each)
        with self._store.database.long_snapshot() as db:
            for record in records(db, namespace):
                write(record)

    def writing(self) -> AbstractContextManager[Db]:
        return self._store.database.write()

    def _loader(self, tx: Db, namespace: str) -> _Loader:
        return _Loader(tx, namespace)

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        raise RequestError(
            "a store on a server is not removed from here",
            f"Everything is copied. Drop the schema there: DROP SCHEMA {self._store.address.schema} CASCADE",
        )


class _Loader:
    def __init__(self, db: Db, namespace: str) -> None:
        self._db = db
        self._ns = namespaces.create(db, namespace)
        self.id = self._ns.id

    def load_space(self, fingerprint: str | None, dimension: int | None) -> None:
        self._ns.fingerprint, self._ns.dimension = fingerprint, dimension

    def load_items(self, part: Sequence[Record]) -> None:
        draft = Draft([])
        for record in part:
            row = draft.add(formats.new_item(record), formats.moment(record["updated_at"]), links=record["linked"])
            row.id = record["id"]
            row.vector = formats.vector(record)
            for name, value in formats.version_fields(record).items():
                setattr(row, name, value)
        items.write(self._db, self._ns, draft.rows)
        pointed = {row.id: {normal_name(name) for name in links(row.text)} for row in draft.rows if row.linked}
        PostgresLinkRows(self._db, self._ns).set_pointers(pointed, [])

    def finish(self) -> None:
        self._ns.names += 1
        namespaces.store(self._db, self._ns)
