"""Storing and changing items in a draft of a namespace. `changed` means: its links must be rebuilt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from fourfold import validation as rules
from fourfold.embed.vectors import check_dimension
from fourfold.errors import NotFound
from fourfold.model import Item, ItemPatch, NewItem, Space
from fourfold.storage import versioning
from fourfold.storage.codec import fact_key, micros, optional_micros, optional_moment
from fourfold.storage.memory.saved_versions import SavedVersions
from fourfold.storage.memory.state import Namespace, Stored, identity
from fourfold.storage.refusals import SHOWN_ITEMS, still_a_source
from fourfold.storage.values import GIVEN_SPACE, Place, arranged
from fourfold.text.entities import has_headings
from fourfold.text.fold import fold

if TYPE_CHECKING:
    from fourfold.model import Vector


def put_all(ns: Namespace, new: Sequence[NewItem], now: datetime, *, links: bool) -> list[tuple[int, bool]]:
    """Stores the checked items of one write; of those that it replaces, versions are kept after that."""
    known = set(ns.items)
    replaced: list[tuple[Item, bool]] = []
    written: list[tuple[int, bool]] = []
    for item in new:
        if item.key is not None and (found := _find(ns, item)) in known:
            known.discard(found)
            old = ns.items[found]
            is_fact = fact_of(old.item) or fact_of(item)
            if not is_fact and versioning.is_replaced(old.item, item):
                replaced.append((old.item, old.linked))
        written.append(put(ns, item, now, links=links))
    for old, linked in replaced:
        versioning.keep(SavedVersions(ns), old, now, linked=linked)
    return written


def put(ns: Namespace, new: NewItem, now: datetime, *, links: bool) -> tuple[int, bool]:
    """Stores one checked item under its identity; returns its id and whether it changed."""
    _check_sources(ns, new.source_ids)
    found = _find(ns, new)
    if found is None:
        item, changed = _insert(ns, new, now, links), True
    elif identity(new) is not None:
        item, changed = _unite(ns, found, new), False
    else:
        _keep_value(ns, found, new, now)
        item, changed = found, _replace(ns, found, new, now, links)
    if new.vector is not None:
        _give_vector(ns, item, np.asarray(new.vector, np.float32))
    return item, changed


def _keep_value(ns: Namespace, id: int, new: NewItem, now: datetime) -> None:
    """Keeps the earlier value of a fact that gets a new one."""
    old = ns.items[id].item
    is_changed = (old.title, old.text) != (new.title, new.text) or old.superseded_at is not None
    if is_changed and (fact_of(old) or fact_of(new)):
        keep(ns, id, now)


def _find(ns: Namespace, new: NewItem) -> int | None:
    if new.key is not None:
        return find_keys(ns, [new.key]).get(new.key)
    if new.path is not None:
        return next((id for id, stored in ns.items.items() if _place(stored.item) == _place(new)), None)
    return next((id for id, stored in ns.items.items() if stored.identity == identity(new)), None)


def _place(item: Item | NewItem) -> tuple[str, int] | None:
    return None if item.key is not None or item.path is None else (item.path, item.chunk_index or 0)


def find_keys(ns: Namespace, keys: Sequence[str]) -> dict[str, int]:
    return {item.key: id for id, item in all_items(ns) if item.key is not None and item.key in keys}


def all_items(ns: Namespace) -> list[tuple[int, Item]]:
    return [(id, stored.item) for id, stored in ns.items.items()]


def _insert(ns: Namespace, new: NewItem, now: datetime, links: bool) -> int:
    id = ns.counters.new(ns.name, "items")
    insert(ns, id, new, new.created_at or now, links)
    return id


def insert(ns: Namespace, id: int, new: NewItem, updated: datetime, links: bool) -> None:
    """Stores a new item, or one under an id that it had before."""
    item = Item(
        id=id,
        namespace=ns.name,
        key=new.key,
        title=new.title,
        text=new.text,
        tags=_tags(new.tags),
        kind=new.kind,
        metadata=dict(new.metadata),
        language=new.language or "",
        created_at=new.created_at or updated,
        updated_at=updated,
        source_ids=new.source_ids,
        path=new.path,
        chunk_index=_chunk(new),
        occurred_at=new.occurred_at,
        expires_at=new.expires_at,
        source=new.source,
        subject=new.subject,
        attribute=new.attribute,
    )
    ns.items[id] = Stored(item, links)


def _chunk(new: NewItem) -> int | None:
    return new.chunk_index or 0 if new.path is not None else new.chunk_index


def settle(ns: Namespace, new: Iterable[NewItem]) -> None:
    """Orders the values of the facts that these items state."""
    for fact in dict.fromkeys(fact_of(item) for item in new):
        if fact is not None:
            values = [item for _, item in all_items(ns) if fact_of(item) == fact]
            for place in arranged([_place_of(item) for item in values]):
                until = optional_moment(place.superseded_at)
                _set(ns, replace(ns.items[place.id].item, superseded_at=until, supersedes=place.supersedes))


def fact_of(item: Item | NewItem) -> str | None:
    if item.subject is None or item.attribute is None:
        return None
    return fact_key(item.subject, item.attribute)


def _place_of(item: Item) -> Place:
    since = micros(item.valid_from or item.created_at)
    return Place(item.id, since, optional_micros(item.superseded_at), item.supersedes)


def keep(ns: Namespace, id: int, now: datetime) -> None:
    """Stores a copy of an item as its superseded version; the item is believed from now on."""
    old = ns.items[id]
    version = ns.counters.new(ns.name, "items")
    kept = replace(
        old.item,
        id=version,
        key=None,
        path=None,
        chunk_index=None,
        valid_from=old.item.valid_from or old.item.created_at,
        superseded_at=old.item.superseded_at or now,
        version_of=id,
    )
    ns.items[version] = Stored(kept, linked=False, vector=old.vector)
    if id in ns.rejected:
        ns.rejected[version] = ns.rejected[id]
    _set(ns, replace(old.item, valid_from=now, superseded_at=None, supersedes=version))


def versions_of(ns: Namespace, ids: Iterable[int]) -> list[int]:
    wanted = set(ids)
    return [id for id, item in all_items(ns) if item.version_of in wanted]


def relink(ns: Namespace, gone: int) -> None:
    """Makes the successor of an item that is about to go the successor of its predecessor."""
    before = ns.items[gone].item.supersedes
    for _, item in all_items(ns):
        if item.supersedes == gone:
            _set(ns, replace(item, supersedes=before))


def history(ns: Namespace, id: int) -> list[Item]:
    kept = [versioning.as_item(version, ns.name) for version in SavedVersions(ns).of_items([id])]
    if id not in ns.items:
        return versioning.latest_first(kept)
    fact = fact_of(ns.items[id].item)
    found = [
        item
        for other, item in all_items(ns)
        if id in (other, item.version_of) or (fact is not None and fact_of(item) == fact)
    ]
    return versioning.latest_first([*found, *kept])


def _unite(ns: Namespace, id: int, new: NewItem) -> int:
    """Merges the tags and sources of an item with the same text into the stored one."""
    old = ns.items[id].item
    tags, sources = rules.united(old.tags, old.source_ids, new)
    occurred, source = new.occurred_at or old.occurred_at, rules.most_trusted(old.source, new.source)
    item = replace(old, tags=tags, source_ids=sources, occurred_at=occurred, expires_at=new.expires_at, source=source)
    _set(ns, item)
    return id


def _replace(ns: Namespace, id: int, new: NewItem, now: datetime, links: bool) -> bool:
    old = ns.items[id].item
    renamed = old.metadata.get("aliases") != new.metadata.get("aliases")
    renamed = renamed or has_headings(old.kind) != has_headings(new.kind)
    changed = _set_text(ns, id, new.title, new.text, new.language or "", now, links)
    item = replace(
        ns.items[id].item,
        tags=_tags(new.tags),
        kind=new.kind,
        metadata=dict(new.metadata),
        source_ids=new.source_ids,
        path=new.path,
        chunk_index=_chunk(new),
        occurred_at=new.occurred_at,
        expires_at=new.expires_at,
        source=new.source,
        subject=new.subject,
        attribute=new.attribute,
    )
    ns.items[id] = replace(ns.items[id], item=item, linked=links if renamed else ns.items[id].linked)
    return changed or renamed


def rewrite(ns: Namespace, id: int, new: NewItem, now: datetime) -> bool:
    """Makes a stored item this one, linked as before; returns whether its links change."""
    return _replace(ns, id, new, now, ns.items[id].linked)


def patch(ns: Namespace, id: int, change: ItemPatch, now: datetime, *, links: bool, kept: bool) -> bool:
    if id not in ns.items:
        raise NotFound(f"no item {id}", "fourfold list shows what is stored")
    old = ns.items[id].item
    new = rules.patched(old, change)
    if kept and new != old:
        if fact_of(old) is not None:
            keep(ns, id, now)
        else:
            versioning.keep(SavedVersions(ns), old, now, linked=ns.items[id].linked)
    changed = _set_text(ns, id, new.title, new.text, new.language, now, links)
    _set(ns, replace(ns.items[id].item, tags=new.tags, metadata=new.metadata, source=new.source))
    if new.metadata.get("aliases") != old.metadata.get("aliases"):
        ns.items[id] = replace(ns.items[id], linked=links)
        return True
    return changed


def _set_text(ns: Namespace, id: int, title: str, text: str, language: str, now: datetime, links: bool) -> bool:
    """Stores a text. If it differs, `updated_at` becomes now and the item waits for a new vector."""
    stored = ns.items[id]
    old = stored.item
    changed = (old.title, old.text) != (title, text)
    if not changed and old.language == language:
        return False
    item = replace(old, title=title, text=text, language=language, updated_at=now if changed else old.updated_at)
    ns.items[id] = Stored(item, links, None if changed else stored.vector)
    return True


def _set(ns: Namespace, item: Item) -> None:
    ns.items[item.id] = replace(ns.items[item.id], item=item)


def _tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Each tag once, in its first spelling, sorted."""
    first: dict[str, str] = {}
    for tag in tags:
        first.setdefault(fold(tag), tag)
    return tuple(sorted(first.values()))


def _check_sources(ns: Namespace, sources: Iterable[int]) -> None:
    for raw in sources:
        if raw not in ns.raw:
            raise NotFound(f"no raw record {raw}", "Store the original first, then refer to its id")


def _give_vector(ns: Namespace, id: int, vector: Vector) -> None:
    """Stores a caller's vector; the first one fixes the space of a namespace that has none."""
    ns.space = ns.space or Space(GIVEN_SPACE, len(vector))
    check_dimension(len(vector), ns.space.dimension)
    ns.items[id] = replace(ns.items[id], vector=vector)


def forget_raw(ns: Namespace, record: int, *, force: bool) -> None:
    users = [id for id, item in all_items(ns) if record in item.source_ids]
    if users and not force:
        raise still_a_source(record, users[: SHOWN_ITEMS + 1])
    for id in users:
        item = ns.items[id].item
        left = tuple(source for source in item.source_ids if source != record)
        ns.items[id] = replace(ns.items[id], item=replace(item, source_ids=left))
    del ns.raw[record]
