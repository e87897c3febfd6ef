"""Writing items: a call is applied to the rows that it touches in memory, then the difference is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from fourfold import validation as rules
from fourfold.embed.vectors import check_dimension
from fourfold.errors import NotFound
from fourfold.fields import DETAILS, HISTORY
from fourfold.model import Item, ItemPatch, NewItem, Space
from fourfold.storage import versioning
from fourfold.storage.codec import dumps, micros, optional_micros, read_optional, united_details
from fourfold.storage.postgres import texts, vectors, versions
from fourfold.storage.postgres.filters import facts
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.rows import Row, identity, load
from fourfold.storage.postgres.sql import Db, column, rows, run, run_many
from fourfold.storage.postgres.texts import Text
from fourfold.storage.sql.dialect import possible
from fourfold.storage.sql.ids import new as new_ids
from fourfold.storage.sql.saved_versions import SavedVersions
from fourfold.storage.values import GIVEN_SPACE
from fourfold.text.fold import fold

# ---------------------------------------------------------------- the items of a call


class Draft:
    """The items of one call, found by what identifies them."""

    def __init__(self, known: Iterable[Row]) -> None:
        self.rows: list[Row] = []
        self.named: list[Row] = []
        """In the order of the call; an item that was named twice is listed twice."""
        self._by_identity: dict[Any, Row] = {}
        for row in known:
            self._add(row)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self._by_identity.setdefault(_name(row), row)  # of several items with one text, the oldest counts

    def add(self, item: NewItem, updated: datetime, *, links: bool) -> Row:
        """A new item, whatever is stored."""
        row = _new_row(item, updated, links)
        row.touched = True
        self._add(row)
        return row

    def replaced(self, item: NewItem) -> Row | None:
        """The stored row that this item replaces, because it has the same key or place."""
        row = self._by_identity.get(_name(item))
        return row if row is not None and row.identity is None else None

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
    """The identity of an item; two items with the same identity are one."""
    place = None if item.key is not None or item.path is None else (item.path, item.chunk_index or 0)
    return item.key or place or identity(item)


def _new_row(item: NewItem, updated: datetime, links: bool) -> Row:
    created = item.created_at or updated
    return Row(
        0, item.key, item.title, item.text, item.kind, dict(item.metadata), item.language or "", created, updated,
        item.path, _chunk(item), links, _details(item), tags=_folded(item.tags), sources=list(item.source_ids),
        retold=True, reworded=True,
    )  # fmt: skip


def _chunk(item: NewItem) -> int | None:
    """A path without a number is that of the first chunk."""
    return item.chunk_index or 0 if item.path is not None else item.chunk_index


def _details(item: NewItem) -> dict[str, Any]:
    return {name: value for name in DETAILS if (value := getattr(item, name)) is not None}


def _column(fields: Mapping[str, Any], name: str) -> Any:
    """The value of the column of an optional field."""
    value = fields.get(name)
    return micros(value) if isinstance(value, datetime) else value


def _folded(tags: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for tag in tags:
        found.setdefault(fold(tag), tag)
    return found


def _unite(row: Row, item: NewItem) -> None:
    """Merges an item with the same text: the stored item gets the tags and sources of both."""
    tags, sources = rules.united(row.tags.values(), row.sources, item)
    row.tags, row.sources = _folded(tags), list(sources)
    stored = [_column(row.details, name) for name in DETAILS]
    row.details = read_optional(united_details(stored, item), DETAILS)


def _replace(row: Row, item: NewItem, now: datetime, links: bool) -> None:
    row.set_text(item.title, item.text, item.language or "", now, links=links)
    row.set_metadata(dict(item.metadata), links=links)
    row.set_kind(item.kind, links=links)
    row.path, row.chunk_index = item.path, _chunk(item)
    row.tags, row.sources = _folded(item.tags), list(item.source_ids)
    row.details = _details(item)


# ---------------------------------------------------------------- storing


def put(db: Db, ns: Namespace, new: Sequence[NewItem], now: datetime, *, links: bool) -> Draft:
    """Stores checked items; the draft's rows are in the order in which they were first named."""
    _check_sources(db, ns.id, new)
    draft = Draft(_known(db, ns.id, new))
    known = {row.id: row for row in draft.rows}
    replaced: list[tuple[Item, bool]] = []
    for item in new:
        if (row := draft.replaced(item)) is not None and row.id in known:
            replaced += _replaced(db, ns, known.pop(row.id), item, now)
        draft.put(item, now, links=links)
    _fix_space(ns, new)
    write(db, ns, draft.rows)
    for old, linked in replaced:  # after the rows: new items get their ids first
        versioning.keep(SavedVersions(db, ns.id), old, now, linked=linked)
    versions.settle(db, ns, draft.rows)
    return draft


