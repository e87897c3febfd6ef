"""Rows of items: as items, and as rows that a write is about to change; and their ids."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count as counted_from
from typing import Any

from fourfold import validation as rules
from fourfold.embed.windows import Windows
from fourfold.errors import StorageFull
from fourfold.fields import DETAILS, HISTORY, OPTIONAL
from fourfold.frozen import thawed
from fourfold.index.log_tail import TextRow
from fourfold.model import Item, Json, NewItem, Vector
from fourfold.storage.sql.dialect import Db, digest, micros, moment
from fourfold.text.entities import has_headings
from fourfold.text.fold import fold

_COLUMNS = (
    "id, key, title, text, kind, metadata, language, created_at, updated_at, path, chunk_index, linked, "
    f"{', '.join(OPTIONAL)}"
)
_TIMES = {name: column.holds == "time" for name, column in OPTIONAL.items()}
TEXT_ROW = "id, title || coalesce(' ' || subject, '') || coalesce(' ' || attribute, ''), text, language"
"""The columns of a `TextRow`."""

_Item: Any = thawed(Item, by_place=True)

# ---------------------------------------------------------------- rows in memory


@dataclass(slots=True)
class Row:
    """An item with its tags and sources, as it is stored or about to be. Values are replaced, never changed.

    Two rows are equal if what they store is, but for their vectors.
    """

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
    before: Row | None = field(default=None, compare=False)
    """The stored state; None for a new item."""
    vector: Vector | Windows | None = field(default=None, compare=False)
    """The vector given by the caller, or copied."""
    touched: bool = field(default=False, compare=False)
    digest: bytes | None = field(default=None, compare=False)
    """The hash of its text, if that is known."""

    @property
    def is_retold(self) -> bool:
        """Whether what the keyword index reads is new."""
        return self.before is None or self.before.as_text != self.as_text

    @property
    def is_reworded(self) -> bool:
        """Whether title or text are new."""
        return self.before is None or (self.before.title, self.before.text) != (self.title, self.text)

    @property
    def is_renamed(self) -> bool:
        """Whether something else that gives it nodes is new."""
        return self.before is not None and _naming(self.before) != _naming(self)

    @property
    def as_text(self) -> TextRow:
        fact = [f" {said}" for said in (self.subject, self.attribute) if said is not None]
        return self.id, "".join([self.title, *fact]), self.text, self.language

    def as_item(self, namespace: str) -> Item:
        item = _Item(
            self.id, namespace, self.key, self.title, self.text, tuple(sorted(self.tags.values())), self.kind,
            self.metadata, self.language, self.created_at, self.updated_at, tuple(self.sources), self.path,
            self.chunk_index, **self.details, **{name: getattr(self, name) for name in HISTORY},
        )  # fmt: skip
        item.__class__ = Item
        return item

    @property
    def subject(self) -> str | None:
        return self.details.get("subject")

    @property
    def attribute(self) -> str | None:
        return self.details.get("attribute")

    @property
    def identity(self) -> bytes | None:
        """The hash of its text, if that identifies it."""
        if self.key is not None or self.path is not None or self.superseded_at is not None:
            return None
        return self.digest or _text_digest(self)

    @property
    def fact(self) -> bytes | None:
        """The hash of subject and attribute, by which a new value supersedes older ones; None without an attribute."""
        if self.subject is None or self.attribute is None:
            return None
        return digest(fact_key(self.subject, self.attribute))

    def tell(
        self, title: str, text: str, language: str, metadata: dict[str, Json], kind: str | None, now: datetime,
        *, links: bool,
    ) -> None:  # fmt: skip
        """A new title or text moves `updated_at` and needs a new vector."""
        old = (self.title, self.text), self.language, _naming(self)
        self.title, self.text, self.language, self.metadata, self.kind = title, text, language, metadata, kind
        self.digest = None
        if old != ((title, text), language, _naming(self)):
            self.linked = links
        if old[0] != (title, text):
            self.updated_at, self.vector = now, None

    def replace(self, item: NewItem, now: datetime, *, links: bool) -> None:
        self.tell(item.title, item.text, item.language or "", dict(item.metadata), item.kind, now, links=links)
        self.path, self.chunk_index = item.path, _chunk(item)
        self.tags, self.sources = folded(item.tags), list(dict.fromkeys(item.source_ids))
        self.details = _details(item)
        self.touched = True

    def unite(self, item: NewItem) -> None:
        """Merges an item with the same text: the stored item gets the tags and sources of both, and new details."""
        tags, sources = rules.united(self.tags.values(), self.sources, item)
        details = {name: value for name, value in self.details.items() if name != "expires_at"} | _details(item)
        if (source := rules.most_trusted(self.details.get("source"), item.source)) is not None:
            details["source"] = source
        united = folded(tags), list(sources), details
        self.touched |= united != (self.tags, self.sources, self.details)
        self.tags, self.sources, self.details = united


def new_row(item: NewItem, updated: datetime, *, links: bool) -> Row:
    return Row(
        0, item.key, item.title, item.text, item.kind, dict(item.metadata), item.language or "",
        item.created_at or updated, updated, item.path, _chunk(item), links, _details(item), tags=folded(item.tags),
        sources=list(dict.fromkeys(item.source_ids)), touched=True,
    )  # fmt: skip


def name_of(item: NewItem | Row) -> str | tuple[str, int] | bytes:
    """What identifies an item: its key, its place in a file, or the hash of its text; these never equal one another."""
    if item.key is not None:
        return item.key
    return _text_digest(item) if item.path is None else (item.path, item.chunk_index or 0)


def folded(tags: Iterable[str]) -> dict[str, str]:
    """Of tags that differ in spelling only, the first one counts."""
    spelled: dict[str, str] = {}
    for tag in tags:
        spelled.setdefault(fold(tag), tag)
    return spelled


def column(fields: dict[str, Any], name: str) -> Any:
    """The value of the column of an optional field."""
    value = fields.get(name)
    return micros(value) if isinstance(value, datetime) else value


def _naming(row: Row) -> tuple[Json, bool]:
    return row.metadata.get("aliases"), has_headings(row.kind)


def _text_digest(item: NewItem | Row) -> bytes:
    return digest(text_identity(item.title, item.text, item.subject, item.attribute))


def text_identity(title: str, text: str, subject: str | None, attribute: str | None) -> str:
    """The identity of an item without key and path: its text, and the fact of which the text is a value."""
    words = text.strip() or f"\0{title.strip()}"
    return words if subject is None else "\0".join((fold(subject), fold(attribute or ""), words))


def fact_key(subject: str, attribute: str) -> str:
    """Equal for two items that state the same attribute of the same subject, however they are spelled."""
    return f"{fold(subject)}\0{fold(attribute)}"


def _chunk(item: NewItem) -> int | None:
    """A path without a number is that of the first chunk."""
    return item.chunk_index or 0 if item.path is not None else item.chunk_index


def _details(item: NewItem) -> dict[str, Any]:
    return {name: value for name in DETAILS if (value := getattr(item, name)) is not None}


# ---------------------------------------------------------------- reading


def load(db: Db, ns: int, ids: Sequence[int]) -> list[Row]:
    """Stored items in the order of their ids."""
    return [_row(row) for row in _selected(db, ns, ids, have_sources=True)] if ids else []


def read_items(db: Db, namespace: str, ns: int, ids: Sequence[int], *, have_sources: bool = True) -> dict[int, Item]:
    """The items of `ids` that exist, in their order. `have_sources`: whether items may refer to raw records."""
    items = {row[0]: _item(namespace, row) for row in _selected(db, ns, ids, have_sources)} if ids else {}
    return {id: items[id] for id in ids if id in items}


def _selected(db: Db, ns: int, ids: Sequence[int], have_sources: bool) -> list[Any]:
    """Tags and sources of an item are values of its row: SQLite releases the GIL for each row that it returns, and
    threads that wait for it make this expensive."""
    sql = (
        f"SELECT {_COLUMNS}, {db.item_tags}, {db.item_sources if have_sources else 'NULL'} FROM items "  # noqa: S608  (constants)
        f"WHERE +ns = ? AND id {db.any_id} ORDER BY id"  # +: SQLite looks up the ids, not the namespace
    )
    return db.rows(sql, ns, db.ids(ids))


def _set_fields(values: Sequence[Any], names: Iterable[str]) -> dict[str, Any]:
    """The fields that are set, from the values of their columns; most items have one or none."""
    fields: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if value is not None:
            fields[name] = moment(value) if _TIMES[name] else value
    return fields


def _row(row: tuple[Any, ...]) -> Row:
    id, key, title, text, kind, metadata, language, created, updated, path, chunk, linked, *rest = row
    *optional, tags, sources = rest
    stored = Row(
        id, key, title, text, kind, json.loads(metadata), language, moment(created), moment(updated), path, chunk,
        bool(linked), _set_fields(optional[: len(DETAILS)], DETAILS),
        **_set_fields(optional[len(DETAILS) :], HISTORY),
        tags=folded(_texts(tags)), sources=_ids(sources),
    )  # fmt: skip
    stored.before = copy.copy(stored)
    return stored


_TIME_PLACES = [place for place, column in enumerate(OPTIONAL.values()) if column.holds == "time"]


def _item(namespace: str, row: tuple[Any, ...]) -> Item:
    id, key, title, text, kind, metadata, language, created, updated, path, chunk, _, *optional, tags, sources = row
    for place in _TIME_PLACES:
        if optional[place] is not None:
            optional[place] = moment(optional[place])
    created_at = moment(created)
    item = _Item(
        id, namespace, key, title, text, tuple(sorted(_texts(tags))) if tags else (), kind,
        {} if metadata == "{}" else json.loads(metadata), language,
        created_at, created_at if updated == created else moment(updated),
        tuple(_ids(sources)) if sources else (), path, chunk, (), *optional,
    )  # fmt: skip
    item.__class__ = Item
    return item


def _texts(value: list[str] | str | None) -> list[str]:
    """`Dialect.item_tags` of a row."""
    return value.split("\0") if isinstance(value, str) else value or []


def _ids(value: list[int] | str | None) -> list[int]:
    """`Dialect.item_sources` of a row."""
    return [int(each) for each in value.split(",")] if isinstance(value, str) else value or []


# ---------------------------------------------------------------- new ids
#
# Ids of items, raw records and nodes are unique in a store, and each namespace assigns its own. A namespace takes
# its ids from its own block, so that they reveal nothing about other namespaces. The first namespace has
# the block 0 and the ids 1, 2, 3, ...; an id is never reused.

BLOCK = 1_000_000_000
"""Number of ids in a block. Nine million blocks fit below LARGEST_ID."""
_NUMBERED = ("items", "raw", "nodes", "versions")
"""Tables that hold ids; versions have ids of items."""


def new_ids(db: Db, ns: int, kind: str, count: int) -> range:
    """The next ids of a namespace, which the caller has locked; `kind`: the table."""
    if not count:
        return range(0)
    sql = "UPDATE ids SET last = last + ? WHERE ns = ? AND kind = ? RETURNING last - ?"
    last = db.value(sql, count, ns, kind, count)
    if last is None:
        last = _last_given(db, _block(db, ns), kind)
        db.run("INSERT INTO ids VALUES (?, ?, ?)", ns, kind, last + count)
    if last % BLOCK + count >= BLOCK:
        raise StorageFull("the namespace has used all of its ids", "Store what follows in another namespace")
    return range(last + 1, last + 1 + count)


def reset_ids(db: Db) -> None:
    """Forgets all blocks with a load, which has its own ids; namespaces then choose their blocks by these."""
    db.run("DELETE FROM ids")
    db.run("DELETE FROM id_blocks")


def _block(db: Db, ns: int) -> int:
    """The block of a namespace: that of its newest ids, or the next free one above them."""
    block = db.value("SELECT block FROM id_blocks WHERE ns = ?", ns)
    if block is not None:
        return block
    own = max(db.value(f"SELECT max(id) FROM {kind} WHERE ns = ?", ns) or 0 for kind in _NUMBERED)  # noqa: S608  (our own tables)
    first = own // BLOCK
    claim = "INSERT INTO id_blocks VALUES (?, ?) ON CONFLICT DO NOTHING"
    for block in counted_from(first):
        is_ours = block == first and own > 0
        # another namespace that claims the same block at the same time waits here, and does not get it
        if (is_ours or not any(_largest(db, kind, block) for kind in _NUMBERED)) and db.run(claim, block, ns):
            return block
    raise AssertionError("unreachable")


def _largest(db: Db, kind: str, block: int) -> int:
    """The largest id of a block in a table; 0 if there is none."""
    sql = f"SELECT max(id) FROM {kind} WHERE id > ? AND id < ?"  # noqa: S608  (our own tables)
    return db.value(sql, block * BLOCK, (block + 1) * BLOCK) or 0


def _last_given(db: Db, block: int, kind: str) -> int:
    """In a block that a namespace begins to use."""
    tables = ("items", "versions") if kind == "items" else (kind,)
    return max(block * BLOCK, *(_largest(db, table, block) for table in tables))
