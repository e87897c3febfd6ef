"""What items come from: indexed files with their chunks, and raw records."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fourfold.model import Json, NewItem, Page, RawRecord
from fourfold.storage.sql.dialect import LAST_TEXT, Db, dumps, micros, moment, possible, sendable
from fourfold.storage.sql.namespaces import Namespace
from fourfold.storage.sql.rows import new_ids
from fourfold.storage.values import SHOWN_ITEMS, FileRow, FileState, FileUpdate, NewRaw, no_raw, still_a_source
from fourfold.text.fold import fold

if TYPE_CHECKING:
    from fourfold.storage.sql.transaction import SqlTransaction

    Tx = SqlTransaction[Any, Any]

_OF_FILE = "WHERE ns = ? AND path = ? AND key IS NULL"
_COLUMNS = "path, size, mtime_ns, digest, skipped"

Old = tuple[int, str, str]
"""(id, title, text)"""


# ---------------------------------------------------------------- chunks


def renumber_chunks(db: Db, ns: int, file: FileUpdate) -> list[int]:
    """Gives the stored chunks of a file their new path and numbers; returns the chunks that are no longer needed.

    New chunks are matched to stored ones, so that an edit in one place leaves all other items as they are.
    """
    path, source, gone = file.state.path, file.moved_from, list[int]()
    if source is not None:
        forget_file_states(db, ns, [source])
        if _chunks(db, ns, path):
            gone = [item for item, *_ in _chunks(db, ns, source)]
        else:
            db.run(f"UPDATE items SET path = ? {_OF_FILE}", path, ns, source)  # noqa: S608  (constants)
    if file.chunks is None:
        return gone
    old = _chunks(db, ns, path)
    kept, rest = continued([(item, title, text) for item, _, title, text in old], file.chunks)
    numbers = {item: number for number, item in enumerate(kept) if item is not None}
    if any(numbers.get(item) != number for item, number, *_ in old):  # negative ones first: no two may be equal
        db.run(f"UPDATE items SET chunk_index = -1 - chunk_index {_OF_FILE}", ns, path)  # noqa: S608  (constants)
        sql = "UPDATE items SET chunk_index = ? WHERE id = ?"
        db.run_many(sql, [(number, item) for item, number in numbers.items()])
    return gone + rest


def chunk_ids(db: Db, ns: int, paths: Sequence[str], first: int = 0, last: int = 1 << 62) -> list[int]:
    """The chunks of files, in order."""
    sql = (
        f"SELECT id FROM items WHERE ns = ? AND path {db.any_text} AND key IS NULL "  # noqa: S608  (constants)
        "AND chunk_index BETWEEN ? AND ? ORDER BY path, chunk_index"
    )
    return db.column(sql, ns, db.texts(paths), first, last)


def _chunks(db: Db, ns: int, path: str) -> list[tuple[int, int, str, str]]:
    """(id, number, title, text) of the chunks of a file, in order."""
    sql = f"SELECT id, chunk_index, title, text FROM items {_OF_FILE} ORDER BY chunk_index"  # noqa: S608  (constants)
    return db.rows(sql, ns, path)


def continued(old: Sequence[Old], new: Sequence[NewItem]) -> tuple[list[int | None], list[int]]:
    """For each new chunk the id of the stored one that it continues, or None; and the ids that are left over.

    The same title and text come first, then the same text; the rest is matched in order.
    """
    ids: list[int | None] = [None] * len(new)
    rest = _matched(ids, old, [(chunk.title, chunk.text) for chunk in new], lambda row: row[1:])
    rest = _matched(ids, rest, [chunk.text for chunk in new], lambda row: row[2])
    rest = _matched(ids, rest, [None] * len(new), lambda row: None)
    return ids, [item for item, _, _ in rest]


def _matched(
    ids: list[int | None], old: Sequence[Old], new: Sequence[Hashable], mark: Callable[[Old], Hashable]
) -> list[Old]:
    """Fills free places with old chunks of the same mark, in order; returns the remaining old ones."""
    same: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for row in old:
        same[mark(row)].append(row[0])
    for place, wanted in enumerate(new):
        if ids[place] is None and same[wanted]:
            ids[place] = same[wanted].popleft()
    taken = set(ids)
    return [row for row in old if row[0] not in taken]


# ---------------------------------------------------------------- states


def put_file_states(db: Db, ns: int, states: Sequence[FileState]) -> None:
    db.run_many(
        f"INSERT INTO files (ns, name, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (ns, path) "  # noqa: S608  (constants)
        "DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns, digest = excluded.digest, "
        "skipped = excluded.skipped",
        [(ns, fold(state.path.rpartition("/")[2]), *state) for state in states],
    )


def forget_file_states(db: Db, ns: int, paths: Sequence[str]) -> None:
    db.run(f"DELETE FROM files WHERE ns = ? AND path {db.any_text}", ns, db.texts(paths))  # noqa: S608  (constants)


def file_states(db: Db, ns: int, prefix: str) -> dict[str, FileRow]:
    if not sendable([prefix]):
        return {}
    sql = f"SELECT {_COLUMNS} FROM files WHERE ns = ? AND path >= ? AND path < ? ORDER BY path"  # noqa: S608  (constants)
    return {row[0]: row for row in db.rows(sql, ns, prefix, prefix + LAST_TEXT)}


class FileWriter:
    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._db: Db = tx.db

    def put(self, files: Sequence[FileUpdate], now: datetime, *, links: bool = True) -> None:
        """Makes the stored chunks of each path exactly these; a chunk with the same title and text stays that item."""
        if not files:
            return
        ns = self._tx.stored()
        if gone := [item for file in files for item in renumber_chunks(self._db, ns.id, file)]:
            self._tx.items.forget(gone)
        self._tx.items.store([chunk for file in files for chunk in file.chunks or ()], now, links=links)
        put_file_states(self._db, ns.id, [file.state for file in files])

    def forget(self, paths: Sequence[str]) -> int:
        """Removes files with their chunks; returns how many chunks. Forgetting a chunk forgets the file's state."""
        ns = self._tx.ns
        if not ns.exists:
            return 0
        gone = self._tx.items.forget(chunk_ids(self._db, ns.id, paths))
        forget_file_states(self._db, ns.id, paths)
        self._tx.changed = True
        return gone