def _replaced(db: Db, ns: Namespace, row: Row, item: NewItem, now: datetime) -> list[tuple[Item, bool]]:
    """The stored item of which a version has to be kept, and whether it is linked. The value of a fact is kept here."""
    if row.fact is not None or (item.subject is not None and item.attribute is not None):
        if (row.title, row.text) != (item.title, item.text) or row.superseded_at is not None:
            _keep_value(db, ns, row, now)
    elif item.key is not None and versioning.is_replaced(old := row.as_item(ns.name), item):
        return [(old, row.linked)]
    return []


def _keep_value(db: Db, ns: Namespace, row: Row, now: datetime) -> None:
    """Stores the row of a fact as a superseded version of itself; it is believed from now on."""
    kept = versions.version(db, ns, row, now)
    write(db, ns, [kept])
    versions.copy_refusal(db, row, kept)
    row.valid_from, row.superseded_at, row.supersedes = now, None, kept.id


def _check_sources(db: Db, ns: int, new: Sequence[NewItem]) -> None:
    wanted = list(dict.fromkeys(raw for item in new for raw in item.source_ids))
    sql = "SELECT id FROM raw WHERE ns = %s AND id = ANY(%s::bigint[])"
    known = set(column(db, sql, ns, possible(wanted)) if wanted else ())
    for raw in wanted:
        if raw not in known:
            raise NotFound(f"no raw record {raw}", "Store the original first, then refer to its id")


def _known(db: Db, ns: int, new: Sequence[NewItem]) -> list[Row]:
    """The stored items that these may be."""
    names = [item.key for item in new if item.key is not None]
    paths = [item.path for item in new if item.key is None and item.path is not None]
    identities = [identity(item) for item in new]
    found: set[int] = set()
    for sql, wanted in (
        ("key = ANY(%s)", names),
        ("key IS NULL AND path = ANY(%s)", paths),
        ("identity = ANY(%s::bytea[])", [each for each in identities if each is not None]),
    ):
        if wanted:
            found.update(column(db, f"SELECT id FROM items WHERE ns = %s AND {sql}", ns, wanted))  # noqa: S608  (our own clauses)
    return load(db, ns, sorted(found))


def _fix_space(ns: Namespace, new: Iterable[NewItem]) -> None:
    """The first vector that a caller gives fixes the space of a namespace that has none."""
    for item in new:
        if item.vector is not None:
            ns.space = known = ns.space or Space(GIVEN_SPACE, len(item.vector))
            check_dimension(len(item.vector), known.dimension)


def patch(db: Db, ns: Namespace, id: int, change: ItemPatch, now: datetime, *, links: bool, kept: bool) -> Row:
    """Applies a checked patch to the row as it is now."""
    found = load(db, ns.id, possible([id]))
    if not found:
        raise NotFound(f"no item {id}", "fourfold list shows what is stored")
    row = found[0]
    old = row.as_item(ns.name)
    new = rules.patched(old, change)
    if kept and new != old:
        if row.fact is not None:
            _keep_value(db, ns, row, now)
        else:
            versioning.keep(SavedVersions(db, ns.id), old, now, linked=row.linked)
    row.touched = True
    row.set_text(new.title, new.text, new.language, now, links=links)
    row.set_metadata(dict(new.metadata), links=links)
    row.tags, row.details["source"] = _folded(new.tags), new.source
    write(db, ns, [row])
    return row


def rewrite(db: Db, ns: Namespace, row: Row, item: NewItem, now: datetime) -> None:
    """Replaces a stored item by this one, whatever its identity."""
    _replace(row, item, now, row.linked)
    row.touched = True
    write(db, ns, [row])


def forget(db: Db, ns: Namespace, ids: Sequence[int]) -> int:
    """Removes items with everything that belongs to them; returns how many existed."""
    sql = "SELECT id, title, text, language FROM items WHERE ns = %s AND id = ANY(%s::bigint[])"
    gone = [Text(*row) for row in rows(db, sql, ns.id, sorted(set(possible(ids))))]
    if gone:
        found = [text.id for text in gone]
        if ns.superseded:
            versions.relink(db, found)
        vectors.drop(db, ns, found)
        texts.write(db, ns, gone, [])
        _forget_states(db, ns.id, found)
        run(db, "DELETE FROM items WHERE id = ANY(%s::bigint[])", found)
        ns.items -= len(gone)
        ns.touched.update(found)
        for text in gone:
            ns.count_language(text.language, -1)
    return len(gone)


