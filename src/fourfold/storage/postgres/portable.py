"""Export and import of a store on PostgreSQL: what differs from `storage.sql.portable`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from fourfold.errors import RequestError
from fourfold.storage.postgres import namespaces, vectors
from fourfold.storage.postgres.sql import Db
from fourfold.storage.postgres.transaction import PostgresTransaction
from fourfold.storage.sql import portable
from fourfold.storage.sql.portable import SqlPortable
from fourfold.storage.values import Record

if TYPE_CHECKING:
    from fourfold.storage.postgres.store import PostgresStore


def records(db: Db, namespace: str | None = None) -> Iterator[Record]:
    """All records, or those of one namespace, in an order that depends on the content alone."""
    return portable.records(db, namespace, vectors.stored)


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

    def _transaction(self, tx: Db, namespace: str) -> PostgresTransaction:
        return PostgresTransaction(tx, namespaces.create(tx, namespace), {})

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        raise RequestError(
            "a store on a server is not removed from here",
            f"Everything is copied. Drop the schema there: DROP SCHEMA {self._store.address.schema} CASCADE",
        )
