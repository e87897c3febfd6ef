"""Rows of items: tags, vectors and analysed texts, which differ from SQLite's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fourfold.index.source import TextRow
from fourfold.storage.postgres import texts, vectors, windows
from fourfold.storage.postgres.filters import facts
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db
from fourfold.storage.postgres.texts import Text
from fourfold.storage.sql.items import ItemTable
from fourfold.storage.sql.rows import Row

if TYPE_CHECKING:
    from fourfold.embed.windows import Windows
    from fourfold.model import Vector


class PostgresItems(ItemTable[Db, Namespace]):
    more_columns: ClassVar[Mapping[str, str]] = {"facts": "?::jsonb"}

    def _more_values(self, row: Row) -> tuple[Any, ...]:
        return (facts(row.metadata),)

    def stored_vectors(self, items: Sequence[int]) -> Mapping[int, Vector | Windows]:
        return windows.stored(self.db, self.ns.dimension, items)

    def _drop_vectors(self, items: Sequence[int]) -> None:
        vectors.drop(self.db, self.ns, items)

    def _insert_vectors(self, given: Sequence[tuple[int, Vector | Windows]]) -> None:
        vectors.insert(self.db, self.ns, given)

    def _insert_tags(self, rows: Sequence[Row]) -> None:
        tagged = [(row.id, self.ns.id, folded, name) for row in rows for folded, name in row.tags.items()]
        self.db.run_many("INSERT INTO item_tags VALUES (?, ?, ?, ?)", tagged)

    def _index_texts(self, old: Sequence[TextRow], new: Sequence[TextRow]) -> None:
        texts.write(self.db, self.ns, [Text(*row) for row in old], [Text(*row) for row in new])

    def _remove(self, items: Sequence[int]) -> None:
        """Also drops the states of the files of which these items are chunks; SQLite has a trigger for that."""
        chunks = f"SELECT path FROM items WHERE id {self.db.any_id} AND key IS NULL AND path IS NOT NULL"  # noqa: S608  (constants)
        self.db.run(f"DELETE FROM files WHERE ns = ? AND path IN ({chunks})", self.ns.id, self.db.ids(items))  # noqa: S608  (our own clauses)
        super()._remove(items)
