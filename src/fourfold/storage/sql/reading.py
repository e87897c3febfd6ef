"""Items and the graph of a namespace as a snapshot reads them, and filters as SQL conditions.

Values and keys of filters are always bound, never part of the SQL text.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from fourfold.embed.windows import Windows
from fourfold.fields import Column
from fourfold.filters import Condition as Tree
from fourfold.filters import Every, Not, Some, Test
from fourfold.limits import CANDIDATES
from fourfold.model import Filters, Item, Space, Stats, Vector
from fourfold.retrieval import Part
from fourfold.storage.sql import versions
from fourfold.storage.sql.dialect import BODY, Condition, Db, micros, optional_moment, possible
from fourfold.storage.sql.namespaces import Namespace, pending_texts, read_stats
from fourfold.storage.sql.origins import RawRecords, chunk_ids, file_states
from fourfold.storage.sql.replica import Replica
from fourfold.storage.sql.rows import read_items
from fourfold.storage.sql.versions import SavedVersions
from fourfold.storage.values import Deadline, FileRow, Hidden, PendingText, Size, Vocabulary

if TYPE_CHECKING:
    from fourfold.ranking.fusion import Expanded, Expansion
    from fourfold.storage.protocols import Tags, Vectors, Words
    from fourfold.storage.sql.graph import GraphReader
    from fourfold.text.keyword_query import KeywordQuery

# ---------------------------------------------------------------- filters

SIGNS: Final = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def where(db: Db, filters: Filters, ns: int) -> Condition:
    """' AND ...' with its bindings; empty without filters."""
    if filters.condition is None:
        return "", ()
    sql, bindings = _compiled(db, ns, filters.condition)
    return f" AND {sql}", bindings


def joined(word: str, parts: Sequence[Condition]) -> Condition:
    bindings = tuple(binding for _, bindings in parts for binding in bindings)
    return f"({word.join(sql for sql, _ in parts)})", bindings


def _compiled(db: Db, ns: int, tree: Tree) -> Condition:
    """Holds where the SQL is true. NULL counts as false, also under NOT."""
    match tree:
        case Every():
            return joined(" AND ", [_compiled(db, ns, part) for part in tree.parts])
        case Some():
            return joined(" OR ", [_compiled(db, ns, part) for part in tree.parts])
        case Not():
            sql, bindings = _compiled(db, ns, tree.part)
            return f"({sql} IS NOT TRUE)", bindings
        case Test():
            column = tree.field.column
            if column is None:
                return db.metadata_test(tree)
            return _tags(db, ns, tree) if column.holds == "tags" else _test(db, ns, column, tree)


def _test(db: Db, ns: int, column: Column, test: Test) -> Condition:
    if not (db.looks_up_sparse and column.sparse and None not in test.values):
        return _compared(db, ns, f"items.{column.name}", column, test)
    name = f"few.{column.name}"
    sql, values = _compared(db, ns, name, column, test)
    few = f"SELECT few.id FROM items AS few WHERE few.ns = ? AND {name} IS NOT NULL AND {sql}"  # noqa: S608  (our own clauses)
    return f"items.id IN ({few})", (ns, *values)


def _compared(db: Db, ns: int, name: str, column: Column, test: Test) -> Condition:
    if test.op == "exists":
        return f"({name} IS NOT NULL)", ()
    values = [micros(value) if isinstance(value, datetime) else value for value in test.values if value is not None]
    operands = [db.operand(value, column.holds) for value in values]
    collated = f"{name}{db.collation}" if column.holds == "text" else name
    if test.op != "in":
        ((place, value),) = operands
        return f"({collated} {SIGNS[test.op]} {place})", (value,)
    parts: list[Condition] = []
    if values and column.holds == "glob":
        parts.append(db.glob_test(ns, name, [str(glob) for glob in values]))
    elif values:
        places = ", ".join(place for place, _ in operands)
        parts.append((f"{collated} IN ({places})", tuple(value for _, value in operands)))
    if None in test.values:
        parts.append((f"{name} IS NULL", ()))
    return joined(" OR ", parts)


def _tags(db: Db, ns: int, test: Test) -> Condition:
    has_some = "EXISTS (SELECT 1 FROM item_tags WHERE item = items.id)"
    if test.op == "exists":
        return has_some, ()
    parts: list[Condition] = []
    if tags := sorted({tag for tag in test.values if tag is not None}):
        sql = f"items.id IN (SELECT item FROM item_tags WHERE {db.any_tag})"  # noqa: S608  (constants)
        parts.append((sql, (ns, db.texts(tags))))
    if None in test.values:
        parts.append((f"NOT {has_some}", ()))
    return joined(" OR ", parts)


# ---------------------------------------------------------------- items and the graph

N = TypeVar("N", bound=Namespace)


class SqlSnapshot(ABC, Generic[N]):
    """One namespace at one moment, in one read transaction. Only inside the `with` block that opened it."""

    db: Any
    """The `Db` of the transaction."""
    namespace: str
    ns: N
    deadline: Deadline
    """A read that exceeds it is TimedOut. The caller may change its fields."""
    exists: bool
    """Whether anything was ever stored in the namespace."""
    size: Size
    """Hidden items count."""
    hidden: Hidden
    space: Space | None
    has_files: bool
    """False if no file is indexed, so that no query can name one."""
    has_sources = True
    """Whether items may refer to raw records."""

    # Facets are made on use: as attributes they would hold the snapshot, and with it the connection, in a cycle.

    @property
    @abstractmethod
    def words(self) -> Words: ...

    @property
    @abstractmethod
    def vectors(self) -> Vectors: ...

    @property
    @abstractmethod
    def graph(self) -> GraphReader[Any]: ...

    @property
    @abstractmethod
    def tags(self) -> Tags: ...

    @abstractmethod
    def expand(self, expansion: Expansion, filters: Filters) -> Expanded | None:
        """Walk, shared tags and missing scores in one step; None if this store has no columns for that now."""

    @abstractmethod
    def keyword_query(self, text: str) -> KeywordQuery:
        """The words of a query with the terms for which keyword search looks."""

    @abstractmethod
    def vectors_of(self, ids: Sequence[int]) -> Mapping[int, Vector | Windows]: ...

    def read_as(self, ns: N) -> None:
        """Sets what the row of the namespace says."""
        self.ns = ns
        self.exists = ns.id > 0
        self.size = Size(ns.items, ns.vectors, ns.windows)
        self.space = None if ns.fingerprint is None else Space(ns.fingerprint, ns.dimension or 0)
        self.hidden = Hidden(ns.superseded > 0, ns.expiring > 0)

    @property
    def rows(self) -> ItemReader:
        return ItemReader(self)

    @property
    def raw(self) -> RawRecords:
        return RawRecords(self.db, self.ns)

    @property
    def replica(self) -> Replica:
        return Replica(self.db, self.ns, self.vectors_of)

    def stats(self, limit: int) -> Stats:
        """The receipts; at most `limit` of the items that nobody was given are named, the oldest first."""
        return read_stats(self.db, self.ns.id, limit)

    def files(self, prefix: str) -> Mapping[str, FileRow]:
        """The known files whose path begins with this, by path."""
        return file_states(self.db, self.ns.id, prefix)

    def pending(self, limit: int, among: Sequence[int] | None = None) -> list[PendingText]:
        """Items that wait for a vector: of all but the rejected ones, or of `among`, rejected or not.

        Of the newest ones the shortest come first, so that what was stored last is not kept waiting by a long queue.
        """
        return pending_texts(self.db, self.ns.id, limit, among)

    def nearest_parts(self, query: Vector, ids: Sequence[int]) -> dict[int, Part]:
        """Of those of these items that have several vectors: the part whose vector is nearest to the query."""
        if not self.ns.windows:
            return {}
        windows = {item: vectors for item, vectors in self.vectors_of(ids).items() if isinstance(vectors, Windows)}
        db: Db = self.db
        sql = f"SELECT id, length({BODY}) FROM items WHERE +ns = ? AND id {db.any_id}"  # noqa: S608  (constants)
        lengths = db.rows(sql, self.ns.id, db.ids(windows)) if windows else []
        return {
            item: nearest_part(windows[item], query, characters)
            for item, characters in lengths
            if len(windows[item].spans) == len(windows[item].vectors)
        }

    def stored_vectors(self, ids: Sequence[int]) -> dict[int, Vector]:
        """The vectors of those of these items that have one; not those of texts with several."""
        vectors = self.vectors_of(ids).items()
        return {item: vector for item, vector in vectors if not isinstance(vector, Windows)}


T = TypeVar("T")


class Cache(Generic[T]):
    """Answers for namespaces, each valid for one change number, and perhaps for some seconds only."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._answers: dict[tuple[int, str], tuple[int, float, T]] = {}

    def cached(self, ns: int, change: int, what: str) -> T | None:
        entry = self._answers.get((ns, what))
        return entry[2] if entry is not None and entry[0] == change else None

    def add(self, ns: int, change: int, what: str, answer: T) -> T:
        if len(self._answers) >= self._most:
            self._answers.clear()
        self._answers[ns, what] = (change, time.monotonic(), answer)
        return answer

    def get(self, ns: int, change: int, what: str, fresh: Callable[[], T], seconds: float = math.inf) -> T:
        entry = self._answers.get((ns, what))
        if entry is not None and entry[0] == change and time.monotonic() - entry[1] <= seconds:
            return entry[2]
        return self.add(ns, change, what, fresh())


