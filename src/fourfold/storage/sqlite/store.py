"""The embedded store: a folder with one SQLite file, and indexes that can be rebuilt from it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import compress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import apsw
import numpy as np

from fourfold import limits, scheduling
from fourfold.embed.base import wrong_dimension
from fourfold.embed.windows import Windows
from fourfold.errors import RequestError, StoreBusy, StoreReplaced, TimedOut
from fourfold.index import text_index, vector_index
from fourfold.index.rows import VectorScorer, WordScorer
from fourfold.index.segment_files import Damaged
from fourfold.index.text_index import TextState
from fourfold.index.vector_index import VectorState
from fourfold.limits import TAG_CACHE_SECONDS
from fourfold.model import NO_FILTERS, Filters, Json, Vector
from fourfold.ranking.connections import rank_by_shared_tags, selective_tags
from fourfold.ranking.fusion import Expanded, Expansion
from fourfold.retrieval import Hits, Link, Ranking
from fourfold.storage.sql.graph import GraphReader
from fourfold.storage.sql.linking import Linker, name_terms
from fourfold.storage.sql.namespaces import COLUMNS, Namespace, add_receipts
from fourfold.storage.sql.portable import SqlPortable, export_records
from fourfold.storage.sql.reading import Cache, SqlSnapshot
from fourfold.storage.sqlite import maintenance
from fourfold.storage.sqlite.database import DEFAULT, Connection, Database, Tuning, deadline_in, exceeded
from fourfold.storage.sqlite.indexes import HiddenChanges, Indexes, IndexOpening
from fourfold.storage.sqlite.links import (
    LinkCache,
    carried_tags,
    item_links,
    node_links,
    tag_counts,
    tag_uses,
    uses_of_tags,
)
from fourfold.storage.sqlite.namespaces import SourceRows, SqliteTransaction, namespace_languages, stored_vectors
from fourfold.storage.values import Deadline, Receipt, Record, TagUse
from fourfold.text.analysis import variants
from fourfold.text.keyword_query import KeywordQuery
from fourfold.threads import Task, Workers

if TYPE_CHECKING:
    from fourfold.index.link_state import LinkState
    from fourfold.index.rows import Ints

# ---------------------------------------------------------------- reading


_VECTOR_THREADS = 4
_CACHED_FILTERS = 16


class Caches:
    """Indexes, threads for vector search, and values that hold until a change."""

    def __init__(self, database: Database, indexes: Indexes) -> None:
        self.database = database
        self.indexes = indexes
        self.vector_threads = Workers(_VECTOR_THREADS, "fourfold-near")
        self.links = LinkCache(database, indexes.tuning)
        self.languages = Cache[Mapping[str, int]]()
        self.tag_counts = Cache[Mapping[str, int]]()
        self._allowed: Cache[Ints] = Cache(_CACHED_FILTERS)
        self._filtering = [Lock() for _ in range(_CACHED_FILTERS)]

    def allowed(self, at: SqliteSnapshot, filters: Filters) -> Ints:
        """The ids that pass, cached until the namespace changes."""
        what = repr(filters)
        with self._filtering[hash((at.ns.id, what)) % _CACHED_FILTERS]:  # concurrent searches evaluate a filter once
            return self._allowed.get(at.ns.id, at.last_change, what, lambda: np.array(at.rows.ids(filters), np.int64))


_SQL = (
    f"SELECT {COLUMNS}, (SELECT max(seq) FROM changes WHERE ns = namespaces.id), "  # noqa: S608  (constants)
    "EXISTS (SELECT 1 FROM files WHERE ns = namespaces.id), EXISTS (SELECT 1 FROM sources) FROM namespaces WHERE "
)


class SqliteSnapshot(SqlSnapshot[Namespace]):
    """Valid inside the transaction of `db`. A namespace that does not exist has the number 0, which no row has."""

    db: Connection

    def __init__(self, db: Connection, namespace: str | int, caches: Caches, deadline: Deadline) -> None:
        """`namespace`: its name or number."""
        sql = f"{_SQL}name = ?" if isinstance(namespace, str) else f"{_SQL}id = ?"
        *row, last, has_files, has_sources = (db.rows(sql, namespace) or _MISSING)[0]
        self.db = db
        self.caches = caches
        self.deadline = deadline
        self.read_as(Namespace(*row))
        self.namespace = self.ns.name
        self.last_change: int = last or 0
        self.has_files, self.has_sources = bool(has_files), bool(has_sources)
        self._filtered: tuple[Filters, Ints | TimedOut] | None = None
        self._links: tuple[LinkState | None] | None = None
        self.scorers: dict[str, VectorScorer | WordScorer] = {}
        """By retriever, of the searches that this snapshot has answered."""

    @property
    def words(self) -> SqliteWords:
        return SqliteWords(self)

    @property
    def vectors(self) -> SqliteVectors:
        return SqliteVectors(self)

    @property
    def graph(self) -> SqliteGraph:
        return SqliteGraph(self)

    @property
    def tags(self) -> SqliteTags:
        return SqliteTags(self)

    def vectors_of(self, ids: Sequence[int]) -> Mapping[int, Vector | Windows]:
        return stored_vectors(self.db, self.ns.dimension, ids)

    def keyword_query(self, text: str) -> KeywordQuery:
        if not self.exists:
            return KeywordQuery((), 0.0, 0)
        return self.caches.indexes.read_texts(self, lambda state: state.query(text, self.languages).query)

    @property
    def languages(self) -> Mapping[str, int]:
        """With the number of their items, the commonest first."""
        ns = self.ns.id
        return self.caches.languages.get(ns, self.last_change, "", lambda: namespace_languages(self.db, ns))

    @property
    def links(self) -> LinkState | None:
        """Names, links and tags in memory, if this process has them as of this snapshot."""
        if self._links is None:
            cache = self.caches.links
            entry = cache.entries.get(self.ns.id)
            current = None if entry is None or entry.change != self.last_change else entry.state
            self._links = (current or cache.state(self),)
        return self._links[0]

    def expand(self, expansion: Expansion, filters: Filters) -> Expanded | None:
        links = self.links
        return None if links is None else links.expand(expansion, self.allowed(filters), self.scorers)

    def allowed(self, filters: Filters) -> Ints | None:
        """The ids that pass, in order; None if all do. A filter that took too long is not evaluated again."""
        if filters is NO_FILTERS or filters == NO_FILTERS:
            return None
        if self._filtered is None or self._filtered[0] != filters:
            try:
                self._filtered = filters, self.caches.allowed(self, filters)
            except apsw.InterruptError:
                self._filtered = filters, exceeded(self.deadline, self.caches.database.path)
        ids = self._filtered[1]
        if isinstance(ids, TimedOut):
            raise ids
        return ids

    def passing(self, filters: Filters, links: list[I]) -> list[I]:
        """Those of the links whose item passes."""
        allowed = self.allowed(filters) if links else None
        if allowed is None:
            return links
        ids = np.array([each.item for each in links], np.int64)
        places = np.minimum(np.searchsorted(allowed, ids), max(len(allowed) - 1, 0))
        passes = allowed[places] == ids if len(allowed) else np.zeros(len(ids), np.bool_)
        return list(compress(links, passes))


_MISSING: list[tuple[Any, ...]] = [(0, "", 0, 0, 0, 0, None, None, 0, 0, 0, 0, 0)]


class _OfItem(Protocol):
    @property
    def item(self) -> int: ...


I = TypeVar("I", bound=_OfItem)  # noqa: E741


@dataclass(slots=True, eq=False)
class SqliteWords:
    _at: SqliteSnapshot

    def match(self, text: str, limit: int, filters: Filters) -> Ranking:
        at = self._at
        if not at.exists:
            return Ranking()
        allowed = at.allowed(filters)

        def search(state: TextState) -> Ranking:
            ranking, scorer = text_index.search(state, state.query(text, at.languages), limit, allowed)
            at.scorers["keyword"] = scorer
            return ranking

        return at.caches.indexes.read_texts(at, search)

    def scores(self, text: str, ids: Sequence[int]) -> Ranking:
        at = self._at
        if not at.exists:
            return Ranking()
        return at.caches.indexes.read_texts(
            at, lambda state: text_index.score(state, state.query(text, at.languages), ids)
        )

    def having(self, words: Sequence[str], limit: int, filters: Filters) -> list[int]:
        at, indexes = self._at, self._at.caches.indexes
        terms = variants(words, tuple(at.languages))
        return indexes.read_texts(at, lambda state: text_index.having(state, terms, limit, at.allowed(filters)))


@dataclass(slots=True, eq=False)
class SqliteVectors:
    _at: SqliteSnapshot

    def begin_nearest(self, vector: Vector, limit: int, filters: Filters) -> Callable[[], Ranking]:
        """Runs beside the caller if no other search runs in this process."""
        return self._begin(vector, limit, filters, beside=not scheduling.is_crowded())

    def nearest(self, vector: Vector, limit: int, filters: Filters) -> Ranking:
        return self._begin(vector, limit, filters, beside=False)()

    def _begin(self, vector: Vector, limit: int, filters: Filters, *, beside: bool) -> Callable[[], Ranking]:
        """`beside` the caller: many vectors in a thread of Python, which asks FAISS, others in that of the kernel."""
        at, indexes = self._at, self._at.caches.indexes
        space, pending = at.space, at.size.items - at.size.vectors
        if space is None:
            return lambda: Ranking(pending=pending)
        if len(vector) != space.dimension:
            raise wrong_dimension(len(vector), space.dimension)
        allowed = at.allowed(filters)
        many = at.size.vectors + at.size.windows > indexes.tuning.inline_vectors

        def scored(state: VectorState) -> VectorScorer:
            earlier = at.scorers.get("semantic")
            scorer = state.scorer(vector, alone=earlier is None or earlier.query is vector)
            at.scorers["semantic"] = scorer
            return scorer

        def begin(state: VectorState) -> Callable[[], Ranking]:
            if not (many and beside):
                return vector_index.begin(state, scored(state), limit, allowed, beside=beside)
            search = partial(vector_index.search, state, scored(state), limit, allowed)
            return partial(self._result, at.caches.vector_threads.submit(search))

        begun = indexes.read_vectors(at, space, begin)

        def finish() -> Ranking:
            try:
                ranking = begun()
            except Damaged:  # searches the items, because the files cannot be used
                again = partial(vector_index.search, limit=limit, allowed=allowed)
                ranking = indexes.read_vectors(at, space, lambda state: again(state, scored(state)))
            return replace(ranking, pending=pending) if pending else ranking

        return finish

    def _result(self, task: Task[Ranking]) -> Ranking:
        if not task.done.wait(self._at.deadline.seconds_left):
            raise exceeded(self._at.deadline, self._at.caches.database.path)
        return task.result()

    def cosines(self, vector: Vector, ids: Sequence[int]) -> Ranking:
        at = self._at
        if at.space is None:
            return Ranking()
        if len(vector) != at.space.dimension:
            raise wrong_dimension(len(vector), at.space.dimension)
        return at.caches.indexes.read_vectors(at, at.space, lambda state: vector_index.score(state, vector, ids))


class SqliteGraph(GraphReader[SqliteSnapshot]):
    def named(self, names: Sequence[str]) -> dict[str, list[int]]:
        links = self._at.links
        return super().named(names) if links is None else links.named(names)

    def node_links(self, nodes: Sequence[int], filters: Filters) -> list[Link]:
        links = self._at.links
        rows = node_links(self._at.db, nodes) if links is None else links.node_links(nodes)
        return self._at.passing(filters, rows)

    def item_links(self, ids: Sequence[int], filters: Filters) -> list[Link]:
        return self._at.passing(filters, item_links(self._at.db, self._at.ns.id, ids))

    def walk(self, strengths: Mapping[int, float], filters: Filters, limit: int, mentions: float = 1.0) -> Hits:
        links = self._at.links
        if links is None:
            return super().walk(strengths, filters, limit, mentions)
        return links.walk(strengths, self._at.allowed(filters), limit, mentions)


@dataclass(slots=True, eq=False)
class SqliteTags:
    _at: SqliteSnapshot

    def counts(self) -> Mapping[str, int]:
        at = self._at

        def fresh() -> Mapping[str, int]:
            return tag_counts(at.db, at.ns.id, hidden=at.hidden.superseded)

        return at.caches.tag_counts.get(at.ns.id, at.last_change, "", fresh, TAG_CACHE_SECONDS)

    def uses(self, candidates: Sequence[str], filters: Filters, limit: int) -> list[TagUse]:
        at, links = self._at, self._at.links
        if links is not None:
            return list(map(TagUse._make, links.tag_uses(candidates, at.allowed(filters), limit)))
        return tag_uses(at.db, at.ns.id, candidates, filters, limit)

    def shared(self, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        shared = selective_tags(carried_tags(self._at.db, self._at.ns.id, ids))
        return self._at.passing(filters, uses_of_tags(self._at.db, self._at.ns.id, shared))

    def rank_shared(self, strengths: Mapping[int, float], filters: Filters, limit: int) -> Hits:
        links = self._at.links
        if links is None:
            return rank_by_shared_tags(strengths, self.shared(list(strengths), filters), limit)
        return links.shared(strengths, self._at.allowed(filters), limit)


# ---------------------------------------------------------------- export and import


class SqlitePortable(SqlPortable[Connection]):
    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store.writing)
        self._store = store

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        with self._store.database.read() as db:
            numbers = db.column("SELECT id FROM namespaces WHERE name = coalesce(?, name) ORDER BY name", namespace)
        for ns in numbers:
            self._store.maintenance.catch_up(ns)
        with self._store.database.read() as db:
            for record in export_records(db, namespace, stored_vectors):
                write(record)

    def writing(self) -> AbstractContextManager[Connection]:
        return self._store.database.write()

    def _transaction(self, tx: Connection, namespace: str) -> SqliteTransaction:
        return SqliteTransaction(tx, namespace, {})

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        """Deletes the files of the store while no other process can write to it.

        Processes that have it open get a StoreReplaced with their next call: nothing is confirmed and lost.
        """
        folder = self._store.folder
        with self._turn, suppress(StoreReplaced), self.writing() as db:
            if not is_copied(export_records(db, None, stored_vectors)):
                raise RequestError("the store changed after it was copied", "Nothing was removed. Repeat the command")
            for file in (*folder.glob(f"{maintenance.DATABASE}*"), *maintenance.old_copies(folder)):
                file.unlink(missing_ok=True)
        shutil.rmtree(folder / maintenance.INDEX, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()


# ---------------------------------------------------------------- the store


_TEMPORARY: Final = Tuning(durable=False)


class SqliteStore:
    """Durable through power loss when a write returns. Many processes may have one folder open."""

    concurrent_searches = 2
    """GIL contention: 8 concurrent searches reach two thirds of the throughput of 2."""

    def __init__(self, folder: Path, *, create: bool = True, tuning: Tuning = DEFAULT) -> None:
        if not create:
            maintenance.require_store(folder)
        maintenance.prepare_folder(folder)
        self.folder = folder
        self.tuning = tuning
        self.database = Database(folder / maintenance.DATABASE, tuning)
        try:
            maintenance.require_content(folder, self.database)
        except BaseException:
            self.database.close()
            raise
        self.indexes = Indexes(
            folder / maintenance.INDEX, maintenance.store_identity(self.database), self.database, tuning
        )
        self.caches = Caches(self.database, self.indexes)
        self._linkers: dict[int, Linker] = {}
        self._looked_up: set[str] = set()
        """Namespaces whose index of words was opened to look names up in it; it stays open."""
        self.writing = threading.Lock()
        self.maintenance = maintenance.SqliteMaintenance(self)
        self.portable = SqlitePortable(self)

    def snapshot(self, namespace: str, *, seconds: float | None = None) -> AbstractContextManager[SqliteSnapshot]:
        deadline = deadline_in(seconds)
        return self.database.reading(lambda db: SqliteSnapshot(db, namespace, self.caches, deadline), deadline)

    @contextmanager
    def transaction(self, namespace: str, *, names: bool = False) -> Generator[SqliteTransaction]:
        """`names`: opens the index in which new names are looked up before the transaction blocks other writers."""
        if names and namespace not in self._looked_up:
            with suppress(StoreBusy, TimedOut), self.snapshot(namespace, seconds=limits.RETRIEVER_SECONDS) as at:
                if at.exists:
                    self.indexes.read_texts(at, lambda _: None)
                    self._looked_up.add(namespace)
        with self.writing, scheduling.in_bulk():
            try:
                with self.database.write() as db:
                    tx = SqliteTransaction(db, namespace, self._linkers, self.may_mention)
                    yield tx
                    rows = SourceRows(db, tx.ns.id)
                    before = rows.last_change if tx.items_put >= self.tuning.bulk_items else None
                    tx.store()
                    if before is not None:
                        hidden = HiddenChanges(tx.ns.id, before, rows.last_change)
                        self.indexes.hide(hidden)
                self.indexes.fold_in()
            except BaseException:
                self._linkers.clear()  # they may hold names that were rolled back
                raise
            finally:
                self.indexes.confirm()
        if tx.items_put:
            self.indexes.note_write(tx.ns.id, tx.items_put)

    def add_receipts(
        self, namespace: str, supplies: Mapping[str, Receipt], items: Mapping[int, int], now: datetime
    ) -> bool:
        if not self.writing.acquire(blocking=False):
            return False
        try:
            with self.database.write(waits=False) as db:
                add_receipts(db, namespace, supplies, items, now)
            return True
        except StoreBusy:
            return False
        finally:
            self.writing.release()

    def may_mention(self, ns: int, name: str) -> Sequence[int] | None:
        """Items of earlier transactions that may contain all words of a name; None if the index cannot be read now."""
        deadline = deadline_in()
        # not the writer's connection: indexes must not see uncommitted changes
        with self.database.read(deadline) as db:
            at = SqliteSnapshot(db, ns, self.caches, deadline)
            if not at.last_change:
                return []
            groups = name_terms(name, tuple(at.languages))
            if not groups:
                return SourceRows(db, at.ns.id).all_ids()
            try:
                return self.indexes.read_open_texts(at, lambda state: text_index.containing(state, groups))
            except IndexOpening:
                return None

    def namespaces(self) -> dict[str, int]:
        with self.database.read(deadline_in()) as db:
            return dict(db.rows("SELECT name, items - superseded FROM namespaces ORDER BY name"))

    def status(self) -> dict[str, Json]:
        with self.database.read(deadline_in()) as db:
            facts = maintenance.store_status(db, self.folder, self.indexes.publisher.unpublished)
        with self.maintenance.lease(None) as free:
            return {**facts, "embedding_worker": not free}

    def close(self) -> None:
        """Waits for reads, the write and the publication that are running."""
        with self.writing:
            self.indexes.publisher.close()
        self.caches.links.close()
        self.database.close()  # before the indexes: a search that is running could open their files again
        self.caches.vector_threads.close()
        self.indexes.close()


class TemporaryStore(SqliteStore):
    """A store in a new folder, which is removed when the store is closed, at the latest when the process exits.

    A process that is killed leaves the folder in the system's folder for temporary files.
    """

    def __init__(self, tuning: Tuning = _TEMPORARY) -> None:
        folder = Path(tempfile.mkdtemp(prefix="fourfold-"))
        try:
            super().__init__(folder, tuning=tuning)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._process = os.getpid()
        atexit.register(self._close_at_exit)

    def close(self) -> None:
        try:
            super().close()
        finally:
            atexit.unregister(self._close_at_exit)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _close_at_exit(self) -> None:
        """Closes the store, unless this is a forked child: the folder belongs to the parent."""
        if os.getpid() == self._process:
            self.close()
