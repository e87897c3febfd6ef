"""Rows of items: storing, changing, reading, forgetting. Every function runs inside its caller's transaction.

What a call means is worked out here, in memory, on the rows that it touches; then the difference is written at once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import items as rules
from fourfold.embed.vectors import check_dimension
from fourfold.errors import NotFound
from fourfold.model import Filters, Item, ItemPatch, Json, NewItem
from fourfold.stores.base import Space, Vocabulary
from fourfold.stores.postgres import texts, vectors
from fourfold.stores.postgres.filters import facts, where
from fourfold.stores.postgres.ids import new as new_ids
from fourfold.stores.postgres.spaces import BY_NAME, Namespace
from fourfold.stores.postgres.sql import Db, Statement, digest, possible, rows, run, run_many
from fourfold.stores.postgres.texts import Text
from fourfold.stores.sqlite.database import dumps, micros, moment
from fourfold.text.fold import fold
from fourfold.text.links import has_headings

if TYPE_CHECKING:
    from fourfold.model import Vector

_COLUMNS = "id, key, title, text, kind, metadata, language, created_at, updated_at, path, chunk_index, linked"


@dataclass(slots=True)
class Row:
    """An item on its way into the store."""

    id: int
    """0 until it gets one."""
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
    tags: dict[str, str] = field(default_factory=dict[str, str])
    """Folded to spelled."""
    sources: list[int] = field(default_factory=list[int])
    before: Text | None = None
    """What was stored; None for a new item."""
    retold: bool = False
    """Title, text or language are others than before."""
    reworded: bool = False
    """Title or text are."""
    renamed: bool = False
    """Its aliases are: it has nodes of these names."""
    vector: Vector | None = None
    """Given with it."""
    touched: bool = False

    @property
    def as_text(self) -> Text:
        return Text(self.id, self.title, self.text, self.language)

    @property
    def identity(self) -> bytes | None:
        return _identity(self.key, self.path, self.title, self.text)

    def set_text(self, title: str, text: str, language: str, now: datetime, *, links: bool) -> None:
        """Where title or text differ, `updated_at` moves and the vector has to be made anew."""
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


def _identity(key: str | None, path: str | None, title: str, text: str) -> bytes | None:
    """The text itself identifies an item that has neither key nor path (B10)."""
    return None if key is not None or path is not None else digest(text.strip() or f"\0{title.strip()}")


def _place(item: NewItem | Row) -> tuple[str, int] | None:
    return None if item.key is not None or item.path is None else (item.path, item.chunk_index or 0)


# ---------------------------------------------------------------- storing


class Draft:
    """The items of one call, found by what identifies them."""

    def __init__(self, known: Iterable[Row]) -> None:
        self.rows: list[Row] = []
        self.named: list[Row] = []
        """In the order of the call; one that was named twice is there twice."""
        self._by_identity: dict[Any, Row] = {}
        for row in known:
            self._add(row)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._by_identity.setdefault(_name(row), row)  # of several with one text the oldest is the one

    def add(self, item: NewItem, updated: datetime, *, links: bool) -> Row:
        """A new item, whatever there is."""
        row = _new_row(item, updated, links)
        row.touched = True
        self._add(row)
        return row

    def put(self, item: NewItem, now: datetime, *, links: bool) -> Row:
        row = self._by_identity.get(_name(item))
        if row is None:
            row = self.add(item, item.created_at or now, links=links)
        elif row.identity is not None:
            _unite(row, item)
        else:
            _replace(row, item, now, links)
        row.touched = True
        self.named.append(row)
        if item.vector is not None:
            row.vector = np.asarray(item.vector, np.float32)
        return row


def _name(item: NewItem | Row) -> Any:
    """What makes two items one."""
    return item.key or _place(item) or _identity(item.key, item.path, item.title, item.text)


def _new_row(item: NewItem, updated: datetime, links: bool) -> Row:
    created = item.created_at or updated
    return Row(
        0, item.key, item.title, item.text, item.kind, dict(item.metadata), item.language or "", created, updated,
        item.path, _chunk(item), links, _folded(item.tags), list(item.source_ids), retold=True, reworded=True,
    )  # fmt: skip


def _chunk(item: NewItem) -> int | None:
    """A path without a chunk is its first one."""
    return item.chunk_index or 0 if item.path is not None else item.chunk_index


def _folded(tags: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for tag in tags:
        found.setdefault(fold(tag), tag)
    return found


def _unite(row: Row, item: NewItem) -> None:
    """The same text again: the item that is there, with the tags and sources of both."""
    tags, sources = rules.united(row.tags.values(), row.sources, item)
    row.tags, row.sources = _folded(tags), list(sources)


def _replace(row: Row, item: NewItem, now: datetime, links: bool) -> None:
    row.set_text(item.title, item.text, item.language or "", now, links=links)
    row.set_metadata(dict(item.metadata), links=links)
    row.set_kind(item.kind, links=links)
    row.path, row.chunk_index = item.path, _chunk(item)
    row.tags, row.sources = _folded(item.tags), list(item.source_ids)


def rewrite(row: Row, item: NewItem, now: datetime) -> None:
    """Makes a stored item this one, whatever identifies it."""
    _replace(row, item, now, row.linked)
    row.touched = True


async def put(db: Db, ns: Namespace, new: Sequence[NewItem], now: datetime, *, links: bool) -> Draft:
    """Stores checked items; the draft's rows are in the order in which they were first named."""
    await _check_sources(db, ns.id, new)
    draft = Draft(await _known(db, ns.id, new))
    for item in new:
        draft.put(item, now, links=links)
    _fix_space(ns, new)
    await write(db, ns, draft.rows)
    return draft


