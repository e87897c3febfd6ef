"""One write to one namespace: rows, links and versions in one transaction of the database.

A call is applied to the rows that it touches in memory, then the difference is written.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np

from fourfold import validation as rules
from fourfold.embed.base import wrong_dimension
from fourfold.embed.windows import Windows
from fourfold.errors import NotFound
from fourfold.fields import DETAILS, HISTORY
from fourfold.index.log_tail import Change, TextRow
from fourfold.model import Item, ItemPatch, NewItem, Space, Vector
from fourfold.storage.sql.dialect import Db, dumps, micros, optional_micros, optional_moment, paced_rows, pages
from fourfold.storage.sql.graph import GraphWriter, prune
from fourfold.storage.sql.linking import Linked, Linker, LinkRows
from fourfold.storage.sql.namespaces import Namespace, store_pace
from fourfold.storage.sql.origins import FileWriter, RawWriter
from fourfold.storage.sql.replica import ReplicaWriter
from fourfold.storage.sql.rows import TEXT_ROW, Row, column, folded, load, name_of, new_ids, new_row
from fourfold.storage.sql.versions import SavedVersions, is_replaced, merge, restore
from fourfold.storage.values import GIVEN_SPACE, MadeVectors, PendingText, Place, Record, arranged
from fourfold.text.entities import own_names

D = TypeVar("D", bound=Db)
N = TypeVar("N", bound=Namespace)

_CHANGEABLE = (
    "path", "chunk_index", "identity", "linked", "title", "text", "kind", "language", "metadata", "updated_at", "fact",
    *DETAILS, *HISTORY,
)  # fmt: skip
"""Columns that an update writes."""
_PAGE_VECTORS = 1000
_MANY_ITEMS = 100
"""From this number on, a database may insert new items in another way."""
_TEXT, _VECTOR, _LABELS = Change.TEXT.value, Change.VECTOR.value, Change.LABELS.value
"""Numbers: flags are slow to combine."""


class ItemTable(ABC, Generic[D, N]):
    """The items of a namespace with their tags, sources, vectors and versions, inside a transaction."""

    more_columns: ClassVar[Mapping[str, str]] = {}
    """Columns that only this database has, and their placeholders."""

    def __init__(self, tx: SqlTransaction[D, N]) -> None:
        self.tx = tx
        self.db = tx.db

    @property
    def saved(self) -> SavedVersions:
        return SavedVersions(self.db, self.tx.ns.id)

    # ------------------------------------------------------------ what differs

    @abstractmethod
    def stored_vectors(self, items: Sequence[int]) -> Mapping[int, Vector | Windows]:
        """The vector of each item that has one, or its windows."""

    @abstractmethod
    def drop_vectors(self, items: Sequence[int]) -> None:
        """Removes vectors, and takes the items from the queue."""

    @abstractmethod
    def insert_vectors(self, vectors: Sequence[tuple[int, Vector | Windows]]) -> None: ...

    @abstractmethod
    def _insert_tags(self, rows: Sequence[Row]) -> None: ...

    def _more_values(self, row: Row) -> tuple[Any, ...]:
        """The values of `more_columns`."""
        return ()

    def _index_texts(self, old: Sequence[TextRow], new: Sequence[TextRow]) -> None:
        """Keeps an index inside the database, if it has one."""

    def _remove(self, items: Sequence[int]) -> None:
        self.db.run(f"DELETE FROM items WHERE id {self.db.any_id}", self.db.ids(items))  # noqa: S608  (constants)

    # ------------------------------------------------------------ storing

    def put(self, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        """Stores checked items; returns them as stored, in order. With `links`, titles and mentions become nodes.

        A new value of a fact (`subject` and `attribute`) supersedes the stored one (`storage.values.arranged`).
        InvalidVector if a vector is not in the namespace's space, NotFound for unknown source_ids, InvalidItem if a
        merged item exceeds a limit.
        """
        return [row.as_item(self.tx.ns.name) for row in paced_rows(self.store(items, now, links=links))]

    def store(self, new: Sequence[NewItem], now: datetime, *, links: bool) -> list[Row]:
        """Stores checked items; returns the row of each.

        New items get their ids first. Versions are kept of what was there before the call, not of states within it.
        """
        if not new:
            return []
        self.tx.stored()
        self._check_sources(new)
        names = [name_of(item) for item in paced_rows(new)]
        rows = {name_of(row): row for row in reversed(self._stored(names))}  # of items with one text, the oldest counts
        stored = {row.id for row in rows.values()}
        replaced: list[tuple[Item, bool]] = []
        named: list[Row] = []
        for name, item in zip(names, paced_rows(new), strict=True):
            row = rows.get(name)
            if row is None:
                row = rows[name] = new_row(item, item.created_at or now, links=links)
                row.digest = name if isinstance(name, bytes) else None
            elif isinstance(name, bytes):
                row.unite(item)
            else:
                if row.id in stored:
                    stored.remove(row.id)
                    replaced += self._replaced(row, item, now)
                row.replace(item, now, links=links)
            if item.vector is not None:
                row.vector, row.touched = np.asarray(item.vector, np.float32), True
                self.fix_space(len(item.vector))
            named.append(row)
        written = list(rows.values())
        self.write(written)
        for old, linked in replaced:
            self.saved.keep(old, now, linked=linked)
        self.settle(written)
        self.tx.link(written)
        self.tx.items_put += len(new)
        return named

    def _check_sources(self, new: Sequence[NewItem]) -> None:
        wanted = list(dict.fromkeys(raw for item in new for raw in item.source_ids))
        stored = set(self.known_raw(wanted))
        for raw in wanted:
            if raw not in stored:
                raise NotFound(f"no raw record {raw}", "Store the original first, then refer to its id")

    def known_raw(self, ids: Sequence[int]) -> list[int]:
        """Those of these raw records that exist."""
        sql = f"SELECT id FROM raw WHERE +ns = ? AND id {self.db.any_id}"  # noqa: S608  (constants)
        stored = set(self.db.column(sql, self.tx.ns.id, self.db.ids(ids))) if ids else set[int]()
        return [raw for raw in ids if raw in stored]

    def _stored(self, names: Iterable[Any]) -> list[Row]:
        """The stored items that have one of these names."""
        kinds: dict[type, list[Any]] = {str: [], tuple: [], bytes: []}
        for name in names:
            kinds[type(name)].append(name)
        db, items = self.db, set[int]()
        paths, chunks = ({name[part] for name in kinds[tuple]} for part in (0, 1))
        for kind, condition, *bound in (
            (str, f"key {db.any_text}", db.texts(kinds[str])),
            (
                tuple,
                f"key IS NULL AND path {db.any_text} AND chunk_index {db.any_id}",
                db.texts(paths),
                db.id_set([*chunks]),
            ),
            (bytes, f"identity {db.any_digest}", db.digests(kinds[bytes])),
        ):
            if kinds[kind]:
                items.update(db.column(f"SELECT id FROM items WHERE ns = ? AND {condition}", self.tx.ns.id, *bound))  # noqa: S608  (our own clauses)
        return load(db, self.tx.ns.id, sorted(items))

    def _replaced(self, row: Row, item: NewItem, now: datetime) -> list[tuple[Item, bool]]:
        """The stored item of which to keep a version, and whether it is linked. The value of a fact is kept here."""
        if row.fact is not None or (item.subject is not None and item.attribute is not None):
            if (row.title, row.text) != (item.title, item.text) or row.superseded_at is not None:
                self._keep_value(row, now)
        elif item.key is not None and is_replaced(old := row.as_item(self.tx.ns.name), item):
            return [(old, row.linked)]
        return []

    def _keep_value(self, row: Row, now: datetime) -> None:
        """Stores the row of a fact as a superseded version of itself; it is believed from now on."""
        version = replace(
            row, id=0, key=None, path=None, chunk_index=None, linked=False, version_of=row.id, before=None,
            touched=True, valid_from=row.valid_from or row.created_at, superseded_at=row.superseded_at or now,
            vector=self.stored_vectors([row.id]).get(row.id),
        )  # fmt: skip
        self.write([version])
        # a text that the embedder rejected is not tried again
        sql = "UPDATE waiting SET refused = (SELECT refused FROM waiting WHERE item = ?) WHERE item = ?"
        self.db.run(sql, row.id, version.id)
        row.valid_from, row.superseded_at, row.supersedes = now, None, version.id

    def settle(self, written: Sequence[Row]) -> None:
        """Orders the values of the facts that these rows state."""
        sql = (
            "SELECT id, coalesce(valid_from, created_at), superseded_at, supersedes FROM items "
            "WHERE ns = ? AND fact = ? AND fact IS NOT NULL"
        )
        facts = dict.fromkeys(row.fact for row in written if row.attribute is not None)
        by_id = {row.id: row for row in written} if facts else {}
        for fact in filter(None, facts):
            for place in arranged([Place(*value) for value in self.db.rows(sql, self.tx.ns.id, fact)]):
                self.db.run(
                    "UPDATE items SET superseded_at = ?, supersedes = ?, identity = CASE WHEN ? THEN identity END "
                    "WHERE id = ?",
                    place.superseded_at, place.supersedes, place.superseded_at is None, place.id,
                )  # fmt: skip
                if (row := by_id.get(place.id)) is not None:
                    row.superseded_at, row.supersedes = optional_moment(place.superseded_at), place.supersedes
                self.tx.ns.touch([place.id], Change.LABELS)
                self.tx.ns.superseded = self.tx.ns.superseded or 1

    def patch(self, item: int, patch: ItemPatch, now: datetime, *, links: bool = True, keep: bool = True) -> Item:
        """Applies a checked patch to the item as it is stored now, so that concurrent patches keep the limits.

        `keep`: the item as it was stays stored as a version; if it states a fact, as a superseded item.
        """
        rows = load(self.db, self.tx.ns.id, [item])
        if not rows:
            raise NotFound(f"no item {item}", "fourfold list shows what is stored")
        (row,) = rows
        old = row.as_item(self.tx.ns.name)
        new = rules.patched(old, patch)
        if keep and new != old:
            if row.fact is not None:
                self._keep_value(row, now)
            else:
                self.saved.keep(old, now, linked=row.linked)
        row.tell(new.title, new.text, new.language, dict(new.metadata), row.kind, now, links=links)
        row.tags, row.details = folded(new.tags), row.details | {"source": new.source}
        self._write_and_link(row)
        return row.as_item(self.tx.ns.name)

    def rewrite(self, item: int, new: NewItem, now: datetime) -> None:
        """Replaces a stored item by this one, whatever its identity; it is linked as before."""
        (row,) = load(self.db, self.tx.ns.id, [item])
        row.replace(new, now, links=row.linked)
        self._write_and_link(row)

    def _write_and_link(self, row: Row) -> None:
        self.tx.changed = row.touched = True
        self.write([row])
        self.tx.link([row])

    def merge(self, kept: int, others: Sequence[int], now: datetime) -> Item:
        """Removes the others, which `restore` brings back; the kept item gets their tags and sources."""
        self.tx.changed = True
        return merge(self.tx, kept, others, now)

    def restore(self, versions: Sequence[int], now: datetime) -> list[Item]:
        """Makes versions the present state of their items, and merged items items again; returns these items.

        NotFound names an unknown one. Conflict if another item has the key of a merged one.
        """
        self.tx.changed = True
        return restore(self.tx, versions, now)

    def rewrite_version(self, id: int, record: Record) -> None:
        """Replaces the record of a version."""
        self.tx.changed = True
        self.saved.rewrite(id, record)

    def forget(self, ids: Sequence[int]) -> int:
        """Removes items with everything that belongs to them, versions included; returns how many existed.

        An id of a version removes that version.
        """
        if not self.tx.ns.exists:
            return 0
        gone = self.remove(ids) + self.saved.forget(ids)
        self.tx.changed = self.tx.changed or gone > 0
        return gone

    def remove(self, ids: Sequence[int]) -> int:
        """Removes items with everything that belongs to them; versions that are kept aside stay.

        The superseded versions of items that state facts go with these. Returns how many of the items existed.
        """
        versions = self._versions_of(ids)
        everything = [*ids, *versions]
        sql = f"SELECT node FROM node_items WHERE item {self.db.any_id}"  # noqa: S608  (constants)
        owned = set(self.db.column(sql, self.db.ids(everything)))
        gone = self._delete(everything)
        self.tx.linker.renamed(self.tx.link_rows, gone=prune(self.db, self.tx.ns.id, owned))
        return gone - len(set(versions).difference(ids))

    def _delete(self, items: Sequence[int]) -> int:
        sql = f"SELECT {TEXT_ROW} FROM items WHERE +ns = ? AND id {self.db.any_id}"  # noqa: S608  (constants)
        gone: list[TextRow] = self.db.rows(sql, self.tx.ns.id, self.db.ids(items)) if items else []
        if gone:
            ids = [item for item, *_ in gone]
            if self.tx.ns.superseded:
                self._relink(ids)
            self.drop_vectors(ids)
            self._index_texts(gone, [])
            self._remove(ids)
            self.tx.ns.items -= len(gone)
            self.tx.ns.touch(ids, Change.REMOVED)
            for *_, language in gone:
                self.tx.ns.count_language(language, -1)
        return len(gone)

    def _relink(self, gone: Sequence[int]) -> None:
        """Makes successors of items that are about to go the successors of what these superseded."""
        sql = (
            "UPDATE items SET supersedes = gone.supersedes FROM items AS gone WHERE items.supersedes = gone.id "  # noqa: S608  (constants)
            f"AND gone.id {self.db.any_id} AND NOT items.id {self.db.any_id}"
        )
        while self.db.run(sql, self.db.ids(gone), self.db.ids(gone)):
            pass

    def _versions_of(self, items: Sequence[int]) -> list[int]:
        """The superseded versions of these items, and versions of these."""
        sql = f"SELECT id FROM items WHERE version_of {self.db.any_id}"  # noqa: S608  (constants)
        versions = self.db.column(sql, self.db.ids(items))
        return [*versions, *self._versions_of(versions)] if versions else []

    # ------------------------------------------------------------ writing rows

    def write(self, rows: Iterable[Row]) -> None:
        """The difference that these rows make."""
        touched = [row for row in rows if row.touched]
        fresh = [row for row in touched if row.before is None]
        changed = [row for row in touched if row.before is not None]
        if any(not row.id for row in fresh):
            for row, id in zip(fresh, new_ids(self.db, self.tx.ns.id, "items", len(fresh)), strict=True):
                row.id = id
        if fresh:
            (self._insert if len(fresh) < _MANY_ITEMS else self._insert_many)(fresh)
        if changed:
            self._update(changed)
        retold = [row for row in touched if row.is_retold]
        self._index_texts([row.before.as_text for row in retold if row.before], [row.as_text for row in retold])
        for row in retold:
            self.tx.ns.count_language(row.language, 1)
            if row.before is not None:
                self.tx.ns.count_language(row.before.language, -1)
        self.tx.ns.items += len(fresh)
        for row in touched:
            self.tx.ns.touched[row.id] = self.tx.ns.touched.get(row.id, 0) | _change(row)

    def _insert(self, fresh: Sequence[Row]) -> None:
        columns = ("id", "ns", "created_at", "key", *_CHANGEABLE, *self.more_columns)
        places = (*"?" * (4 + len(_CHANGEABLE)), *self.more_columns.values())
        self.db.run_many(
            f"INSERT INTO items ({', '.join(columns)}) VALUES ({', '.join(places)})",  # noqa: S608  (constants)
            [(row.id, self.tx.ns.id, micros(row.created_at), row.key, *self._values(row)) for row in paced_rows(fresh)],
        )
        self._insert_tags(fresh)
        self._insert_sources(fresh)
        self._embed(fresh)

    def _insert_many(self, fresh: Sequence[Row]) -> None:
        self._insert(fresh)

    def _update(self, rows: Sequence[Row]) -> None:
        places = {**dict.fromkeys(_CHANGEABLE, "?"), **self.more_columns}
        self.db.run_many(
            f"UPDATE items SET {', '.join(f'{name} = {place}' for name, place in places.items())} WHERE id = ?",  # noqa: S608  (constants)
            [(*self._values(row), row.id) for row in paced_rows(rows)],
        )
        if tagged := [row for row in rows if row.before and row.before.tags != row.tags]:
            self._delete_of("item_tags", tagged)
            self._insert_tags(tagged)
        if sourced := [row for row in rows if row.before and row.before.sources != row.sources]:
            self._delete_of("sources", sourced)
            self._insert_sources(sourced)
        if embedded := [row for row in rows if row.is_reworded or row.vector is not None]:
            self.drop_vectors([row.id for row in embedded])
            self._embed(embedded)

    def _values(self, row: Row) -> tuple[Any, ...]:
        return (
            row.path, row.chunk_index, row.identity, row.linked, row.title, row.text, row.kind, row.language,
            dumps(row.metadata) if row.metadata else "{}", micros(row.updated_at), row.fact,
            *(column(row.details, name) for name in DETAILS),
            optional_micros(row.valid_from), optional_micros(row.superseded_at), row.supersedes, row.version_of,
            *self._more_values(row),
        )  # fmt: skip

    def _delete_of(self, table: str, rows: Sequence[Row]) -> None:
        ids = self.db.ids(row.id for row in rows)
        self.db.run(f"DELETE FROM {table} WHERE item {self.db.any_id}", ids)  # noqa: S608  (our own tables)

    def _insert_sources(self, rows: Sequence[Row]) -> None:
        places = [(row.id, place, raw) for row in rows for place, raw in enumerate(row.sources)]
        self.db.run_many("INSERT INTO sources VALUES (?, ?, ?)", places)

    def _embed(self, rows: Sequence[Row]) -> None:
        """Rows without a vector wait for one."""
        self.wait([row.id for row in rows if row.vector is None])
        self.insert_vectors([(row.id, row.vector) for row in rows if row.vector is not None])

    def wait(self, items: Iterable[int]) -> None:
        self.db.run_many("INSERT INTO waiting (ns, item) VALUES (?, ?)", [(self.tx.ns.id, item) for item in items])

    def fix_space(self, dimension: int) -> None:
        """The first vector that a caller gives fixes the space of a namespace that has none."""
        space = self.tx.ns.space
        if space is None:
            self.tx.ns.space = Space(GIVEN_SPACE, dimension)
        elif dimension != space.dimension:
            raise wrong_dimension(dimension, space.dimension)


def _change(row: Row) -> int:
    if row.before is None:
        return _TEXT if row.vector is None else _TEXT | _VECTOR
    told = _TEXT if row.is_retold or row.is_renamed else 0
    labels = _LABELS if row != row.before else 0
    return labels | told | (_VECTOR if row.is_reworded or row.vector is not None else 0)


class VectorWriter:
    """Vectors that an embedder made, and the queue of items that wait for one."""

    def __init__(self, tx: SqlTransaction[Any, Any]) -> None:
        self._tx = tx
        self._db: Db = tx.db

    def set_space(self, space: Space) -> None:
        """Fixes the space of a namespace that has none. SpaceMismatch if it has another one."""
        if self._tx.ns.space != space:
            self._tx.stored().fix_space(space)

    def reset_space(self, space: Space) -> None:
        """Drops all vectors of another space, so that every item waits for a new one."""
        if self._tx.ns.space == space:
            return
        ns, items = self._tx.stored(), self._tx.items
        ns.space = space
        sql = "SELECT DISTINCT item FROM vectors JOIN items ON id = item WHERE items.ns = ? ORDER BY item"
        embedded = self._db.column(sql, ns.id)
        for page in pages(embedded, _PAGE_VECTORS):
            items.drop_vectors(page)
            items.wait(page)
            ns.touch(page, Change.VECTOR)

    def put(self, space: Space, vectors: Sequence[MadeVectors], seconds: float = 0.0) -> int:
        """Stores vectors, all of an item at once; skips items that are gone or whose text has changed.

        `seconds`: how long it took to make them, from which `status` estimates how long the queue will take.
        """
        ns, items = self._tx.stored(), self._tx.items
        ns.fix_space(space)
        sql = f"SELECT id, title, text FROM items WHERE +ns = ? AND id {self._db.any_id}"  # noqa: S608  (constants)
        stored = {item: texts for item, *texts in self._db.rows(sql, ns.id, self._db.ids(row[0] for row in vectors))}
        fitting = {item: vector for item, title, text, vector in vectors if stored.get(item) == [title, text]}
        if fitting:
            items.drop_vectors(list(fitting))
            items.insert_vectors(list(fitting.items()))
            ns.touch(fitting, Change.VECTOR)
            store_pace(self._db, ns.id, [row[1:3] for row in vectors], seconds)
        return len(fitting)

    def reject(self, pending: PendingText, reason: str) -> None:
        """Marks the item as rejected by the embedder until its text changes."""
        sql = (
            "UPDATE waiting SET refused = ? WHERE ns = ? AND item = ? "
            "AND EXISTS (SELECT 1 FROM items WHERE id = item AND title = ? AND text = ?)"
        )
        self._db.run(sql, reason.replace("\x00", ""), self._tx.ns.id, *pending)

    def retry_rejected(self) -> None:
        """Requeues rejected items."""
        sql = "UPDATE waiting SET refused = NULL WHERE ns = ? AND refused IS NOT NULL"
        self._db.run(sql, self._tx.ns.id)


class SqlTransaction(ABC, Generic[D, N]):
    """One write to one namespace: committed when its `with` block ends, rolled back if the block raises.

    The namespace is created by the first write that stores something: removals leave a missing one missing.
    """

    item_table: ClassVar[type[ItemTable[Any, Any]]]

    def __init__(self, db: D, ns: N, linkers: dict[int, Linker]) -> None:
        self.db = db
        self.ns = ns
        self.changed = False
        self.items_put = 0
        self.linked: set[int] = set()
        """Items whose texts this transaction wrote: indexes do not know them."""
        self._linkers = linkers

    @property
    def items(self) -> ItemTable[D, N]:
        return self.item_table(self)

    @property
    def files(self) -> FileWriter:
        return FileWriter(self)

    @property
    def raw(self) -> RawWriter:
        return RawWriter(self)

    @property
    def vectors(self) -> VectorWriter:
        return VectorWriter(self)

    @property
    def graph(self) -> GraphWriter:
        return GraphWriter(self)

    @property
    def requests(self) -> CarriedOut:
        return CarriedOut(self.db, self.ns.id if self.ns.exists else None)

    @property
    def replica(self) -> ReplicaWriter:
        return ReplicaWriter(self)

    @abstractmethod
    def _create(self) -> N: ...

    @abstractmethod
    def store(self) -> None:
        """Writes the row of the namespace at the end of the transaction."""

    @property
    @abstractmethod
    def link_rows(self) -> LinkRows: ...

    def stored(self) -> N:
        """The namespace, created if it does not exist: for a write that stores something."""
        if not self.ns.exists:
            self.ns = self._create()
        self.changed = True
        return self.ns

    @property
    def linker(self) -> Linker:
        return self._linkers.get(self.ns.id) or self._linkers.setdefault(self.ns.id, Linker())

    def link(self, rows: Sequence[Row]) -> None:
        """Makes nodes and mentions of changed and new items follow their texts."""
        changed = [_linked(row) for row in paced_rows(rows) if row.touched and (row.is_retold or row.is_renamed)]
        changed.sort(key=lambda item: item.id)  # nodes are created in the order of items
        if changed:
            self.linker.link(self.link_rows, changed)
            self.linked.update(item.id for item in changed)


def _linked(row: Row) -> Linked:
    if not row.linked:
        return Linked(row.id, "", is_new=row.before is None)
    names = own_names(row.title, row.text, row.metadata, row.kind)
    return Linked(row.id, row.text, names, is_new=row.before is None)


KEPT: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, eq=False)
class CarriedOut:
    _db: Db
    _ns: int | None
    """None while the namespace does not exist; then nothing was carried out in it."""

    def find(self, name: bytes) -> tuple[bytes, list[int]] | None:
        """The fingerprint of the request of this name that was carried out in the namespace, and its outcome."""
        sql = "SELECT fingerprint, outcome FROM requests WHERE ns = ? AND name = ?"
        for fingerprint, outcome in [] if self._ns is None else self._db.rows(sql, self._ns, name):
            return bytes(fingerprint), json.loads(outcome)
        return None

    def record(self, name: bytes, fingerprint: bytes, outcome: Sequence[int], now: datetime) -> None:
        """Records that a request is carried out by this transaction; requests that are a day old are forgotten."""
        if self._ns is None:
            return
        self._db.run("DELETE FROM requests WHERE ns = ? AND done_at < ?", self._ns, micros(now - KEPT))
        row = (self._ns, name, fingerprint, json.dumps(list(outcome)), micros(now))
        self._db.run("INSERT INTO requests (ns, name, fingerprint, outcome, done_at) VALUES (?, ?, ?, ?, ?)", *row)
