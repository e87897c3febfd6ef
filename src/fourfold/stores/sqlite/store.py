"""The embedded store: a folder with one SQLite file as the truth, and rebuildable indexes beside it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import apsw

from fourfold import courtesy, limits
from fourfold.errors import NotFound, StoreBusy, StoreUnavailable, TimedOut
from fourfold.immediate import immediately
from fourfold.limits import TAG_CACHE_SECONDS, TOP_K
from fourfold.model import (
    Edge,
    Filters,
    Item,
    ItemPatch,
    Json,
    Neighbor,
    NewItem,
    Node,
    NodeSummary,
    NodeView,
    Page,
    Query,
    Ranking,
    RawRecord,
)
from fourfold.search.walk import Link
from fourfold.storage.mending import mended, shortened
from fourfold.storage.naming import no_node
from fourfold.storage.records import accepted
from fourfold.stores.base import Direction, FileRow, FileUpdate, NewNode, Record, Size, Space, TagUse, Vocabulary
from fourfold.stores.loading import pieces
from fourfold.stores.raw import no_raw
from fourfold.stores.sqlite import (
    bulk,
    chunks,
    graph,
    health,
    items,
    links,
    mending,
    portable,
    raw,
    soundness,
    spaces,
    tags,
    text_index,
)
from fourfold.stores.sqlite import folder as folders
from fourfold.stores.sqlite.building import NotApart, caught_up_apart
from fourfold.stores.sqlite.bulk import Fresh, Put
from fourfold.stores.sqlite.database import Database, Job, rows
from fourfold.stores.sqlite.indexes import APART_AT, Behind, Indexes, NotNow
from fourfold.stores.sqlite.items import Change
from fourfold.stores.sqlite.links import AT_ONCE, Linker
from fourfold.stores.sqlite.moment import Moment
from fourfold.stores.sqlite.retrieval import Retrieval
from fourfold.text.links import own_names
from fourfold.turns import Turns

if TYPE_CHECKING:
    from fourfold.model import Vector

log = logging.getLogger("fourfold")

P = ParamSpec("P")
T = TypeVar("T")

_READERS = 8
_SEARCHES = 2
"""At a time: they share one interpreter, and eight that hand it to and fro get two thirds done of what two do."""
_TURN_SECONDS = 0.25
_MANY = 64
"""So many items are written in bulk."""


class SqliteStore:
    """Durable through power loss when a write returns. Many processes may have one folder open."""

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        if not create:
            folders.require(folder)
        folders.prepare(folder)
        self.folder = folder
        self._db = Database(folder / folders.DATABASE)
        self._indexes = Indexes(folder / folders.INDEX, folders.identity(self._db), self._db)
        self._linkers: dict[int, Linker] = {}
        self._known: dict[str, int] = {}
        """Namespaces that were read: one that is there stays, under its number."""
        self._tags: dict[int, tuple[int, float, Mapping[str, int]]] = {}
        self._retrieval = Retrieval(self._indexes)
        self._local = threading.local()
        self._readers = ThreadPoolExecutor(_READERS, "fourfold")
        self._turns = Turns(_SEARCHES, _TURN_SECONDS)
        self._writer = ThreadPoolExecutor(1, "fourfold-write")

    # ------------------------------------------------------------ threads and transactions

    async def _in(self, start: Callable[[Callable[[], T]], Future[T]], work: Callable[[], T]) -> T:
        """What a thread makes of it; a caller that is cancelled does not take it back once it has begun."""
        try:
            running = start(work)
        except RuntimeError as error:
            raise StoreUnavailable(f"{self.folder} was closed", "Open it again") from error
        return await asyncio.wrap_future(running)

    async def _read(
        self,
        namespace: str,
        empty: T,
        work: Callable[Concatenate[apsw.Connection, int, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`work(db, ns, ...)` in a reader's thread; `empty` where there is no such namespace."""
        return await self._in_time(lambda db: self._of(db, namespace, empty, work, *args, **kwargs))

    async def _in_time(self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            async with asyncio.timeout(limits.READ_SECONDS):
                return await self._read_db(work)
        except TimeoutError as error:
            raise TimedOut(f"{self.folder} did not answer within {limits.READ_SECONDS:g} s", "Ask for less") from error

    async def _read_db(self, work: Callable[[apsw.Connection], T]) -> T:
        """`work(db)` in a reader's thread, as often as it takes for indexes to be there; it ends with its caller."""
        while True:
            job = Job()

            def reading(job: Job = job) -> T:
                with self._db.read(job) as db:
                    return work(db)

            try:
                return await self._in(self._readers.submit, reading)
            except Behind as behind:
                if behind.long:
                    raise StoreBusy("the index is being built anew", "Ask again in a moment") from behind
                await asyncio.shield(asyncio.wrap_future(behind.ready))
            finally:
                job.call_off()

    # ------------------------------------------------------------ searches

    async def at_once(self, query: Query, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T | None:
        """In a reader's thread; a second one looks for what is nearest, which needs no database."""
        job = Job()

        def working() -> T | None:
            with self._db.read(job) as db:
                at = Moment.read(db, query.namespace)
                if at is None:
                    return None
                self._retrieval.begin(at, query)
                self._local.moment = at
                try:
                    return immediately(work())
                finally:
                    self._local.moment = None

        try:
            async with asyncio.timeout(seconds), self._turns.turn():
                with courtesy.searching():
                    return await self._in(self._readers.submit, working)
        except Exception as error:  # noqa: BLE001  it comes again, and is named, when all is asked apart
            log.debug("a search is asked apart: %s", type(error).__name__)
            return None
        finally:
            job.call_off()

    async def _asked(
        self,
        namespace: str,
        empty: T,
        work: Callable[Concatenate[Moment, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`work(moment, ...)` in a reader's thread, or in this one, if it is at a moment of that namespace already."""
        at: Moment | None = getattr(self._local, "moment", None)
        if at is not None and at.namespace == namespace:
            return work(at, *args, **kwargs)

        def asking(db: apsw.Connection) -> T:
            at = Moment.read(db, namespace)
            return empty if at is None else work(at, *args, **kwargs)

        return await self._in_time(asking)

    async def _now(
        self,
        namespace: str,
        empty: T,
        work: Callable[Concatenate[Moment, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The same in this thread: for what a search asks of rows that it has just found, and that take no longer than
        handing them to another thread and back."""
        if getattr(self._local, "moment", None) is not None:
            return await self._asked(namespace, empty, work, *args, **kwargs)
        try:
            with self._db.read() as db, self._indexes.hurried():
                at = Moment.read(db, namespace)
                return empty if at is None else work(at, *args, **kwargs)
        except NotNow:
            return await self._asked(namespace, empty, work, *args, **kwargs)

    def _of(
        self,
        db: apsw.Connection,
        namespace: str,
        empty: T,
        work: Callable[Concatenate[apsw.Connection, int, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        ns = self._known.get(namespace) or spaces.find(db, namespace)
        if ns is None:
            return empty
        self._known[namespace] = ns
        return work(db, ns, *args, **kwargs)

    async def _write(
        self, namespace: str, work: Callable[Concatenate[apsw.Connection, int, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`work(db, ns, ...)` in the writer's thread and one transaction."""
        return await self._write_db(lambda db: work(db, spaces.ensure(db, namespace), *args, **kwargs))

    async def _write_db(self, work: Callable[[apsw.Connection], T]) -> T:
        def writing() -> T:
            try:
                with courtesy.in_bulk():
                    with self._db.write() as db:
                        done = work(db)
                    self._indexes.follow()
                return done
            except BaseException:
                self._linkers.clear()  # they may know names that were rolled back
                raise
            finally:
                self._indexes.confirm()

        return await self._in(self._writer.submit, writing)

    async def _take(self, namespace: str, nothing: T, work: Callable[[apsw.Connection, int], T]) -> T:
        """A write that takes something away; it makes no namespace, and gives `nothing` where there is none."""
        known = await self._read(namespace, False, lambda db, ns: True)
        return await self._write(namespace, work) if known else nothing

    # ------------------------------------------------------------ items

    async def put(self, namespace: str, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        def putting(db: apsw.Connection, ns: int) -> tuple[int, list[Item]]:
            return ns, bulk.as_stored(db, namespace, ns, self._put(db, ns, items, now, links), now)

        if not items:
            return []
        named = (own_names(item.title, item.text, item.metadata, item.kind) for item in items)
        if links and len(items) <= AT_ONCE and any(named):
            await self._prepare_links(namespace)  # the names of more are looked for later
        ns, stored = await self._write(namespace, putting)
        self._indexes.keep_up(ns, len(stored))
        return stored

    def _put(self, db: apsw.Connection, ns: int, new: Sequence[NewItem], now: datetime, links: bool) -> Put:
        before = items.last_change(db, ns)
        done = bulk.put(db, ns, new, now, linked=links)
        changes: dict[int, Change] = {}
        for row in done.written:
            known = changes.get(row.id)
            changes[row.id] = row.change if known is None else known | row.change
        with_text = {change for change in set(changes.values()) if change & Change.TEXT}
        texts = [item for item, change in changes.items() if change in with_text]
        fresh = {new.id for new in done.fresh}
        again = [item for item in texts if item not in fresh]
        if fresh and max(again, default=0) > min(fresh):  # given twice: nodes come in the order of items
            self._link(db, ns, texts, links)
        else:
            self._link(db, ns, again, links, done.fresh)
        items.log(db, ns, changes.items())
        if len(new) >= _MANY:
            self._indexes.unconfirmed(ns, before, items.last_change(db, ns))
        return done

    async def patch(self, namespace: str, item: int, patch: ItemPatch, now: datetime, *, links: bool = True) -> Item:
        def patching(db: apsw.Connection, ns: int) -> Item:
            change = items.patch(db, namespace, ns, item, patch, now)
            if change & Change.TEXT:
                self._link(db, ns, [item], links)
            items.log(db, ns, [(item, change)])
            return items.get(db, namespace, ns, [item])[item]

        if links and (patch.title is not None or patch.text is not None):
            await self._prepare_links(namespace)
        return await self._write(namespace, patching)

    async def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Item]:
        if len(ids) <= TOP_K:
            return await self._now(namespace, {}, self._retrieval.get, ids)
        return await self._asked(namespace, {}, courtesy.in_bulk()(self._retrieval.get), ids)

    async def find_keys(self, namespace: str, keys: Sequence[str]) -> dict[str, int]:
        return await self._read(namespace, {}, items.by_keys, keys)

    async def list(self, namespace: str, filters: Filters, limit: int, offset: int) -> list[Item]:
        def listing(db: apsw.Connection, ns: int) -> list[Item]:
            ids = items.listed(db, ns, filters, limit, offset)
            found = items.get(db, namespace, ns, ids)
            return [found[item] for item in ids]

        return await self._read(namespace, [], listing)

    async def matching(self, namespace: str, filters: Filters) -> list[int]:
        return await self._read(namespace, [], items.matching, filters)

    async def forget(self, namespace: str, ids: Sequence[int]) -> int:
        return await self._take(namespace, 0, lambda db, ns: self._forget(db, ns, ids))

    def _forget(self, db: apsw.Connection, ns: int, ids: Sequence[int]) -> int:
        known = items.possible(ids)
        owned = [items.nodes_of(db, item) for item in known]
        gone = [item for item in known if items.forget(db, ns, item)]
        lost = graph.prune(db, ns, {node for nodes in owned for node in nodes})
        self._linker(ns).renamed(db, gone=lost)
        items.log(db, ns, ((item, Change.GONE) for item in gone))
        return len(gone)

    async def add_raw(
        self,
        namespace: str,
        content: str,
        speaker: str | None,
        session_id: str | None,
        metadata: Mapping[str, Json],
        now: datetime,
    ) -> RawRecord:
        def adding(db: apsw.Connection, ns: int) -> RawRecord:
            record = raw.add(db, ns, content, speaker, session_id, metadata, now)
            return raw.get(db, namespace, ns, [record])[record]

        return await self._write(namespace, adding)

    async def get_raw(self, namespace: str, ids: Sequence[int]) -> dict[int, RawRecord]:
        return await self._read(namespace, {}, lambda db, ns: raw.get(db, namespace, ns, ids))

    async def list_raw(
        self, namespace: str, session_id: str | None, speaker: str | None, limit: int, offset: int
    ) -> Page[RawRecord]:
        def listing(db: apsw.Connection, ns: int) -> Page[RawRecord]:
            return raw.page(db, namespace, ns, session_id, speaker, limit, offset)

        return await self._read(namespace, Page([], 0, offset), listing)

    async def forget_raw(self, namespace: str, ids: Sequence[int], *, force: bool = False) -> int:
        found = await self._take(namespace, None, lambda db, ns: raw.forget(db, ns, ids, force=force))
        if found is None and ids:
            raise no_raw(ids[0])
        return found or 0

    # ------------------------------------------------------------ files

    async def files(self, namespace: str, prefix: str) -> Mapping[str, FileRow]:
        return await self._read(namespace, {}, chunks.states, prefix)

    async def put_files(
        self, namespace: str, files: Sequence[FileUpdate], now: datetime, *, links: bool = True
    ) -> None:
        def putting(db: apsw.Connection, ns: int) -> None:
            if gone := [item for file in files for item in chunks.renumber(db, ns, file)]:
                self._forget(db, ns, gone)
            self._put(db, ns, [chunk for file in files for chunk in file.chunks or ()], now, links)
            for file in files:
                chunks.note(db, ns, file.state)

        chunks_put = sum(len(file.chunks or ()) for file in files)
        if links and 0 < chunks_put <= AT_ONCE:  # the names of more are looked for later
            await self._prepare_links(namespace)
        await self._write(namespace, putting)

    async def forget_files(self, namespace: str, paths: Sequence[str]) -> int:
        def forgetting(db: apsw.Connection, ns: int) -> int:
            gone = self._forget(db, ns, [item for path in paths for item in chunks.ids(db, ns, path)])
            chunks.forget_states(db, ns, paths)
            return gone

        return await self._take(namespace, 0, forgetting)

    async def chunks(self, namespace: str, path: str, first: int, last: int) -> list[Item]:
        def getting(db: apsw.Connection, ns: int) -> list[Item]:
            numbered = chunks.ids(db, ns, path, first, last)
            found = items.get(db, namespace, ns, numbered)
            return [found[item] for item in numbered]

        return await self._read(namespace, [], getting)

    async def named_chunks(self, namespace: str, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        return await self._now(namespace, [], self._retrieval.named_chunks, names, filters)

    # ------------------------------------------------------------ links (B11)

    def _linker(self, ns: int) -> Linker:
        return self._linkers.setdefault(ns, Linker(ns))

    def _link(
        self, db: apsw.Connection, ns: int, changed: Sequence[int], on: bool, fresh: Sequence[Fresh] = ()
    ) -> None:
        items.set_linked(db, changed, on)
        self._linker(ns).link(db, changed, fresh if on else (), lambda name: self._may_mention(ns, name))

    async def _prepare_links(self, namespace: str) -> None:
        """Opens the keyword index, in which new names are looked up: not while a transaction holds up others."""
        with suppress(StoreBusy, TimeoutError):
            async with asyncio.timeout(limits.RETRIEVER_SECONDS):
                await self._asked(namespace, None, self._open_texts)

    def _open_texts(self, at: Moment) -> None:
        with self._indexes.texts(at):
            pass

    def _may_mention(self, ns: int, name: str) -> Sequence[int] | None:
        """Items of earlier transactions that may hold all words of a name."""
        with self._db.read() as db:  # not the writer's connection: no index may learn what is not committed
            at = Moment.read(db, ns)
            if at is None or not at.last:
                return []
            groups = links.name_terms(name, tuple(at.languages))
            if not groups:
                return items.all_ids(db, at.ns)
            try:
                with self._indexes.texts(at) as state:
                    return text_index.containing(state, groups)
            except Behind:
                return None

    # ------------------------------------------------------------ vectors

    async def space(self, namespace: str) -> Space | None:
        return await self._read(namespace, None, spaces.space)

    async def set_space(self, namespace: str, space: Space) -> None:
        if await self.space(namespace) != space:
            await self._write(namespace, spaces.set_space, space)

    async def reset_space(self, namespace: str, space: Space) -> None:
        await self._write(namespace, spaces.reset_space, space)

    async def waiting(
        self, namespace: str, limit: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, str, str]]:
        return await self._read(namespace, [], spaces.waiting, limit, among)

    async def refuse(self, namespace: str, waiting: tuple[int, str, str], reason: str) -> None:
        await self._write(namespace, spaces.refuse, waiting, reason)

    async def retry_refused(self, namespace: str) -> None:
        if await self._read(namespace, False, spaces.has_refused):
            await self._write(namespace, spaces.retry_refused)

    async def put_vectors(self, namespace: str, space: Space, vectors: Sequence[tuple[int, str, str, Vector]]) -> int:
        return await self._write(namespace, spaces.put_made, space, vectors)

    # ------------------------------------------------------------ retrieval

    async def nearest(self, namespace: str, vector: Vector, limit: int, filters: Filters) -> Ranking:
        return await self._asked(namespace, Ranking(), self._retrieval.nearest, vector, limit, filters)

    async def similarities(self, namespace: str, vector: Vector, ids: Sequence[int]) -> Ranking:
        return await self._now(namespace, Ranking(), self._retrieval.similarities, vector, ids)

    async def match(self, namespace: str, text: str, limit: int, filters: Filters) -> Ranking:
        return await self._asked(namespace, Ranking(), self._retrieval.match, text, limit, filters)

    async def match_scores(self, namespace: str, text: str, ids: Sequence[int]) -> Ranking:
        return await self._now(namespace, Ranking(), self._retrieval.match_scores, text, ids)

    async def node_links(self, namespace: str, names: Sequence[str], filters: Filters) -> list[Link]:
        return await self._now(namespace, [], self._retrieval.node_links, names, filters)

    async def item_links(self, namespace: str, ids: Sequence[int], filters: Filters) -> list[Link]:
        return await self._now(namespace, [], self._retrieval.item_links, ids, filters)

    async def tag_counts(self, namespace: str) -> Mapping[str, int]:
        return await self._read(namespace, {}, self._tag_counts)

    def _tag_counts(self, db: apsw.Connection, ns: int) -> Mapping[str, int]:
        last, known = items.last_change(db, ns), self._tags.get(ns)
        if known is None or known[0] != last or time.monotonic() - known[1] > TAG_CACHE_SECONDS:
            known = self._tags[ns] = (last, time.monotonic(), tags.counts(db, ns))
        return known[2]

    async def vocabulary(self, namespace: str, field: Vocabulary) -> dict[str, int]:
        return await self._read(namespace, {}, items.vocabulary, field)

    async def tagged(self, namespace: str, candidates: Sequence[str], filters: Filters) -> list[TagUse]:
        return await self._now(namespace, [], self._retrieval.tagged, candidates, filters)

    async def sharing(self, namespace: str, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        return await self._now(namespace, [], self._retrieval.sharing, ids, filters)

    # ------------------------------------------------------------ graph

    async def add_nodes(self, namespace: str, nodes: Sequence[NewNode]) -> list[Node]:
        await self._prepare_links(namespace)
        return await self._write(namespace, self._add_nodes, nodes)

    def _add_nodes(self, db: apsw.Connection, ns: int, nodes: Sequence[NewNode]) -> list[Node]:
        made: list[int] = []
        for new in nodes:
            node, fresh = graph.add_node(db, ns, new.name, new.label, new.aliases, new.properties)
            if new.item is not None:
                if not items.exists(db, ns, new.item):
                    raise NotFound(f"no item {new.item}", "Store the item first, then refer to its id")
                graph.attach(db, node, new.item, made=True)
            self._named(db, ns, fresh)
            made.append(node)
        items.log(db, ns, [(0, Change.LABELS)])
        found = graph.read_nodes(db, made)
        return [found[node] for node in made]

    def _named(self, db: apsw.Connection, ns: int, fresh: Sequence[str]) -> None:
        linker = self._linker(ns)
        linker.renamed(db, fresh)
        linker.announce(db, fresh, lambda name: self._may_mention(ns, name))

    async def add_edges(self, namespace: str, edges: Sequence[Edge]) -> None:
        def adding(db: apsw.Connection, ns: int) -> None:
            fresh: list[str] = []
            known: dict[str, int] = {}
            for edge in edges:
                for name in (edge.source, edge.target):
                    if name not in known:
                        node = graph.resolve(db, ns, name)
                        added: list[str] = []
                        if node is None:
                            node, added = graph.ensure_reference(db, ns, name)
                        known[name] = node
                        fresh += added
                graph.set_edge(db, known[edge.source], edge.relation, known[edge.target], edge.weight)
            self._named(db, ns, fresh)
            items.log(db, ns, [(0, Change.LABELS)])

        await self._prepare_links(namespace)
        await self._write(namespace, adding)

    async def remove_node(self, namespace: str, name: str, label: str | None) -> bool:
        def removing(db: apsw.Connection, ns: int) -> bool:
            node = graph.resolve(db, ns, name, label)
            if node is None:
                return False
            self._linker(ns).renamed(db, gone=graph.remove_node(db, ns, node))
            items.log(db, ns, [(0, Change.LABELS)])
            return True

        return await self._take(namespace, False, removing)

    async def remove_edge(self, namespace: str, source: str, relation: str, target: str) -> bool:
        def removing(db: apsw.Connection, ns: int) -> bool:
            ends = [graph.resolve(db, ns, name) for name in (source, target)]
            if ends[0] is None or ends[1] is None:
                return False
            removed = graph.remove_edge(db, ends[0], relation, ends[1])
            items.log(db, ns, [(0, Change.LABELS)])
            return removed

        return await self._take(namespace, False, removing)

    async def nodes(self, namespace: str, like: str, limit: int, offset: int) -> list[NodeSummary]:
        return await self._read(namespace, [], graph.summaries, like, limit, offset)

    async def node_view(self, namespace: str, name: str, label: str | None, limit: int) -> NodeView:
        def viewing(db: apsw.Connection, ns: int) -> NodeView:
            return graph.view(db, graph.required(db, ns, name, label), limit)

        found = await self._read(namespace, None, viewing)
        if found is None:
            raise no_node(name)
        return found

    async def neighbors(
        self,
        namespace: str,
        name: str,
        label: str | None,
        depth: int,
        direction: Direction,
        relation: str | None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Page[Neighbor]:
        def walking(db: apsw.Connection, ns: int) -> Page[Neighbor]:
            start = graph.required(db, ns, name, label)
            return graph.neighbors(db, start, depth, direction, relation, limit, offset)

        return await self._walk(namespace, name, walking)

    async def path(self, namespace: str, start: str, goal: str, max_depth: int) -> list[Edge]:
        def walking(db: apsw.Connection, ns: int) -> list[Edge]:
            return graph.find_path(db, graph.required(db, ns, start), graph.required(db, ns, goal), max_depth)

        return await self._walk(namespace, start, walking)

    async def _walk(self, namespace: str, name: str, walking: Callable[[apsw.Connection, int], T]) -> T:
        found = await self._read(namespace, None, walking)
        if found is None:
            raise no_node(name)
        return found

    # ------------------------------------------------------------ the whole

    async def namespaces(self) -> dict[str, int]:
        return await self._read_db(lambda db: dict(rows(db, "SELECT name, items FROM namespaces ORDER BY name")))

    async def queues(self) -> list[str]:
        return await self._read_db(spaces.queues)

    async def size(self, namespace: str) -> Size:
        return await self._read(namespace, Size(0, 0), spaces.size)

    @asynccontextmanager
    async def lease(self, namespace: str | None) -> AsyncGenerator[bool]:
        ns = None if namespace is None else await self._read(namespace, None, lambda db, ns: ns)
        if namespace is not None and ns is None:
            yield True
            return
        with ExitStack() as held:
            try:
                lease = self._indexes.worker if ns is None else self._indexes.lease(ns)
                mine = held.enter_context(lease.held())
            except OSError:  # no place for its file: better done twice than not at all
                mine = True
            yield mine

    async def maintain(self, namespace: str, *, wholly: bool = False) -> bool:
        ns = await self._read(namespace, None, lambda db, ns: ns)
        if ns is None:
            return True
        await self._catch_up(namespace)
        return await self._in(self._indexes.submit, lambda: self._indexes.maintain(ns, wholly=wholly))

    async def _catch_up(self, namespace: str) -> None:
        ns = await self._read(namespace, None, lambda db, ns: ns if links.is_behind(db, ns) else None)
        if ns is not None:
            await self._in(self._indexes.submit, lambda: self._catch_up_now(ns))

    def _catch_up_now(self, ns: int) -> None:
        with self._db.read() as db:
            long = links.is_long(db, ns, APART_AT)
        if long:
            try:
                caught_up_apart(self._db.path, ns)
                return
            except NotApart:
                pass  # then here
        links.catch_up(self._db, ns, lambda name: self._may_mention(ns, name))

    async def status(self) -> dict[str, Json]:
        facts = await self._read_db(lambda db: health.status(db, self.folder))
        async with self.lease(None) as free:
            return {**facts, "embedding_worker": not free}

    async def check(self) -> list[str]:
        return await self._in(self._indexes.submit, lambda: soundness.check(self._db, self._indexes))

    async def repair(self, *, purge: bool = False) -> list[str]:
        done = await self._in(self._indexes.submit, lambda: mending.repair(self._db, self._indexes, purge=purge))
        for namespace in await self.namespaces():
            broken = await self._read_db(partial(self._of, namespace=namespace, empty=[], work=_breaking_limits))
            if broken:
                done += await self._write(namespace, self._mend_items, namespace, broken)
        if purge:
            done += await self._in(self._indexes.submit, lambda: mending.purge(self._db, self.folder))
        return done

    def _mend_items(self, db: apsw.Connection, ns: int, namespace: str, broken: Sequence[int]) -> list[str]:
        """Brings items within the limits; what is taken out of them becomes raw records."""
        done: list[str] = []
        now = datetime.now(UTC)
        for item in items.get(db, namespace, ns, broken).values():
            if (found := mended(item)) is None:
                continue
            kept = [raw.add(db, ns, text, None, None, {"repaired_item": item.id}, now) for text in found.removed]
            new = replace(found.item, source_ids=(*found.item.source_ids, *kept))
            change = items.rewrite(db, ns, item.id, new, now)
            if change & Change.TEXT:
                self._link(db, ns, [item.id], items.is_linked(db, item.id))
            items.log(db, ns, [(item.id, change)])
            done.append(f"mended: namespace {namespace}: {shortened(item, kept)}")
        return done

    async def backup(self, target: Path) -> None:
        await self._read_db(lambda db: health.backup(db, target))

    async def export(self, write: Callable[[Record], None]) -> None:
        def exporting(db: apsw.Connection) -> None:
            for record in portable.records(db):
                write(record)

        for namespace in await self.namespaces():
            await self._catch_up(namespace)
        await self._read_db(exporting)

    async def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        records = accepted(records)
        if mark is not None:
            return await self._load_in_pieces(records, mark)

        def loading(db: apsw.Connection) -> None:
            portable.require_empty(db)
            portable.load(db, records)

        await self._write_db(loading)

    async def _load_in_pieces(self, records: Iterable[Record], mark: str) -> None:
        done = await self._write_db(lambda db: portable.begin(db, mark))
        for piece, count in pieces(records, done):
            await self._write_db(partial(portable.load_piece, piece=piece, mark=mark, count=count))
        await self._write_db(portable.finish)

    async def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        await self._in(self._writer.submit, lambda: health.remove(self._db, self.folder, is_copied))

    async def close(self) -> None:
        """Waits for what is under way in threads: they have connections, and one may be publishing."""
        for letting_go in (
            self._writer.shutdown,
            self._readers.shutdown,
            self._retrieval.close,
            self._indexes.close,
        ):
            await asyncio.to_thread(letting_go)
        self._db.close()


def _breaking_limits(db: apsw.Connection, ns: int) -> list[int]:
    """Items that no write would leave as they are."""
    parts = items.chunks(items.all_ids(db, ns))
    return [item.id for part in parts for item in items.get(db, "", ns, part).values() if mended(item) is not None]