async def _check_sources(db: Db, ns: int, new: Sequence[NewItem]) -> None:
    wanted = list(dict.fromkeys(raw for item in new for raw in item.source_ids))
    known = (
        await rows(db, "SELECT id FROM raw WHERE ns = %s AND id = ANY(%s::bigint[])", ns, possible(wanted))
        if wanted
        else []
    )
    for raw in wanted:
        if (raw,) not in known:
            raise NotFound(f"no raw record {raw}", "Store the original first, then refer to its id")


async def _known(db: Db, ns: int, new: Sequence[NewItem]) -> list[Row]:
    """The stored items that these may be."""
    names = [item.key for item in new if item.key is not None]
    paths = [item.path for item in new if item.key is None and item.path is not None]
    identities = [_identity(item.key, item.path, item.title, item.text) for item in new]
    found: set[int] = set()
    for sql, wanted in (
        ("key = ANY(%s)", names),
        ("key IS NULL AND path = ANY(%s)", paths),
        ("identity = ANY(%s::bytea[])", [identity for identity in identities if identity is not None]),
    ):
        if wanted:
            found.update(id for (id,) in await rows(db, f"SELECT id FROM items WHERE ns = %s AND {sql}", ns, wanted))  # noqa: S608  (our own clauses)
    return await load(db, ns, sorted(found))


def _fix_space(ns: Namespace, new: Iterable[NewItem]) -> None:
    """Callers' own vectors; the first one fixes the space of a namespace that has none."""
    for item in new:
        if item.vector is not None:
            ns.space = known = ns.space or Space("given", len(item.vector))
            check_dimension(len(item.vector), known.dimension)


async def load(db: Db, ns: int, ids: Sequence[int]) -> list[Row]:
    """Items as they are stored, in order."""
    return [_row(row) for row in await rows(db, *_loading("%s", ns, ids))] if ids else []


async def everything(db: Db, ns: int) -> AsyncIterator[Row]:
    """All items of a namespace, page by page."""
    after = 0
    while page := await rows(db, "SELECT id FROM items WHERE ns = %s AND id > %s ORDER BY id LIMIT 500", ns, after):
        for row in await load(db, ns, [id for (id,) in page]):
            yield row
        after = page[-1][0]


def _loading(ns: str, namespace: int | str, ids: Sequence[int]) -> Statement:
    """`ns`: the SQL of a namespace's id, which `namespace` is bound to."""
    tags = "ARRAY(SELECT {} FROM item_tags WHERE item = id ORDER BY folded)"
    sources = "ARRAY(SELECT raw FROM sources WHERE item = id ORDER BY position)"
    sql = (
        f"SELECT {_COLUMNS}, {tags.format('folded')}, {tags.format('name')}, {sources} FROM items "  # noqa: S608  (constants and our own clauses)
        f"WHERE ns = {ns} AND id = ANY(%s::bigint[]) ORDER BY id"
    )
    return sql, namespace, possible(dict.fromkeys(ids))