def _forget_states(db: Db, ns: int, ids: Sequence[int]) -> None:
    """Drops the states of the files of which these items are chunks."""
    sql = (
        "DELETE FROM files WHERE ns = %s AND path IN "
        "(SELECT path FROM items WHERE id = ANY(%s::bigint[]) AND key IS NULL AND path IS NOT NULL)"
    )
    run(db, sql, ns, ids)


# ---------------------------------------------------------------- writing rows


def write(db: Db, ns: Namespace, changed: Sequence[Row]) -> None:
    """The difference that these rows make."""
    touched = [row for row in changed if row.touched]
    fresh = [row for row in touched if row.before is None]
    if any(not row.id for row in fresh):
        for row, id in zip(fresh, new_ids(db, ns.id, "items", len(fresh)), strict=True):
            row.id = id
    _write_rows(db, ns.id, touched, fresh)
    _write_labels(db, ns.id, touched)
    _write_vectors(db, ns, touched)
    retold = [row for row in touched if row.retold]
    texts.write(db, ns, [row.before for row in retold if row.before], [row.as_text for row in retold])
    for row in retold:
        ns.count_language(row.language, 1)
        if row.before is not None:
            ns.count_language(row.before.language, -1)
    ns.items += len(fresh)
    ns.touched.update(row.id for row in touched)


def _write_rows(db: Db, ns: int, touched: Sequence[Row], fresh: Sequence[Row]) -> None:
    run_many(
        db,
        f"INSERT INTO items (id, ns, created_at, key, {', '.join(_CHANGEABLE)}) "  # noqa: S608  (constants)
        f"VALUES (%s, %s, %s, %s, {', '.join(_CHANGEABLE.values())})",
        [(row.id, ns, micros(row.created_at), row.key, *_changeable(row)) for row in fresh],
    )
    run_many(
        db,
        f"UPDATE items SET {', '.join(f'{name} = {place}' for name, place in _CHANGEABLE.items())} WHERE id = %s",  # noqa: S608  (constants)
        [(*_changeable(row), row.id) for row in touched if row.before is not None],
    )


_CHANGEABLE = dict.fromkeys(
    (
        "path", "chunk_index", "identity", "linked", "title", "text", "kind", "language", "metadata", "facts",
        "updated_at", "fact", *DETAILS, *HISTORY,
    ),
    "%s",
) | {"facts": "%s::jsonb"}  # fmt: skip
"""Columns that an update writes, with their placeholders."""


def _changeable(row: Row) -> tuple[Any, ...]:
    return (
        row.path, row.chunk_index, row.identity, row.linked, row.title, row.text, row.kind, row.language,
        dumps(row.metadata), facts(row.metadata), micros(row.updated_at), row.fact,
        *(_column(row.details, name) for name in DETAILS),
        optional_micros(row.valid_from), optional_micros(row.superseded_at), row.supersedes, row.version_of,
    )  # fmt: skip


def _write_labels(db: Db, ns: int, touched: Sequence[Row]) -> None:
    known = [row.id for row in touched if row.before is not None]
    if known:
        run(db, "DELETE FROM item_tags WHERE item = ANY(%s::bigint[])", known)
        run(db, "DELETE FROM sources WHERE item = ANY(%s::bigint[])", known)
    run_many(
        db,
        "INSERT INTO item_tags VALUES (%s, %s, %s, %s)",
        [(row.id, ns, folded, name) for row in touched for folded, name in row.tags.items()],
    )
    run_many(
        db,
        "INSERT INTO sources VALUES (%s, %s, %s)",
        [(row.id, place, raw) for row in touched for place, raw in enumerate(row.sources)],
    )


def _write_vectors(db: Db, ns: Namespace, touched: Sequence[Row]) -> None:
    given = [(row.id, row.vector) for row in touched if row.vector is not None]
    lacking = [row for row in touched if row.reworded and row.vector is None]
    vectors.drop(db, ns, [row.id for row in lacking if row.before is not None])
    vectors.wait(db, ns.id, [row.id for row in lacking])
    vectors.put(db, ns, given)
