"""Rows of items: storing, changing, reading, forgetting. Every function runs inside its caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from fourfold import validation as rules
from fourfold.errors import NotFound
from fourfold.fields import DETAILS, OPTIONAL
from fourfold.frozen import thawed
from fourfold.index.source import Change
from fourfold.limits import CANDIDATES
from fourfold.model import NO_FILTERS, Filters, Item, ItemPatch, Json, NewItem
from fourfold.scheduling import paced
from fourfold.storage import codec, versioning
from fourfold.storage.codec import dumps, micros, moment
from fourfold.storage.sql.saved_versions import SavedVersions
from fourfold.storage.sqlite import vectors, versions
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import batches, marks, possible, rows, value
from fourfold.storage.sqlite.filters import where
from fourfold.storage.values import Vocabulary
from fourfold.text.entities import has_headings
from fourfold.text.fold import fold

_COLUMNS = (
    f"id, key, title, text, kind, metadata, language, created_at, updated_at, path, chunk_index, {', '.join(OPTIONAL)}"
)
_OPTIONAL = tuple((name, column.holds == "time") for name, column in OPTIONAL.items())
_DETAILS = ", ".join(DETAILS)
_SET_DETAILS = ", ".join(f"{name} = ?" for name in DETAILS)
_INSERTED = (
    "id, ns, key, path, chunk_index, identity, title, text, kind, language, metadata, created_at, updated_at, linked, "
    f"{_DETAILS}, fact"
)
"""Of a row that is inserted."""
INSERT = f"INSERT INTO items ({_INSERTED}) VALUES ({marks(_INSERTED.count(',') + 1)})"  # noqa: S608  (constants)


class Written(NamedTuple):
    id: int
    change: Change


# ---------------------------------------------------------------- writing


def put_again(db: Connection, ns: int, item: NewItem, now: datetime, *, keep: bool) -> Written:
    """Stores a checked item under the identity of one that is there. `keep`: a version of that one, if it changes."""
    found = _find(db, ns, item)
    if _identity(item) is not None:
        return _unite(db, ns, found, item)
    old = get(db, "", ns, [found])[found]
    if fact_of(old) is not None or fact_of(item) is not None:
        if (old.title, old.text) != (item.title, item.text) or old.superseded_at is not None:
            versions.keep(db, ns, found, now)
    elif keep and item.key is not None and versioning.is_replaced(old, item):
        versioning.keep(SavedVersions(db, ns), old, now, linked=is_linked(db, found))
    return _replace(db, ns, found, item, now)


def rewrite(db: Connection, ns: int, item_id: int, item: NewItem, now: datetime) -> Change:
    """Makes a stored item this one, whatever identifies it."""
    change = _replace(db, ns, item_id, item, now).change
    _refresh_identity(db, item_id, item)
    return change


def _identity(item: NewItem) -> bytes | None:
    """The text itself identifies an item that has neither key nor path."""
    return text_identity(item) if item.key is None and item.path is None else None


def text_identity(item: NewItem) -> bytes:
    return codec.digest(codec.text_identity(item.title, item.text, item.subject, item.attribute))


def fact_of(item: NewItem | Item) -> bytes | None:
    """The hash of the pair that a new value supersedes older ones by; None without an attribute."""
    if item.subject is None or item.attribute is None:
        return None
    return codec.digest(codec.fact_key(item.subject, item.attribute))


def _find(db: Connection, ns: int, item: NewItem) -> int:
    if item.key is not None:
        return value(db, "SELECT id FROM items WHERE ns = ? AND key = ?", ns, item.key)
    if item.path is not None:
        return value(
            db,
            "SELECT id FROM items WHERE ns = ? AND path = ? AND chunk_index = ? AND key IS NULL",
            ns,
            item.path,
            item.chunk_index or 0,
        )
    return value(db, "SELECT min(id) FROM items WHERE ns = ? AND identity = ?", ns, _identity(item))


def chunk_of(item: NewItem) -> int | None:
    """A path without a chunk is its first one."""
    return item.chunk_index or 0 if item.path is not None else item.chunk_index


def insert(db: Connection, ns: int, item: NewItem, updated: datetime, item_id: int) -> None:
    """A row that is restored, under the id that it had."""
    db.execute(
        INSERT,
        (
            item_id, ns, item.key, item.path, chunk_of(item), _identity(item), item.title, item.text, item.kind,
            item.language, dumps(dict(item.metadata)), micros(item.created_at or updated), micros(updated), False,
            *codec.detail_values(item), fact_of(item),
        ),
    )  # fmt: skip
    db.execute("INSERT INTO waiting (ns, item) VALUES (?, ?)", (ns, item_id))
    add_tags(db, ns, item_id, item.tags)
    _add_sources(db, ns, item_id, item.source_ids)
    count_language(db, ns, item.language or "", 1)


def _unite(db: Connection, ns: int, item_id: int, item: NewItem) -> Written:
    """Merges an item with the same text into the stored one, which gets the tags and sources of both."""
    tags = [tag for (tag,) in rows(db, "SELECT name FROM item_tags WHERE item = ?", item_id)]
    sources = [raw for (raw,) in rows(db, "SELECT raw FROM sources WHERE item = ? ORDER BY position", item_id)]
    rules.united(tags, sources, item)
    before = db.total_changes()
    add_tags(db, ns, item_id, item.tags)
    _add_sources(db, ns, item_id, item.source_ids)
    (stored,) = rows(db, f"SELECT {_DETAILS} FROM items WHERE id = ?", item_id)  # noqa: S608  (constants)
    renewed = codec.united_details(stored, item)
    if renewed != [*stored]:
        db.execute(f"UPDATE items SET {_SET_DETAILS} WHERE id = ?", (*renewed, item_id))  # noqa: S608  (constants)
    return Written(item_id, Change.LABELS if db.total_changes() > before else Change(0))


def _replace(db: Connection, ns: int, item_id: int, item: NewItem, now: datetime) -> Written:
    change = set_text(db, ns, item_id, item.title, item.text, item.language or "", now)
    ((metadata, kind),) = rows(db, "SELECT metadata, kind FROM items WHERE id = ?", item_id)
    if _aliases(metadata) != item.metadata.get("aliases") or has_headings(kind) != has_headings(item.kind):
        change |= Change.TEXT
    db.execute(
        f"UPDATE items SET kind = ?, metadata = ?, path = ?, chunk_index = ?, {_SET_DETAILS}, fact = ? WHERE id = ?",  # noqa: S608  (constants)
        (
            item.kind, dumps(dict(item.metadata)), item.path, chunk_of(item), *codec.detail_values(item), fact_of(item),
            item_id,
        ),
    )  # fmt: skip
    db.execute("DELETE FROM item_tags WHERE item = ?", (item_id,))
    add_tags(db, ns, item_id, item.tags)
    db.execute("DELETE FROM sources WHERE item = ?", (item_id,))
    _add_sources(db, ns, item_id, item.source_ids)
    return Written(item_id, change | Change.LABELS)


def _aliases(metadata: str) -> Json:
    """An item has nodes of these names: when they change, its links do."""
    return json.loads(metadata).get("aliases") if "aliases" in metadata else None


def set_text(db: Connection, ns: int, item_id: int, title: str, text: str, language: str, now: datetime) -> Change:
    """Changes title and text; where they differ, `updated_at` moves and the vector has to be renewed."""
    old_title, old_text, old_language = rows(db, "SELECT title, text, language FROM items WHERE id = ?", item_id)[0]
    if old_language != language:
        count_language(db, ns, old_language, -1)
        count_language(db, ns, language, 1)
        db.execute("UPDATE items SET language = ? WHERE id = ?", (language, item_id))
    if (old_title, old_text) == (title, text):
        return Change.TEXT if old_language != language else Change(0)
    db.execute("UPDATE items SET title = ?, text = ?, updated_at = ? WHERE id = ?", (title, text, micros(now), item_id))
    vectors.drop(db, ns, item_id)
    return Change.TEXT | Change.VECTOR


def patch(
    db: Connection, namespace: str, ns: int, item_id: int, change: ItemPatch, now: datetime, *, keep: bool
) -> Change:
    """Applies a checked patch to the row as it is now."""
    old = get(db, namespace, ns, [item_id]).get(item_id)
    if old is None:
        raise NotFound(f"no item {item_id}", "fourfold list shows what is stored")
    new = rules.patched(old, change)
    if keep and new != old:
        if fact_of(old) is not None:
            versions.keep(db, ns, item_id, now)
        else:
            versioning.keep(SavedVersions(db, ns), old, now, linked=is_linked(db, item_id))
    changed = Change(0)
    if change.title is not None or change.text is not None:
        changed |= set_text(db, ns, item_id, new.title, new.text, new.language, now)
        _refresh_identity(db, item_id, NewItem(new.text, new.title, subject=new.subject, attribute=new.attribute))
    if new.source != old.source:
        db.execute("UPDATE items SET source = ? WHERE id = ?", (new.source, item_id))
    if change.metadata is not None:
        changed |= Change.TEXT if new.metadata.get("aliases") != old.metadata.get("aliases") else Change(0)
        db.execute("UPDATE items SET metadata = ? WHERE id = ?", (dumps(dict(new.metadata)), item_id))
    if new.tags != old.tags:
        db.execute("DELETE FROM item_tags WHERE item = ?", (item_id,))
        add_tags(db, ns, item_id, new.tags)
    return changed | Change.LABELS


def _refresh_identity(db: Connection, item_id: int, item: NewItem) -> None:
    """An edited text identifies its item from now on. Of several items with one text the oldest is the one."""
    sql = "UPDATE items SET identity = ? WHERE id = ? AND identity IS NOT NULL"
    db.execute(sql, (text_identity(item), item_id))


def add_tags(db: Connection, ns: int, item_id: int, tags: Iterable[str]) -> None:
    for tag in tags:
        folded = fold(tag)
        db.execute("INSERT OR IGNORE INTO tags (ns, folded) VALUES (?, ?)", (ns, folded))
        tag_id = value(db, "SELECT id FROM tags WHERE ns = ? AND folded = ?", ns, folded)
        db.execute("INSERT OR IGNORE INTO item_tags VALUES (?, ?, ?)", (tag_id, item_id, tag))


def _add_sources(db: Connection, ns: int, item_id: int, source_ids: Sequence[int]) -> None:
    start = value(db, "SELECT coalesce(max(position) + 1, 0) FROM sources WHERE item = ?", item_id)
    known = {raw for (raw,) in rows(db, "SELECT raw FROM sources WHERE item = ?", item_id)}
    for offset, raw in enumerate(raw for raw in source_ids if raw not in known):
        if not possible([raw]) or value(db, "SELECT 1 FROM raw WHERE ns = ? AND id = ?", ns, raw) is None:
            raise NotFound(f"no raw record {raw}", "Store the original first, then refer to its id")
        db.execute("INSERT INTO sources VALUES (?, ?, ?)", (item_id, start + offset, raw))


def count_language(db: Connection, ns: int, language: str, by: int) -> None:
    db.execute(
        "INSERT INTO languages VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET items = items + excluded.items",
        (ns, language, by),
    )


def forget(db: Connection, ns: int, item_id: int) -> bool:
    """Removes an item and all that hangs on it. False if there is none."""
    language = value(db, "SELECT language FROM items WHERE ns = ? AND id = ?", ns, item_id)
    if language is None:
        return False
    versions.relink(db, item_id)
    vectors.remove(db, ns, item_id)
    db.execute("DELETE FROM items WHERE id = ?", (item_id,))
    db.execute("UPDATE namespaces SET items = items - 1 WHERE id = ?", (ns,))
    count_language(db, ns, language, -1)
    return True


# ---------------------------------------------------------------- reading


def get(db: Connection, namespace: str, ns: int, ids: Sequence[int], *, have_sources: bool = True) -> dict[int, Item]:
    """The items of `ids` that exist. `have_sources`: whether items may refer to raw records."""
    found: dict[int, Item] = {}
    for part in batches(possible(ids)):
        whole, sourced = _selecting(len(part))
        sources = _sources(db, sourced, part) if have_sources else {}
        for row in rows(db, whole, ns, *part):
            found[row[0]] = _item(namespace, row, tuple(sources.get(row[0], ())))
    return found


@cache
def _selecting(count: int) -> tuple[str, str]:
    """Statements that read the rows, each with its tags, and the sources of this many items.

    SQLite releases the GIL for each row that it returns, and threads that wait for it make this dear: so the tags of an
    item are one value. They are joined by NUL, which no tag contains (`fold.clean`).
    """
    inside = marks(count)
    return (
        f"SELECT {_COLUMNS}, (SELECT group_concat(name, char(0)) FROM item_tags WHERE item = items.id) "  # noqa: S608  (constants and placeholders)
        f"FROM items WHERE +ns = ? AND id IN ({inside})",
        f"SELECT item, raw FROM sources WHERE item IN ({inside}) ORDER BY item, position",  # noqa: S608  (placeholders)
    )


def _sources(db: Connection, sql: str, ids: Sequence[int]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for item_id, raw in rows(db, sql, *ids):
        groups.setdefault(item_id, []).append(raw)
    return groups


_Item = thawed(Item)


def _item(namespace: str, row: tuple[Any, ...], sources: tuple[int, ...]) -> Item:
    item_id, key, title, text, kind, metadata, language, created, updated, path, chunk, *optional, tags = row
    created_at = moment(created)
    fields: dict[str, Any] = {
        name: moment(value) if is_time else value
        for (name, is_time), value in zip(_OPTIONAL, optional, strict=True)
        if value is not None
    }
    item = _Item(
        item_id, namespace, key, title, text, () if tags is None else tuple(sorted(tags.split("\0"))), kind,
        {} if metadata == "{}" else json.loads(metadata), language,
        created_at, created_at if updated == created else moment(updated), sources, path, chunk,
        **fields,
    )  # fmt: skip
    item.__class__ = Item
    return item


def listed(db: Connection, ns: int, filters: Filters, limit: int, offset: int) -> list[int]:
    """Ids, newest first."""
    condition, bindings = where(filters, ns)
    sql = f"SELECT id FROM items WHERE ns = ?{condition} ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?"  # noqa: S608  (our own clauses)
    return [item_id for (item_id,) in db.execute(sql, (ns, *bindings, limit, offset))]


def matching(db: Connection, ns: int, filters: Filters, among: Sequence[int] | None = None) -> list[int]:
    """Ids of the items that pass the filters, in order: of all, or of `among`."""
    condition, bindings = where(filters, ns)
    if among is None:
        sql = f"SELECT id FROM items WHERE ns = ?{condition} ORDER BY id"  # noqa: S608  (our own clauses)
        return [item_id for (item_id,) in db.execute(sql, (ns, *bindings))]
    found: list[int] = []
    for part in batches(possible(among)):
        sql = f"SELECT id FROM items WHERE +ns = ? AND id IN ({marks(len(part))}){condition}"  # noqa: S608  (our own clauses)
        found += (item_id for (item_id,) in db.execute(sql, (ns, *part, *bindings)))
    return sorted(found)


def count(db: Connection, ns: int, filters: Filters) -> int:
    condition, bindings = where(filters, ns)
    return value(db, f"SELECT count(*) FROM items WHERE ns = ?{condition}", ns, *bindings)  # noqa: S608  (our own clauses)


def named_chunks(db: Connection, ns: int, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
    condition, bindings = ("", ()) if filters is NO_FILTERS else where(filters, ns)
    found: list[tuple[int, str]] = []
    for part in batches(names):
        sql = (
            "SELECT items.id, items.path FROM files CROSS JOIN items "  # noqa: S608  (our own clauses and placeholders)
            "ON items.ns = files.ns AND items.path = files.path "
            f"WHERE files.ns = ? AND files.name IN ({marks(len(part))}) AND items.key IS NULL{condition} "
            "ORDER BY items.path, items.chunk_index LIMIT ?"
        )
        found += rows(db, sql, ns, *part, *bindings, CANDIDATES)
    return sorted(found, key=lambda row: row[1])[:CANDIDATES]


def vocabulary(db: Connection, ns: int, field: Vocabulary) -> dict[str, int]:
    """Kinds, languages or keys of metadata, each with the number of items that have it."""
    name, table = ("pair.key", ", json_each(items.metadata) AS pair") if field == "metadata" else (f"items.{field}", "")
    known = f"items.ns = ? AND {name} IS NOT NULL AND items.superseded_at IS NULL"
    sql = f"SELECT {name}, count(*) FROM items{table} WHERE {known} GROUP BY 1"  # noqa: S608  (our own clauses)
    return dict(rows(db, sql, ns))


def texts(db: Connection, ids: Sequence[int]) -> Iterator[tuple[int, str, str, str]]:
    """(id, title, text, language) of the items that exist."""
    for part in batches(ids):
        sql = f"SELECT id, title, text, language FROM items WHERE id IN ({marks(len(part))}) ORDER BY id"  # noqa: S608  (placeholders)
        yield from paced(db.execute(sql, tuple(part)))


def set_linked(db: Connection, ids: Iterable[int], linked: bool) -> None:
    db.executemany("UPDATE items SET linked = ?1 WHERE id = ?2 AND linked <> ?1", ((linked, item) for item in ids))


def is_linked(db: Connection, item_id: int) -> bool:
    return bool(value(db, "SELECT linked FROM items WHERE id = ?", item_id))


def all_ids(db: Connection, ns: int) -> list[int]:
    return [item_id for (item_id,) in db.execute("SELECT id FROM items WHERE ns = ? ORDER BY id", (ns,))]


def count_longer(db: Connection, ns: int, octets: int) -> int:
    """Does not read the texts: SQLite knows their lengths from the heads of the rows."""
    return value(db, "SELECT count(*) FROM items WHERE ns = ? AND octet_length(text) > ?", ns, octets)


def by_keys(db: Connection, ns: int, keys: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in batches(keys):
        sql = f"SELECT key, id FROM items WHERE ns = ? AND key IN ({marks(len(part))})"  # noqa: S608  (placeholders)
        found.update(rows(db, sql, ns, *part))
    return found
