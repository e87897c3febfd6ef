"""The items of one write. Those that are new go in together, in one statement a table instead of a dozen an item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from fourfold.errors import NotFound
from fourfold.fields import DETAILS
from fourfold.model import Item, NewItem
from fourfold.scheduling import paced
from fourfold.storage.codec import detail_values, dumps, micros
from fourfold.storage.sql import ids
from fourfold.storage.sqlite import items, spaces, vectors
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import batches, chunks, marks, possible, rows, unchecked
from fourfold.storage.sqlite.items import Change, Written
from fourfold.text.fold import fold

_READ_ITEMS = 100
"""Items that are read between two pauses for searches."""
_MANY_ITEMS = 100
"""New items from which on foreign keys and triggers cost more than compiling statements again without them."""


class Fresh(NamedTuple):
    """An item that was not there before."""

    id: int
    item: NewItem


class Put(NamedTuple):
    written: list[Written]
    """The written items in the order of the given ones."""
    fresh: list[Fresh]
    """Those that nothing later in the same write has changed."""


def as_stored(db: Connection, namespace: str, ns: int, done: Put, now: datetime) -> list[Item]:
    """The items of a write, in its order: new ones as they were given, the others read in the same transaction."""
    found = {new.id: _item(namespace, new, now) for new in done.fresh if new.item.attribute is None}
    known = [row.id for row in done.written if row.id not in found]
    for part in paced(chunks(known, _READ_ITEMS)):
        found |= items.get(db, namespace, ns, part)
    return [found[row.id] for row in done.written]


def _item(namespace: str, new: Fresh, now: datetime) -> Item:
    item = new.item
    created = item.created_at or now
    return Item(
        new.id, namespace, item.key, item.title, item.text, tuple(sorted(item.tags)), item.kind, dict(item.metadata),
        item.language or "", created, created, tuple(dict.fromkeys(item.source_ids)), item.path, items.chunk_of(item),
        **{name: getattr(item, name) for name in DETAILS},
    )  # fmt: skip


def put(db: Connection, ns: int, new: Sequence[NewItem], now: datetime, *, linked: bool) -> Put:
    """Stores checked items under their identities, with the vectors that they bring.

    New items get their ids first. Versions are kept of what was there before the write, not of states within it.
    """
    identities = [_identity(item) for item in new]
    known = _known(db, ns, identities)
    firsts: dict[Any, NewItem] = {}
    for identity, item in zip(identities, new, strict=True):
        if identity not in known:
            firsts.setdefault(identity, item)
    fresh = list(map(Fresh, ids.new(db, ns, "items", len(firsts)), firsts.values()))
    insert(db, ns, fresh, now, linked=linked)
    firstly = dict(zip(firsts, fresh, strict=True))
    written: list[Written] = []
    for identity, item in zip(identities, new, strict=True):
        first = firstly.pop(identity, None)
        if first is not None:
            written.append(Written(first.id, _change(item)))
            continue
        written.append(_put_again(db, ns, item, now, keep=identity in known))
        known.discard(identity)
    times = Counter(row.id for row in written)
    return Put(written, [new for new in fresh if times[new.id] == 1])


_TEXT_AND_VECTOR = Change.TEXT | Change.VECTOR
"""Made once: flags are slow to put together."""


def _change(item: NewItem) -> Change:
    return Change.TEXT if item.vector is None else _TEXT_AND_VECTOR


def _put_again(db: Connection, ns: int, item: NewItem, now: datetime, *, keep: bool) -> Written:
    """The stored item with this identity, also if it was stored earlier in this call."""
    row = items.put_again(db, ns, item, now, keep=keep)
    if item.vector is None:
        return row
    spaces.put_given(db, ns, row.id, np.asarray(item.vector, np.float32))
    return Written(row.id, row.change | Change.VECTOR)


# ---------------------------------------------------------------- what is there


def _identity(item: NewItem) -> str | tuple[str, int] | bytes:
    """Its key, its place in a file, or the hash of its text; these never equal one another."""
    if item.key is not None:
        return item.key
    if item.path is not None:
        return item.path, item.chunk_index or 0
    return items.text_identity(item)


def _known(db: Connection, ns: int, identities: Iterable[Any]) -> set[Any]:
    """Those that an item of the namespace has."""
    kinds: dict[type, list[Any]] = {str: [], tuple: [], bytes: []}
    for identity in identities:
        kinds[type(identity)].append(identity)
    paths = list(dict.fromkeys(path for path, _ in kinds[tuple]))
    return {
        *(key for (key,) in _selected(db, "key {} AND ns = ?", "key", ns, kinds[str])),
        *_selected(db, "path {} AND ns = ? AND key IS NULL", "path, chunk_index", ns, paths),
        *(text for (text,) in _selected(db, "identity {} AND ns = ?", "identity", ns, kinds[bytes])),
    }


def _selected(db: Connection, condition: str, columns: str, ns: int, among: Sequence[Any]) -> Iterator[Any]:
    for part in batches(among):
        inside = condition.format(f"IN ({marks(len(part))})")
        yield from db.execute(f"SELECT {columns} FROM items WHERE {inside}", (*part, ns))  # noqa: S608  (our own clauses and placeholders)


# ---------------------------------------------------------------- what is new


def insert(db: Connection, ns: int, fresh: Sequence[Fresh], now: datetime, *, linked: bool) -> None:
    """New rows, with all that hangs on them but links and the log."""
    if len(fresh) < _MANY_ITEMS:
        _insert_rows(db, ns, fresh, now, linked)
    else:
        with unchecked(db):
            tagged = _insert_rows(db, ns, fresh, now, linked)
            _count_for_triggers(db, ns, fresh, tagged)
    for language, count in Counter(new.item.language or "" for new in fresh).items():
        items.count_language(db, ns, language, count)
    db.execute("UPDATE namespaces SET items = items + ? WHERE id = ?", (len(fresh), ns))


def _insert_rows(
    db: Connection, ns: int, fresh: Sequence[Fresh], now: datetime, linked: bool
) -> Sequence[tuple[int, int, str]]:
    """Returns the rows of tags: the number of the tag, that of the item, and how the item spells it."""
    db.executemany(items.INSERT, _item_rows(ns, fresh, now, linked))
    _insert_vectors(db, ns, [new for new in fresh if new.item.vector is not None])
    waiting = ((ns, new.id) for new in fresh if new.item.vector is None)
    db.executemany("INSERT INTO waiting (ns, item) VALUES (?, ?)", waiting)
    _insert_sources(db, ns, [new for new in fresh if new.item.source_ids])
    return _insert_tags(db, ns, fresh)


def _count_for_triggers(
    db: Connection, ns: int, fresh: Sequence[Fresh], tagged: Sequence[tuple[int, int, str]]
) -> None:
    """What the triggers of new rows count."""
    uses = Counter(tag for tag, *_ in tagged)
    db.executemany("UPDATE tags SET uses = uses + ? WHERE id = ?", ((count, tag) for tag, count in uses.items()))
    if expiring := sum(new.item.expires_at is not None for new in fresh):
        db.execute("UPDATE namespaces SET expiring = expiring + ? WHERE id = ?", (expiring, ns))


def _item_rows(ns: int, fresh: Iterable[Fresh], now: datetime, linked: bool) -> Iterator[tuple[Any, ...]]:
    stamp = micros(now)
    for item_id, item in paced(fresh):
        created = stamp if item.created_at is None else micros(item.created_at)
        identity = items.text_identity(item) if item.key is None and item.path is None else None
        metadata = dumps(dict(item.metadata)) if item.metadata else "{}"
        yield (
            item_id, ns, item.key, item.path, items.chunk_of(item), identity, item.title, item.text, item.kind,
            item.language, metadata, created, created, linked, *detail_values(item), items.fact_of(item),
        )  # fmt: skip


def _insert_vectors(db: Connection, ns: int, fresh: Sequence[Fresh]) -> None:
    if not fresh:
        return
    given = [(new.id, np.asarray(new.item.vector, np.float32)) for new in fresh]
    spaces.fit_given(db, ns, {len(vector): None for _, vector in given})
    rows = ((item, vector.tobytes()) for item, vector in given)
    db.executemany("INSERT INTO vectors (item, vector) VALUES (?, ?)", rows)
    vectors.count(db, ns, len(given))


def _insert_tags(db: Connection, ns: int, fresh: Sequence[Fresh]) -> list[tuple[int, int, str]]:
    """Returns the new rows. Of tags of an item that differ in spelling only, the first one counts."""
    folded = {tag: fold(tag) for tag in {tag for new in fresh for tag in new.item.tags}}
    if not folded:
        return []
    numbers = _tag_ids(db, ns, sorted(set(folded.values())))
    number_of = {tag: numbers[own] for tag, own in folded.items()}
    tagged = [
        (number, new.id, tag)
        for new in fresh
        for number, tag in {number_of[tag]: tag for tag in reversed(new.item.tags)}.items()
    ]
    db.executemany("INSERT INTO item_tags VALUES (?, ?, ?)", tagged)
    return tagged


def _tag_ids(db: Connection, ns: int, folded: Sequence[str]) -> Mapping[str, int]:
    """Of these tags, which are made if need be."""
    db.executemany("INSERT OR IGNORE INTO tags (ns, folded) VALUES (?, ?)", ((ns, tag) for tag in folded))
    found: dict[str, int] = {}
    for part in batches(folded):
        found.update(
            rows(db, f"SELECT folded, id FROM tags WHERE ns = ? AND folded IN ({marks(len(part))})", ns, *part)  # noqa: S608  (placeholders)
        )
    return found


def _insert_sources(db: Connection, ns: int, fresh: Sequence[Fresh]) -> None:
    wanted = sorted({raw for new in fresh for raw in new.item.source_ids})
    known: set[int] = set()
    for part in batches(possible(wanted)):
        sql = f"SELECT id FROM raw WHERE +ns = ? AND id IN ({marks(len(part))})"  # noqa: S608  (placeholders)
        known.update(raw for (raw,) in rows(db, sql, ns, *part))
    if missing := [raw for raw in wanted if raw not in known]:
        raise NotFound(f"no raw record {missing[0]}", "Store the original first, then refer to its id")
    places = ((new.id, place, raw) for new in fresh for place, raw in enumerate(dict.fromkeys(new.item.source_ids)))
    db.executemany("INSERT INTO sources VALUES (?, ?, ?)", places)
