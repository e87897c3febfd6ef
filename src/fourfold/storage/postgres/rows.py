"""Reading rows of items."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fourfold.fields import DETAILS, HISTORY
from fourfold.limits import CANDIDATES
from fourfold.model import Filters, Item, Json, NewItem
from fourfold.storage import codec, versioning
from fourfold.storage.codec import digest, moment
from fourfold.storage.postgres.filters import where
from fourfold.storage.postgres.sql import Db, column, rows, value
from fourfold.storage.postgres.texts import Text
from fourfold.storage.sql import files
from fourfold.storage.sql.dialect import possible, sendable
from fourfold.storage.sql.saved_versions import SavedVersions
from fourfold.storage.values import Vocabulary
from fourfold.text.entities import has_headings

if TYPE_CHECKING:
    from fourfold.embed.windows import Windows
    from fourfold.model import Vector
    from fourfold.storage.postgres.snapshot import PostgresSnapshot

_COLUMNS = (
    "id, key, title, text, kind, metadata, language, created_at, updated_at, path, chunk_index, linked, "
    f"{', '.join((*DETAILS, *HISTORY))}"
)
_TAGS = "ARRAY(SELECT {} FROM item_tags WHERE item = id ORDER BY folded)"
_LOAD = (
    f"SELECT {_COLUMNS}, {_TAGS.format('folded')}, {_TAGS.format('name')}, "  # noqa: S608  (constants)
    "ARRAY(SELECT raw FROM sources WHERE item = id ORDER BY position) FROM items "
    "WHERE ns = %s AND id = ANY(%s::bigint[]) ORDER BY id"
)


@dataclass(slots=True)
class Row:
    """An item with its tags and sources, as it is stored or about to be."""

    id: int
    """0 until it is assigned."""
    key: str | None
    title: str
    text: str
    kind: str | None
    metadata: dict[str, Json]
    language: str
    created_at: datetime
    updated_at: datetime
    path: str | None
    chunk_index: int | None
    linked: bool
    details: dict[str, Any]
    """Those of `DETAILS` that are set."""
    valid_from: datetime | None = None
    superseded_at: datetime | None = None
    supersedes: int | None = None
    version_of: int | None = None
    tags: dict[str, str] = field(default_factory=dict[str, str])
    """Tags: folded form to spelling."""
    sources: list[int] = field(default_factory=list[int])
    before: Text | None = None
    """The stored state; None for a new item."""
    retold: bool = False
    """Whether title, text or language have changed."""
    reworded: bool = False
    """Whether title or text have changed."""
    renamed: bool = False
    """Whether the aliases, which name its nodes, have changed."""
    vector: Vector | Windows | None = None
    """The vector given by the caller, or copied."""
    touched: bool = False

    @property
    def as_text(self) -> Text:
        return Text(self.id, self.title, self.text, self.language)

    def as_item(self, namespace: str) -> Item:
        return Item(
            self.id, namespace, self.key, self.title, self.text, tuple(sorted(self.tags.values())), self.kind,
            self.metadata, self.language, self.created_at, self.updated_at, tuple(self.sources), self.path,
            self.chunk_index, **self.details, **{name: getattr(self, name) for name in HISTORY},
        )  # fmt: skip

    @property
    def subject(self) -> str | None:
        return self.details.get("subject")

    @property
    def attribute(self) -> str | None:
        return self.details.get("attribute")

    @property
    def identity(self) -> bytes | None:
        return identity(self) if self.superseded_at is None else None

    @property
    def fact(self) -> bytes | None:
        """The hash of subject and attribute, by which a new value supersedes older ones; None without an attribute."""
        if self.subject is None or self.attribute is None:
            return None
        return digest(codec.fact_key(self.subject, self.attribute))

    def set_text(self, title: str, text: str, language: str, now: datetime, *, links: bool) -> None:
        """A new title or text moves `updated_at` and needs a new vector."""
        changed = (self.title, self.text) != (title, text)
        if not changed and self.language == language:
            return
        self.title, self.text, self.language, self.linked, self.retold = title, text, language, links, True
        if changed:
            self.updated_at, self.reworded, self.vector = now, True, None

    def set_metadata(self, metadata: dict[str, Json], *, links: bool) -> None:
        if self.metadata.get("aliases") != metadata.get("aliases"):
            self.linked, self.renamed = links, True
        self.metadata = metadata

    def set_kind(self, kind: str | None, *, links: bool) -> None:
        if has_headings(self.kind) != has_headings(kind):
            self.linked, self.renamed = links, True
        self.kind = kind


def identity(item: NewItem | Row) -> bytes | None:
    """An item that has neither key nor path is identified by its text."""
    if item.key is not None or item.path is not None:
        return None
    return digest(codec.text_identity(item.title, item.text, item.subject, item.attribute))


def load(db: Db, ns: int, ids: Sequence[int]) -> list[Row]:
    """Stored items in the order of their ids."""
    return [_row(row) for row in rows(db, _LOAD, ns, possible(dict.fromkeys(ids)))] if ids else []


def load_all(db: Db, ns: int) -> Iterator[Row]:
    """All items of a namespace, page by page."""
    after = 0
    while page := column(db, "SELECT id FROM items WHERE ns = %s AND id > %s ORDER BY id LIMIT 500", ns, after):
        yield from load(db, ns, page)
        after = page[-1]


def _row(row: Any) -> Row:
    id, key, title, text, kind, metadata, language, created, updated, path, chunk, linked, *rest = row
    *optional, folded, names, sources = rest
    return Row(
        id, key, title, text, kind, json.loads(metadata), language, moment(created), moment(updated), path, chunk,
        linked, codec.read_optional(optional[: len(DETAILS)], DETAILS),
        **codec.read_optional(optional[len(DETAILS) :], HISTORY),
        tags=dict(zip(folded, names, strict=True)), sources=sources, before=Text(id, title, text, language),
    )  # fmt: skip


def existing(db: Db, ns: int, ids: Sequence[int]) -> list[int]:
    sql = "SELECT id FROM items WHERE ns = %s AND id = ANY(%s::bigint[]) ORDER BY id"
    return column(db, sql, ns, possible(ids))


class ItemRows:
    def __init__(self, at: PostgresSnapshot) -> None:
        self._at = at

    def get(self, ids: Sequence[int]) -> dict[int, Item]:
        """In the order of `ids`."""
        known = {row.id: row.as_item(self._at.ns.name) for row in load(self._at.db, self._at.ns.id, ids)}
        return {id: known[id] for id in dict.fromkeys(ids) if id in known}

    def find_keys(self, keys: Sequence[str]) -> dict[str, int]:
        sql = "SELECT key, id FROM items WHERE ns = %s AND key = ANY(%s)"
        return dict(rows(self._at.db, sql, self._at.ns.id, list(keys)))

    def list(self, filters: Filters, limit: int, offset: int) -> list[Item]:
        matching, bindings = self._matching(filters)
        sql = f"SELECT id {matching} ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s"
        return list(self.get(column(self._at.db, sql, *bindings, limit, offset)).values())

    def ids(self, filters: Filters, among: Sequence[int] | None = None) -> list[int]:
        matching, bindings = self._matching(filters, among)
        return column(self._at.db, f"SELECT id {matching} ORDER BY id", *bindings)

    def first_ids(self, filters: Filters, most: int) -> list[int]:
        """At most this many of the items that pass, in any order."""
        matching, bindings = self._matching(filters)
        return column(self._at.db, f"SELECT id {matching} LIMIT %s", *bindings, most)

    def count(self, filters: Filters) -> int:
        if filters.condition is None:
            return self._at.ns.items
        matching, bindings = self._matching(filters)
        return value(self._at.db, f"SELECT count(*) {matching}", *bindings)

    def count_longer(self, octets: int) -> int:
        sql = "SELECT count(*) FROM items WHERE ns = %s AND octet_length(text) > %s"
        return value(self._at.db, sql, self._at.ns.id, octets)

    def _matching(self, filters: Filters, among: Sequence[int] | None = None) -> tuple[str, list[Any]]:
        condition, bindings = where(self._at.db, filters, self._at.ns.id)
        if among is None:
            return f"FROM items WHERE ns = %s{condition}", [self._at.ns.id, *bindings]
        sql = f"FROM items WHERE ns = %s AND id = ANY(%s::bigint[]){condition}"
        return sql, [self._at.ns.id, possible(among), *bindings]

    def chunks(self, path: str, first: int, last: int) -> list[Item]:
        return list(self.get(files.chunk_ids(self._at.db, self._at.ns.id, [path], first, last)).values())

    def named_chunks(self, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        passes, bindings = where(self._at.db, filters, self._at.ns.id)
        sql = (
            "SELECT items.id, items.path FROM files JOIN items ON items.ns = files.ns AND items.path = files.path "  # noqa: S608  (constants and our own clauses)
            f"WHERE files.ns = %s AND files.name = ANY(%s) AND items.key IS NULL{passes} "
            "ORDER BY items.path, items.chunk_index LIMIT %s"
        )
        return rows(self._at.db, sql, self._at.ns.id, sendable(names), *bindings, CANDIDATES)

    def history(self, item: int) -> list[Item]:
        if not possible([item]):
            return []
        sql = (
            "SELECT id FROM items WHERE ns = %s AND (id = %s OR version_of = %s OR fact = "
            "(SELECT fact FROM items AS asked WHERE asked.ns = %s AND asked.id = %s))"
        )
        ns = self._at.ns
        known = self.get(column(self._at.db, sql, ns.id, item, item, ns.id, item)).values()
        kept = SavedVersions(self._at.db, ns.id).of_items([item])
        return versioning.latest_first([*known, *(versioning.as_item(each, ns.name) for each in kept)])

    def versions(self, ids: Sequence[int]) -> dict[int, Item]:
        found = SavedVersions(self._at.db, self._at.ns.id).of_ids(ids)
        return {each.id: versioning.as_item(each, self._at.ns.name) for each in found}

    def last_expiry(self, now: datetime) -> datetime | None:
        sql = "SELECT max(expires_at) FROM items WHERE ns = %s AND expires_at <= %s"
        return codec.optional_moment(value(self._at.db, sql, self._at.ns.id, codec.micros(now)))

    def vocabulary(self, field: Vocabulary) -> dict[str, int]:
        keys = ("pair.key", ", jsonb_object_keys(items.facts) AS pair(key)")
        name, table = keys if field == "metadata" else (field, "")
        known = f"ns = %s AND {name} IS NOT NULL AND superseded_at IS NULL"
        sql = f"SELECT {name}, count(*) FROM items{table} WHERE {known} GROUP BY 1"  # noqa: S608  (our own clauses)
        return dict(rows(self._at.db, sql, self._at.ns.id))