def _row(row: Any) -> Row:
    id, key, title, text, kind, metadata, language, created, updated, path, chunk, linked, folded, names, sources = row
    return Row(
        id, key, title, text, kind, json.loads(metadata), language, moment(created), moment(updated), path, chunk,
        linked, dict(zip(folded, names, strict=True)), sources, Text(id, title, text, language),
    )  # fmt: skip


# ---------------------------------------------------------------- writing


async def write(db: Db, ns: Namespace, changed: Sequence[Row]) -> None:
    """The difference that these rows make."""
    touched = [row for row in changed if row.touched]
    fresh = [row for row in touched if row.before is None]
    if any(not row.id for row in fresh):
        for row, id in zip(fresh, await new_ids(db, ns.id, "items", len(fresh)), strict=True):
            row.id = id
    await _write_rows(db, ns.id, touched, fresh)
    await _write_labels(db, ns.id, touched)
    await _write_vectors(db, ns, touched)
    retold = [row for row in touched if row.retold]
    await texts.write(db, ns, [row.before for row in retold if row.before], [row.as_text for row in retold])
    for row in retold:
        ns.spoken[row.language] += 1
        if row.before is not None:
            ns.spoken[row.before.language] -= 1
    ns.items += len(fresh)


async def _write_rows(db: Db, ns: int, touched: Sequence[Row], fresh: Sequence[Row]) -> None:
    await run_many(
        db,
        "INSERT INTO items (id, ns, created_at, key, path, chunk_index, identity, linked, title, text, kind, language, "
        "metadata, facts, updated_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s)",
        [(row.id, ns, micros(row.created_at), row.key, *_changeable(row)) for row in fresh],
    )
    await run_many(
        db,
        "UPDATE items SET path = %s, chunk_index = %s, identity = %s, linked = %s, title = %s, text = %s, kind = %s, "
        "language = %s, metadata = %s, facts = %s::jsonb, updated_at = %s WHERE id = %s",
        [(*_changeable(row), row.id) for row in touched if row.before is not None],
    )


def _changeable(row: Row) -> tuple[Any, ...]:
    return (
        row.path, row.chunk_index, row.identity, row.linked, row.title, row.text, row.kind, row.language,
        dumps(row.metadata), facts(row.metadata), micros(row.updated_at),
    )  # fmt: skip


async def _write_labels(db: Db, ns: int, touched: Sequence[Row]) -> None:
    known = [row.id for row in touched if row.before is not None]
    if known:
        await run(db, "DELETE FROM item_tags WHERE item = ANY(%s::bigint[])", known)
        await run(db, "DELETE FROM sources WHERE item = ANY(%s::bigint[])", known)
    await run_many(
        db,
        "INSERT INTO item_tags VALUES (%s, %s, %s, %s)",
        [(row.id, ns, folded, name) for row in touched for folded, name in row.tags.items()],
    )
    await run_many(
        db,
        "INSERT INTO sources VALUES (%s, %s, %s)",
        [(row.id, place, raw) for row in touched for place, raw in enumerate(row.sources)],
    )


async def _write_vectors(db: Db, ns: Namespace, touched: Sequence[Row]) -> None:
    given = [(row.id, row.vector) for row in touched if row.vector is not None]
    lacking = [row.id for row in touched if row.reworded and row.vector is None]
    await vectors.drop(db, ns, [row.id for row in touched if row.before is not None and row.id in lacking])
    await vectors.wait(db, ns.id, lacking)
    await vectors.put(db, ns, given)


async def patch(db: Db, ns: Namespace, id: int, change: ItemPatch, now: datetime, *, links: bool) -> Row:
    """Applies a checked patch to the row as it is now."""
    found = await load(db, ns.id, possible([id]))
    if not found:
        raise NotFound(f"no item {id}", "fourfold list shows what is stored")
    row = found[0]
    new = rules.patched(as_item(ns.name, row), change)
    row.touched = True
    row.set_text(new.title, new.text, new.language, now, links=links)
    row.set_metadata(dict(new.metadata), links=links)
    row.tags = _folded(new.tags)
    await write(db, ns, [row])
    return row


