"""Earlier versions of items, and items that were merged into another one.

Both are rows of a table of their own, each with the item's record as it was, so that no search ever reads them. A
version has an id of its own, a merged item keeps its id. Values of facts are not here: they are superseded items, which
searches for the past find.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fourfold import validation as rules
from fourfold.embed.windows import Windows
from fourfold.errors import Conflict, InvalidItem, NotFound
from fourfold.limits import VERSIONS
from fourfold.model import Item, NewItem, Space
from fourfold.storage import records
from fourfold.storage.codec import micros, moment
from fourfold.storage.values import GIVEN_SPACE, Record, Version

if TYPE_CHECKING:
    from fourfold.model import Vector

_FRAME = ("type", "namespace", "id")


class VersionRows(Protocol):
    """The table of versions of a namespace, inside a transaction."""

    def of_items(self, items: Sequence[int]) -> list[Version]:
        """Versions of these items and what was merged into them, the latest first."""
        ...

    def of_ids(self, ids: Sequence[int]) -> list[Version]: ...

    def add(self, versions: Sequence[Version]) -> None: ...

    def remove(self, ids: Sequence[int]) -> None: ...

    def new_id(self) -> int: ...


class ItemRows(Protocol):
    """The items of a namespace, inside a transaction."""

    def get(self, ids: Sequence[int]) -> Mapping[int, Item]: ...

    def find_key(self, key: str) -> int | None: ...

    def known_raw(self, ids: Sequence[int]) -> Sequence[int]:
        """Those of these raw records that exist."""
        ...

    def linked(self, item: int) -> bool: ...

    def given_vector(self, item: int) -> Vector | None:
        """Its vector, if callers give the vectors of the namespace and no embedder makes them."""
        ...

    def node_texts(self, items: Sequence[int]) -> Sequence[int]:
        """Those of these items that a caller made the text of a node."""
        ...

    def rewrite(self, item: int, new: NewItem, now: datetime) -> None: ...

    def insert(self, item: int, new: NewItem, updated: datetime, *, linked: bool, vector: Vector | None) -> None:
        """Stores an item under an id that it had before."""
        ...

    def remove(self, items: Sequence[int]) -> None:
        """Removes items; their versions stay."""
        ...


def keep(rows: VersionRows, item: Item, now: datetime, *, linked: bool) -> None:
    """Stores an item as it is before a change. Of its versions, the latest VERSIONS stay."""
    known = rows.of_items([item.id])
    own = [version for version in known if not version.merged]
    since = moment(own[0].until) if own else item.created_at
    record = _record(replace(item, valid_from=since), linked=linked)
    rows.add([Version(rows.new_id(), item.id, _after(known, now), merged=False, record=record)])
    rows.remove([version.id for version in own[VERSIONS - 1 :]])


def merge(items: ItemRows, rows: VersionRows, kept: int, others: Sequence[int], now: datetime) -> Item:
    """Leaves one of several items, with the tags and sources of all; the others can be restored."""
    found = items.get([kept, *others])
    for id in (kept, *others):
        if id not in found:
            raise NotFound(f"no item {id}", "fourfold list shows what is stored")
    _check_mergeable(items, found[kept], [found[id] for id in others])
    known = rows.of_items([kept, *others])
    keep(rows, found[kept], moment(until := _after(known, now)), linked=items.linked(kept))
    rows.add([_merged(items, found[id], kept, until) for id in others])
    items.rewrite(kept, _united(found[kept], [found[id] for id in others]), now)
    items.remove(others)
    return items.get([kept])[kept]


def restore(items: ItemRows, rows: VersionRows, ids: Sequence[int], now: datetime) -> list[Item]:
    """Makes versions the present state of their items, and merged items items again; returns these items."""
    found = {version.id: version for version in rows.of_ids(ids)}
    restored: list[int] = []
    for id in ids:
        if id not in found:
            raise NotFound(f"no version {id}", "fourfold history ID shows the versions of an item")
        version = found[id]
        old = records.new_item(version.record)
        new = replace(old, source_ids=tuple(items.known_raw(old.source_ids)))
        if version.merged:
            _check_key(items, id, new)
            updated = records.moment(version.record["updated_at"])
            items.insert(id, new, updated, linked=version.record["linked"], vector=_vector(version.record))
            rows.remove([id])
        else:
            present = items.get([version.item])[version.item]
            keep(rows, present, now, linked=items.linked(version.item))
            place = {"key": present.key, "path": present.path, "chunk_index": present.chunk_index}
            items.rewrite(version.item, replace(new, **place), now)
        restored.append(id if version.merged else version.item)
    return list(items.get(restored).values())


def forget(rows: VersionRows, ids: Sequence[int]) -> int:
    """Removes the versions of items that are gone, and versions that are named themselves; returns how many these are.

    What was merged into such an item goes with it, and so do the versions of that.
    """
    named = rows.of_ids(ids)
    gone = [*named, *rows.of_items([*ids])]
    while gone:
        rows.remove([version.id for version in gone])
        gone = rows.of_items([version.id for version in gone if version.merged])
    return len(named)


def rewrite(rows: VersionRows, id: int, record: Record) -> None:
    """Replaces the record of a version."""
    for version in rows.of_ids([id]):
        rows.remove([id])
        rows.add([version._replace(record=record)])


def is_replaced(old: Item, new: NewItem) -> bool:
    """Whether storing an item again under its key changes what it says."""
    stored = (old.title, old.text, old.kind, dict(old.metadata), list(old.tags))
    return stored != (new.title, new.text, new.kind, dict(new.metadata), sorted(new.tags))


def given_dimension(space: Space | None) -> int:
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
    known = records.as_item({**version.record, "id": version.id, "namespace": namespace})
    return replace(known, superseded_at=moment(version.until), version_of=version.item)


def _after(known: Sequence[Version], now: datetime) -> int:
    """The time of a change, after all earlier changes even if the clock was set back."""
    return max([micros(now), *(version.until + 1 for version in known)])


def _record(item: Item, *, linked: bool, vector: Vector | None = None) -> Record:
    made = None if vector is None else np.float32(vector).tobytes()
    record = records.item_record(item, linked=linked, vector=made)
    return {name: value for name, value in record.items() if name not in _FRAME}


def _vector(record: Record) -> Vector | None:
    found = records.vector(record)
    return None if isinstance(found, Windows) else found


def _merged(items: ItemRows, item: Item, kept: int, until: int) -> Version:
    record = _record(item, linked=items.linked(item.id), vector=items.given_vector(item.id))
    return Version(item.id, kept, until, merged=True, record=record)


def _check_mergeable(items: ItemRows, kept: Item, others: Sequence[Item]) -> None:
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
    for id in items.node_texts([item.id for item in others]):
        raise InvalidItem(f"item {id} is the text of a node", "Keep it, and name the others after it")


def _check_key(items: ItemRows, id: int, new: NewItem) -> None:
    if new.key is not None and (other := items.find_key(new.key)) is not None:
        raise Conflict(f"item {other} has the key of item {id} now: {new.key}", f"Forget item {other} first")


def _united(kept: Item, others: Sequence[Item]) -> NewItem:
    """The kept item with the tags and sources of all. Others raise its trust only if they say the same in its words."""
    tags, sources, source = kept.tags, kept.source_ids, kept.source
    for item in others:
        tags, sources = rules.united(tags, sources, item.given())
        if (item.title, item.text) == (kept.title, kept.text):
            source = rules.most_trusted(source, item.source)
    return replace(kept.given(), tags=tags, source_ids=sources, source=source)