# ---------------------------------------------------------------- raw records


@dataclass(slots=True, eq=False)
class RawRecords:
    """Those of one namespace, inside a transaction or a snapshot."""

    _db: Db
    _ns: Namespace

    def get(self, ids: Sequence[int]) -> dict[int, RawRecord]:
        """In the order of their ids."""
        sql = (
            "SELECT id, content, speaker, session_id, metadata, created_at, source FROM raw "  # noqa: S608  (constants)
            f"WHERE +ns = ? AND id {self._db.any_id} ORDER BY id"  # +: SQLite looks up the ids, not the namespace
        )
        rows = self._db.rows(sql, self._ns.id, self._db.ids(ids))
        return {
            id: RawRecord(id, self._ns.name, content, speaker, session, json.loads(metadata), moment(created), source)
            for id, content, speaker, session, metadata, created, source in rows
        }

    def list(self, session_id: str | None, speaker: str | None, limit: int, offset: int) -> Page[RawRecord]:
        """Newest first; of one session or speaker only, where these are named."""
        condition, bindings = "FROM raw WHERE ns = ?", list[Any]([self._ns.id])
        for name, wanted in (("session_id", session_id), ("speaker", speaker)):
            if wanted is not None:
                condition += f" AND {name} = ?"
                bindings.append(wanted)
        sql = f"SELECT id {condition} ORDER BY id DESC LIMIT ? OFFSET ?"
        ids = self._db.column(sql, *bindings, limit, offset)
        records = self.get(ids)
        total = self._db.value(f"SELECT count(*) {condition}", *bindings)
        return Page((records[id] for id in ids), total, offset)


class RawWriter:
    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._db: Db = tx.db

    def add(self, record: NewRaw) -> RawRecord:
        (id,) = self.add_many([record])
        return RawRecords(self._db, self._tx.stored()).get([id])[id]

    def add_many(self, records: Sequence[NewRaw]) -> Sequence[int]:
        """Returns their ids, in order."""
        ns = self._tx.stored()
        ids = new_ids(self._db, ns.id, "raw", len(records))
        rows = [
            (id, ns.id, *spoken, dumps(dict(metadata)), micros(created), source)
            for id, (*spoken, metadata, created, source) in zip(ids, records, strict=True)
        ]
        self._db.run_many("INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return ids

    def replace(self, id: int, content: str, session_id: str | None, metadata: Mapping[str, Json]) -> None:
        sql = "UPDATE raw SET content = ?, session_id = ?, metadata = ? WHERE ns = ? AND id = ?"
        self._db.run(sql, content, session_id, dumps(dict(metadata)), self._tx.stored().id, id)

    def forget(self, ids: Sequence[int], *, force: bool = False) -> int:
        """Removes raw records, all or none. NotFound names a missing one; `force` also removes sources of items."""
        unique = list(dict.fromkeys(ids))
        for id in unique:
            sql = "SELECT 1 FROM raw WHERE ns = ? AND id = ?"
            if not possible([id]) or not self._db.rows(sql, self._tx.ns.id, id):
                raise no_raw(id)
            if force:
                self._db.run("DELETE FROM sources WHERE raw = ?", id)
            sql = "SELECT DISTINCT item FROM sources WHERE raw = ? ORDER BY item LIMIT ?"
            if users := self._db.column(sql, id, SHOWN_ITEMS + 1):
                raise still_a_source(id, users)
            self._db.run("DELETE FROM raw WHERE id = ?", id)
            self._tx.changed = True
        return len(unique)
