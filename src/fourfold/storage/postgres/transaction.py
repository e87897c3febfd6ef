"""One write to one namespace: a transaction that has the namespace's row locked."""

from __future__ import annotations

from fourfold.storage.postgres import namespaces
from fourfold.storage.postgres.items import PostgresItems
from fourfold.storage.postgres.links import PostgresLinkRows
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db
from fourfold.storage.sql.transaction import SqlTransaction


class PostgresTransaction(SqlTransaction[Db, Namespace]):
    def _create(self) -> Namespace:
        return namespaces.create(self.db, self.ns.name)

    def store(self) -> None:
        if self.changed:
            namespaces.store(self.db, self.ns)

    @property
    def table(self) -> PostgresItems:
        return PostgresItems(self.db, self.ns)

    @property
    def link_rows(self) -> PostgresLinkRows:
        return PostgresLinkRows(self.db, self.ns)
