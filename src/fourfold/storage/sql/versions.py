"""Earlier versions of items, and items that were merged into another one.

Both are rows of a table of their own, each with the item's record as it was, so that no search ever reads them. A
version has an id of its own, a merged item keeps its id. Values of facts are not here: they are superseded items, which
searches for the past find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from fourfold import validation as rules
from fourfold.embed.windows import Windows
from fourfold.errors import Conflict, DamagedStore, InvalidItem, NotFound
from fourfold.limits import VERSIONS
from fourfold.model import Item, NewItem, Space
from fourfold.storage.sql import records
from fourfold.storage.sql.dialect import Db, dumps, micros, moment
from fourfold.storage.sql.rows import new_ids, new_row, read_items
from fourfold.storage.values import GIVEN_SPACE, Record, Version

if TYPE_CHECKING:
    from fourfold.storage.sql.transaction import SqlTransaction

    Tx: TypeAlias = SqlTransaction[Any, Any]

T = TypeVar("T")

_COLUMNS = "id, item, until, merged, record"
_SELECT = f"SELECT {_COLUMNS} FROM versions WHERE ns = ?"  # noqa: S608  (constants)
_LATEST_FIRST = "ORDER BY until DESC, merged, id"
"""What an item was merged into comes before it."""


@dataclass(slots=True, eq=False)
class SavedVersions:
    """The table of versions of a namespace, inside a transaction."""

    _db: Db
    _ns: int

    def of_items(self, items: Sequence[int]) -> list[Version]:
        """Versions of these items and what was merged into them, the latest first."""
        return self._among("item", items)

    def of_ids(self, ids: Sequence[int]) -> list[Version]:
        return self._among("id", ids)

    def at(self, moment: int) -> dict[int, int]:
        """By item, the first version that was replaced after this time."""
        sql = "SELECT item, id FROM versions WHERE ns = ? AND until > ? AND NOT merged ORDER BY until DESC"
        return dict(self._db.rows(sql, self._ns, moment))

    def _among(self, column: str, wanted: Sequence[int]) -> list[Version]:
        if not wanted:
            return []
        sql = f"{_SELECT} AND {column} {self._db.any_id} {_LATEST_FIRST}"
        return list(map(_version, self._db.rows(sql, self._ns, self._db.ids(wanted))))

    def all(self) -> Iterator[Version]:
        return map(_version, self._db.stream(f"{_SELECT} {_LATEST_FIRST}", self._ns))

    def add(self, versions: Sequence[Version]) -> None:
        sql = f"INSERT INTO versions (ns, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608  (constants)
        self._db.run_many(sql, [(self._ns, *each[:-1], dumps(each.record)) for each in versions])

    def remove(self, ids: Sequence[int]) -> None:
        if ids:
            self._db.run(f"DELETE FROM versions WHERE id {self._db.any_id}", self._db.ids(ids))  # noqa: S608  (constants)

    def keep(self, item: Item, now: datetime, *, linked: bool) -> None:
        """Stores an item as it is before a change. Of its versions, the latest VERSIONS stay."""
        earlier = self.of_items([item.id])
        own = [version for version in earlier if not version.merged]
        since = moment(own[0].until) if own else item.created_at
        record = records.item_record(replace(item, valid_from=since), linked=linked, vector=None)
        (id,) = new_ids(self._db, self._ns, "items", 1)
        self.add([Version(id, item.id, _after(earlier, now), merged=False, record=record)])
        self.remove([version.id for version in own[VERSIONS - 1 :]])

    def forget(self, ids: Sequence[int]) -> int:
        """Removes the versions of items that are gone, and versions that are named themselves; returns how many
        these are.

        What was merged into such an item goes with it, and so do the versions of that.
        """
        named = self.of_ids(ids)
        gone = [*named, *self.of_items([*ids])]
        while gone:
            self.remove([version.id for version in gone])
            gone = self.of_items([version.id for version in gone if version.merged])
        return len(named)

    def rewrite(self, id: int, record: Record) -> None:
        """Replaces the record of a version."""
        for version in self.of_ids([id]):
            self.remove([id])
            self.add([version._replace(record=record)])


def _version(row: tuple[Any, ...]) -> Version:
    id, item, until, merged, record = row
    return Version(id, item, until, bool(merged), json.loads(record))


# ---------------------------------------------------------------- merging and restoring


def merge(tx: Tx, kept: int, others: Sequence[int], now: datetime) -> Item:
    """Leaves one of several items, with the tags and sources of all; the others can be restored."""
    items = _items(tx, [kept, *others])
    for id in (kept, *others):
        if id not in items:
            raise NotFound(f"no item {id}", "fourfold list shows what is stored")
    _check_mergeable(tx, items[kept], [items[id] for id in others])
    saved = tx.items.saved
    until = _after(saved.of_items([kept, *others]), now)
    saved.keep(items[kept], moment(until), linked=_is_linked(tx, kept))
    saved.add([_merged(tx, items[id], kept, until) for id in others])
    tx.items.rewrite(kept, _united(items[kept], [items[id] for id in others]), now)
    tx.items.remove(others)
    return _items(tx, [kept])[kept]


def restore(tx: Tx, ids: Sequence[int], now: datetime) -> list[Item]:
    """Makes versions the present state of their items, and merged items items again; returns these items."""
    saved = tx.items.saved
    versions = {version.id: version for version in saved.of_ids(ids)}
    restored: list[int] = []
    for id in ids:
        if id not in versions:
            raise NotFound(f"no version {id}", "fourfold history ID shows the versions of an item")
        version = versions[id]
        old = _read(version, records.new_item)
        new = replace(old, source_ids=tuple(tx.items.known_raw(old.source_ids)))
        if version.merged:
            sql = "SELECT id FROM items WHERE ns = ? AND key = ?"
            if new.key is not None and (other := tx.db.value(sql, tx.ns.id, new.key)) is not None:
                raise Conflict(f"item {other} has the key of item {id} now: {new.key}", f"Forget item {other} first")
            _insert(tx, id, new, version.record)
            saved.remove([id])
        else:
            present = _items(tx, [version.item])[version.item]
            saved.keep(present, now, linked=_is_linked(tx, version.item))
            place = {"key": present.key, "path": present.path, "chunk_index": present.chunk_index}
            tx.items.rewrite(version.item, replace(new, **place), now)
        restored.append(id if version.merged else version.item)
    return list(_items(tx, restored).values())


def _items(tx: Tx, ids: Sequence[int]) -> dict[int, Item]:
    return read_items(tx.db, tx.ns.name, tx.ns.id, ids)


def _is_linked(tx: Tx, item: int) -> bool:
    return bool(tx.db.value("SELECT linked FROM items WHERE id = ?", item))


def _insert(tx: Tx, item: int, new: NewItem, record: Record) -> None:
    """Stores a merged item under the id that it had before."""
    row = new_row(new, records.parse_time(record["updated_at"]), links=record["linked"])
    row.id, vector = item, records.vector(record)
    if vector is not None and not isinstance(vector, Windows) and len(vector) == _given_dimension(tx.ns.space):
        row.vector = vector
    tx.items.write([row])
    tx.link([row])


def is_replaced(old: Item, new: NewItem) -> bool:
    """Whether storing an item again under its key changes what it says."""
    stored = (old.title, old.text, old.kind, dict(old.metadata), list(old.tags))
    return stored != (new.title, new.text, new.kind, dict(new.metadata), sorted(new.tags))


def _given_dimension(space: Space | None) -> int:
    """The dimension of vectors that callers give; 0 where an embedder makes them, or where there are none."""
    return space.dimension if space is not None and space.fingerprint == GIVEN_SPACE else 0


def latest_first(items: Iterable[Item]) -> list[Item]:
    """Items of one history: the present one, then by the time until which each was believed."""
    present = datetime.max.replace(tzinfo=UTC)
    return sorted(
        items,
        key=lambda item: (item.superseded_at or present, item.valid_from or item.created_at, item.id),
        reverse=True,
    )


def as_item(version: Version, namespace: str) -> Item:
    item = _read(version, lambda record: records.as_item({**record, "id": version.id, "namespace": namespace}))
    return replace(item, superseded_at=moment(version.until), version_of=version.item)


def _read(version: Version, made: Callable[[Record], T]) -> T:
    """What is made of the record of a version. `repair` keeps changed bytes, so the record may lack fields."""
    try:
        return made(version.record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"version {version.id} of item {version.item} cannot be read ({error!r})"
        raise DamagedStore(what, f"Restore a backup, or forget item {version.item} with its history") from error


def _after(versions: Sequence[Version], now: datetime) -> int:
    """The time of a change, after all earlier changes even if the clock was set back."""
    return max([micros(now), *(version.until + 1 for version in versions)])


def _merged(tx: Tx, item: Item, kept: int, until: int) -> Version:
    """With its vector, if callers give the vectors of the namespace and no embedder makes them."""
    vector = tx.items.stored_vectors([item.id]).get(item.id) if _given_dimension(tx.ns.space) else None
    content = None if vector is None or isinstance(vector, Windows) else np.float32(vector).tobytes()
    record = records.item_record(item, linked=_is_linked(tx, item.id), vector=content)
    return Version(item.id, kept, until, merged=True, record=record)


def _check_mergeable(tx: Tx, kept: Item, others: Sequence[Item]) -> None:
    """Refuses what would be stored again, or could not be restored as it was."""
    if not others or kept.id in {item.id for item in others}:
        raise InvalidItem("nothing to merge", "Name the item to keep, then others that say the same")
    for item in (kept, *others):
        if item.superseded_at is not None:
            raise Conflict(f"item {item.id} is superseded", "Merge items that are shown by searches")
    for item in others:
        if item.path is not None and item.key is None:
            raise InvalidItem(f"item {item.id} is a part of a file", "Keep it, and name the others after it")
        if item.attribute is not None:
            raise InvalidItem(f"item {item.id} states a fact", "Store the new value of the fact, or forget the item")
    sql = f"SELECT DISTINCT item FROM node_items WHERE item {tx.db.any_id} AND made ORDER BY item"  # noqa: S608  (constants)
    for id in tx.db.column(sql, tx.db.ids(item.id for item in others)):
        raise InvalidItem(f"item {id} is the text of a node", "Keep it, and name the others after it")


def _united(kept: Item, others: Sequence[Item]) -> NewItem:
    """The kept item with the tags and sources of all. Others raise its trust only if they say the same in its words."""
    tags, sources, source = kept.tags, kept.source_ids, kept.source
    for item in others:
        tags, sources = rules.united(tags, sources, item.given())
        if (item.title, item.text) == (kept.title, kept.text):
            source = rules.most_trusted(source, item.source)
    return replace(kept.given(), tags=tags, source_ids=sources, source=source)