@dataclass(slots=True, eq=False)
class ItemReader:
    _at: SqlSnapshot[Any]

    def get(self, ids: Sequence[int]) -> dict[int, Item]:
        at = self._at
        return read_items(at.db, at.namespace, at.ns.id, ids, have_sources=at.has_sources)

    def find_keys(self, keys: Sequence[str]) -> dict[str, int]:
        db = self._at.db
        sql = f"SELECT key, id FROM items WHERE ns = ? AND key {db.any_text}"  # noqa: S608  (constants)
        return dict(db.rows(sql, self._at.ns.id, db.texts(keys)))

    def list(self, filters: Filters, limit: int, offset: int) -> list[Item]:
        """Newest first."""
        matching, bindings = self._matching(filters)
        sql = f"SELECT id {matching} ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?"
        return list(self.get(self._at.db.column(sql, *bindings, limit, offset)).values())

    def ids(self, filters: Filters, among: Sequence[int] | None = None) -> list[int]:
        """The items that pass, in the order of their ids: of all, or of `among`."""
        matching, bindings = self._matching(filters, among)
        return self._at.db.column(f"SELECT id {matching} ORDER BY id", *bindings)

    def first_ids(self, filters: Filters, most: int) -> list[int]:
        """At most this many of the items that pass, in any order."""
        matching, bindings = self._matching(filters)
        return self._at.db.column(f"SELECT id {matching} LIMIT ?", *bindings, most)

    def count(self, filters: Filters) -> int:
        if filters.condition is None:
            return self._at.size.items
        matching, bindings = self._matching(filters)
        return self._at.db.value(f"SELECT count(*) {matching}", *bindings)

    def _matching(self, filters: Filters, among: Sequence[int] | None = None) -> tuple[str, list[Any]]:
        db, ns = self._at.db, self._at.ns.id
        condition, bindings = where(db, filters, ns)
        if among is None:
            return f"FROM items WHERE ns = ?{condition}", [ns, *bindings]
        return f"FROM items WHERE +ns = ? AND id {db.any_id}{condition}", [ns, db.ids(among), *bindings]

    def chunks(self, path: str, first: int, last: int) -> list[Item]:
        """The chunks of one file from one number to another, in order."""
        return list(self.get(chunk_ids(self._at.db, self._at.ns.id, [path], first, last)).values())

    def named_chunks(self, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        """(id, path) of chunks of known files with these folded names (after the last slash), in order; CANDIDATES."""
        db = self._at.db
        condition, bindings = where(db, filters, self._at.ns.id)
        sql = (
            f"SELECT items.id, items.path FROM files {db.ordered_join} items "  # noqa: S608  (constants and our own clauses)
            "ON items.ns = files.ns AND items.path = files.path "
            f"WHERE files.ns = ? AND files.name {db.any_text} AND items.key IS NULL{condition} "
            "ORDER BY items.path, items.chunk_index LIMIT ?"
        )
        return db.rows(sql, self._at.ns.id, db.texts(names), *bindings, CANDIDATES)

    def skipped_files(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """(path, reason) of files with these folded names that could not be indexed, in order."""
        db = self._at.db
        sql = f"SELECT path, skipped FROM files WHERE ns = ? AND name {db.any_text} AND skipped <> '' ORDER BY path"  # noqa: S608  (constants)
        return db.rows(sql, self._at.ns.id, db.texts(names))

    def history(self, item: int) -> list[Item]:
        """The item with its earlier versions, what was merged into it, and all values of its fact, the latest first."""
        if not possible([item]):
            return []
        sql = (
            "SELECT id FROM items WHERE ns = ? AND id = ? UNION SELECT id FROM items WHERE ns = ? AND version_of = ? "
            "UNION SELECT id FROM items WHERE ns = ? AND fact IS NOT NULL AND fact = "
            "(SELECT fact FROM items WHERE ns = ? AND id = ?)"
        )
        ns = self._at.ns.id
        stored = self.get(self._at.db.column(sql, ns, item, ns, item, ns, ns, item)).values()
        kept = SavedVersions(self._at.db, ns).of_items([item])
        return versions.latest_first([*stored, *(versions.as_item(each, self._at.namespace) for each in kept)])

    def versions(self, ids: Sequence[int]) -> dict[int, Item]:
        """Earlier versions and merged items by their ids; `version_of` says of which item. `get` does not have them."""
        kept = SavedVersions(self._at.db, self._at.ns.id).of_ids(ids)
        return {each.id: versions.as_item(each, self._at.namespace) for each in kept}

    def versions_at(self, moment: datetime) -> dict[int, int]:
        """The version of that time of each item that was changed later, as far as it is kept; facts have none."""
        return SavedVersions(self._at.db, self._at.ns.id).at(micros(moment))

    def last_expiry(self, now: datetime) -> datetime | None:
        """The latest of the expiry times that have passed; None if nothing has expired."""
        sql = "SELECT max(expires_at) FROM items WHERE ns = ? AND expires_at <= ? AND expires_at IS NOT NULL"
        return optional_moment(self._at.db.value(sql, self._at.ns.id, micros(now)))

    def vocabulary(self, field: Vocabulary) -> dict[str, int]:
        """Every kind, language, or top-level key of metadata, with the number of items that have it.

        Superseded items do not count.
        """
        db = self._at.db
        name, table = ("pair.key", f", {db.metadata_keys}") if field == "metadata" else (f"items.{field}", "")
        condition = f"items.ns = ? AND {name} IS NOT NULL AND items.superseded_at IS NULL"
        sql = f"SELECT {name}, count(*) FROM items{table} WHERE {condition} GROUP BY 1"  # noqa: S608  (our own clauses)
        return dict(db.rows(sql, self._at.ns.id))


# ---------------------------------------------------------------- windows of long items


def nearest_part(windows: Windows, query: Vector, characters: int) -> Part:
    """The part whose vector is nearest to the query; of equal ones the first. `characters`: of the text."""
    products = windows.vectors.astype(np.float64) @ np.asarray(query, np.float64)
    best = int(np.round(products, 6).argmax())
    start, end = windows.spans[best]
    return Part(best + 1, len(windows.spans), start, end, max(0, characters - windows.spans[-1][1]))