async def forget(db: Db, ns: Namespace, ids: Sequence[int]) -> list[int]:
    """Removes items and all that hangs on them; the ids of those that there were."""
    sql = "SELECT id, title, text, language FROM items WHERE ns = %s AND id = ANY(%s::bigint[])"
    gone = [Text(*row) for row in await rows(db, sql, ns.id, sorted(set(possible(ids))))]
    found = [text.id for text in gone]
    if gone:
        await vectors.drop(db, ns, found)
        await texts.write(db, ns, gone, [])
        await _forget_states(db, ns.id, found)
        await run(db, "DELETE FROM items WHERE id = ANY(%s::bigint[])", found)
        ns.items -= len(gone)
        ns.spoken.subtract(text.language for text in gone)
    return found


async def _forget_states(db: Db, ns: int, ids: Sequence[int]) -> None:
    """What is known of the files that these items are chunks of holds no longer."""
    sql = (
        "DELETE FROM files WHERE ns = %s AND path IN "
        "(SELECT path FROM items WHERE id = ANY(%s::bigint[]) AND key IS NULL AND path IS NOT NULL)"
    )
    await run(db, sql, ns, ids)


# ---------------------------------------------------------------- reading


async def get(db: Db, ns: Namespace, ids: Sequence[int]) -> dict[int, Item]:
    """The items of `ids` that exist, in that order."""
    return await find(db, ns.name, ids)


async def find(db: Db, namespace: str, ids: Sequence[int]) -> dict[int, Item]:
    """The same, without having looked at the namespace."""
    known = {row[0]: as_item(namespace, _row(row)) for row in await rows(db, *_loading(BY_NAME, namespace, ids))}
    return {id: known[id] for id in dict.fromkeys(ids) if id in known}


def as_item(namespace: str, row: Row) -> Item:
    return Item(
        row.id, namespace, row.key, row.title, row.text, tuple(sorted(row.tags.values())), row.kind, row.metadata,
        row.language, row.created_at, row.updated_at, tuple(row.sources), row.path, row.chunk_index,
    )  # fmt: skip


async def listed(db: Db, ns: Namespace, filters: Filters, limit: int, offset: int) -> list[Item]:
    """Newest first."""
    condition, bindings = await where(db, filters, ns.id)
    sql = f"SELECT id FROM items WHERE ns = %s{condition} ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s"  # noqa: S608  (our own clauses)
    ids = [id for (id,) in await rows(db, sql, ns.id, *bindings, limit, offset)]
    return list((await get(db, ns, ids)).values())


async def matching(db: Db, ns: Namespace, filters: Filters, most: int | None = None) -> list[int]:
    """Ids of all items that satisfy the filters, in order; at most so many, if that is said."""
    condition, bindings = await where(db, filters, ns.id)
    if most is not None:
        sql = f"SELECT id FROM items WHERE ns = %s{condition} LIMIT %s"  # noqa: S608  (our own clauses)
        return sorted(id for (id,) in await rows(db, sql, ns.id, *bindings, most))
    sql = f"SELECT id FROM items WHERE ns = %s{condition} ORDER BY id"  # noqa: S608  (our own clauses)
    return [id for (id,) in await rows(db, sql, ns.id, *bindings)]


async def vocabulary(db: Db, ns: Namespace, field: Vocabulary) -> dict[str, int]:
    """Kinds, languages or keys of metadata, each with the number of items that have it."""
    name, table = ("pair.key", ", jsonb_object_keys(items.facts) AS pair(key)") if field == "metadata" else (field, "")
    sql = f"SELECT {name}, count(*) FROM items{table} WHERE ns = %s AND {name} IS NOT NULL GROUP BY 1"  # noqa: S608  (our own clauses)
    return dict(await rows(db, sql, ns.id))


async def passing(db: Db, ns: Namespace, filters: Filters, ids: Sequence[int]) -> set[int]:
    """Those of these items that satisfy the filters."""
    condition, bindings = await where(db, filters, ns.id)
    sql = f"SELECT id FROM items WHERE ns = %s AND id = ANY(%s::bigint[]){condition}"  # noqa: S608  (our own clauses)
    return {id for (id,) in await rows(db, sql, ns.id, ids, *bindings)}


async def by_keys(db: Db, ns: Namespace, wanted: Sequence[str]) -> dict[str, int]:
    return dict(await rows(db, "SELECT key, id FROM items WHERE ns = %s AND key = ANY(%s)", ns.id, list(wanted)))


async def existing(db: Db, ns: int, ids: Sequence[int]) -> list[int]:
    sql = "SELECT id FROM items WHERE ns = %s AND id = ANY(%s::bigint[]) ORDER BY id"
    return [id for (id,) in await rows(db, sql, ns, possible(ids))]
