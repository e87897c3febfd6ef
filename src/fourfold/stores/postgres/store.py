"""The store for a team: one PostgreSQL server with pgvector. Rows and indexes are the server's; scores are ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from fourfold import limits
from fourfold.embed.vectors import check_dimension
from fourfold.errors import RequestError, StoreBusy, TimedOut
from fourfold.model import NO_FILTERS, Edge, Filters, Item, ItemPatch, Json, Neighbor, NewItem, Node, Ranking, RawRecord
from fourfold.search.walk import Link
from fourfold.stores.base import Direction, FileState, FileUpdate, NewNode, Record, Size, Space, TagUse
from fourfold.stores.keyword_query import KeywordQuery
from fourfold.stores.loading import pieces
from fourfold.stores.postgres import (
    address,
    chunks,
    graph,
    graph_search,
    health,
    items,
    keyword,
    links,
    portable,
    postings,
    raw,
    scores,
    soundness,
    spaces,
    tags,
    upkeep,
    vectors,
)
from fourfold.stores.postgres.cache import Cache
from fourfold.stores.postgres.database import Database
from fourfold.stores.postgres.filters import Condition, where
from fourfold.stores.postgres.items import Row
from fourfold.stores.postgres.keyword import Preparation
from fourfold.stores.postgres.lease import Leases
from fourfold.stores.postgres.links import Linked, Linker
from fourfold.stores.postgres.packed import Packed
from fourfold.stores.postgres.postings import Shelf
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Answer, Db, Statement, rows, together
from fourfold.text.links import own_names

if TYPE_CHECKING:
    from fourfold.model import Vector

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", Link, TagUse)

_NARROW = 5000
"""So few items pass a filter: score them all instead of asking an index."""


class PostgresStore:
    """As durable as the server's `synchronous_commit`. Any number of processes may have one store open."""

    def __init__(self, dsn: str) -> None:
        self.address = address.parse(dsn)
        self._db = Database(self.address)
        self._leases = Leases(self._db)
        self._linkers: dict[int, Linker] = {}
        self._writing: dict[str, asyncio.Lock] = {}
        self._seen: dict[str, Namespace] = {}
        """Namespaces as they were when they were last read."""
        self._languages = Cache[dict[str, int]]()
        self._queries = Cache[KeywordQuery]()
        self._samples = Cache[vectors.Sample]()
        self._narrow = Cache[list[int] | None]()
        self._shelf = Shelf()
        self._tags = Cache[tuple[float, Mapping[str, int]]]()

    async def open(self) -> None:
        """Connects, and brings the schema up to date."""
        await self._db.open()
        if await self._db.read(soundness.is_analysed_otherwise):
            await self._analyse_anew()

    # ------------------------------------------------------------ reading and writing

    async def _read(
        self,
        namespace: str,
        empty: T,
        work: Callable[Concatenate[Db, Namespace, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`work(db, ns, ...)` with a connection; `empty` where there is no such namespace."""

        async def reading(db: Db) -> T:
            ns = await spaces.find(db, namespace)
            if ns is None:
                return empty
            self._seen[namespace] = ns
            return await work(db, ns, *args, **kwargs)

        return await self._in_time(reading)

    async def _ask(
        self,
        namespace: str,
        empty: T,
        statements: Callable[[Namespace], Sequence[Statement]],
        work: Callable[[Db, Namespace, list[list[Answer]]], Awaitable[T]],
    ) -> T:
        """`work(db, ns, answers)`. Questions to a namespace that was seen before go with the look for it: one way."""

        async def reading(db: Db) -> T:
            guess = self._seen.get(namespace)
            asked = statements(guess) if guess is not None else ()
            (found, *answers) = await together(db, [spaces.finding(namespace), *asked])
            ns = spaces.found(found)
            if ns is None:
                return empty
            self._seen[namespace] = ns
            if ns != guess and list(wanted := statements(ns)) != list(asked):
                answers = await together(db, wanted)
            return await work(db, ns, answers)

        return await self._in_time(reading)

    async def _in_time(self, reading: Callable[[Db], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(limits.READ_SECONDS):
                return await self._db.read(reading)
        except TimeoutError as error:
            shown = self.address.shown
            raise TimedOut(f"{shown} did not answer within {limits.READ_SECONDS:g} s", "Ask for less") from error

    async def _write(
        self,
        namespace: str,
        work: Callable[Concatenate[Db, Namespace, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`work(db, ns, ...)` in one transaction, with the namespace to ourselves."""
        turn = self._writing.setdefault(namespace, asyncio.Lock())
        try:
            async with asyncio.timeout(limits.BUSY_SECONDS):
                await turn.acquire()
        except TimeoutError as error:
            raise StoreBusy(f"{namespace} has been written to for {limits.BUSY_SECONDS:g} s", "Try again") from error
        try:
            async with self._db.write() as db:
                ns = await spaces.ensure(db, namespace)
                done = await work(db, ns, *args, **kwargs)
                await spaces.store(db, ns)
                return done
        except BaseException:
            self._linkers.clear()  # they may know names that were rolled back
            raise
        finally:
            turn.release()

    async def _take(self, namespace: str, nothing: T, work: Callable[[Db, Namespace], Awaitable[T]]) -> T:
        """A write that takes something away; it makes no namespace, and gives `nothing` where there is none."""

        async def known(db: Db, ns: Namespace) -> bool:
            return True

        return await self._write(namespace, work) if await self._read(namespace, False, known) else nothing

    def _linker(self, ns: Namespace) -> Linker:
        return self._linkers.setdefault(ns.id, Linker())

    # ------------------------------------------------------------ items

    async def put(self, namespace: str, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[int]:
        return await self._write(namespace, self._put, items, now, links) if items else []

    async def _put(self, db: Db, ns: Namespace, new: Sequence[NewItem], now: datetime, links: bool) -> list[int]:
        draft = await items.put(db, ns, new, now, links=links)
        await self._link(db, ns, draft.rows)
        return [row.id for row in draft.named]

    async def _link(self, db: Db, ns: Namespace, changed: Sequence[Row]) -> None:
        seen = [_linked(row) for row in changed if row.touched and (row.retold or row.renamed)]
        if seen:
            await self._linker(ns).link(db, ns, seen)

    async def patch(
        self, namespace: str, item: int, patch: ItemPatch, language: str | None, now: datetime, *, links: bool = True
    ) -> None:
        async def patching(db: Db, ns: Namespace) -> None:
            await self._link(db, ns, [await items.patch(db, ns, item, patch, language, now, links=links)])

        await self._write(namespace, patching)

    async def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Item]:
        return await self._in_time(lambda db: items.find(db, namespace, ids))

    async def find_keys(self, namespace: str, keys: Sequence[str]) -> dict[str, int]:
        return await self._read(namespace, {}, items.by_keys, keys)

    async def list(self, namespace: str, filters: Filters, limit: int, offset: int) -> list[Item]:
        return await self._read(namespace, [], items.listed, filters, limit, offset)

    async def matching(self, namespace: str, filters: Filters) -> list[int]:
        return await self._read(namespace, [], items.matching, filters)

    async def forget(self, namespace: str, ids: Sequence[int]) -> int:
        async def forgetting(db: Db, ns: Namespace) -> int:
            return await self._forget(db, ns, ids)

        return await self._take(namespace, 0, forgetting)

    async def _forget(self, db: Db, ns: Namespace, ids: Sequence[int]) -> int:
        owned = await graph.nodes_of(db, ids)
        gone = await items.forget(db, ns, ids)
        lost = await graph.prune(db, ns.id, owned)
        await self._linker(ns).renamed(db, ns, gone=lost)
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
        return await self._write(namespace, raw.add, content, speaker, session_id, metadata, now)

    async def get_raw(self, namespace: str, ids: Sequence[int]) -> dict[int, RawRecord]:
        return await self._read(namespace, {}, raw.get, ids)

    # ------------------------------------------------------------ files

    async def files(self, namespace: str, prefix: str) -> dict[str, FileState]:
        return await self._read(namespace, {}, chunks.states, prefix)

    async def put_files(
        self, namespace: str, files: Sequence[FileUpdate], now: datetime, *, links: bool = True
    ) -> None:
        async def putting(db: Db, ns: Namespace) -> None:
            gone = [item for file in files for item in await chunks.renumber(db, ns.id, file)]
            if gone:
                await self._forget(db, ns, gone)
            await self._put(db, ns, [chunk for file in files for chunk in file.chunks or ()], now, links)
            await chunks.note(db, ns.id, [file.state for file in files])

        await self._write(namespace, putting)

    async def forget_files(self, namespace: str, paths: Sequence[str]) -> int:
        async def forgetting(db: Db, ns: Namespace) -> int:
            gone = await self._forget(db, ns, await chunks.ids(db, ns.id, paths))
            await chunks.forget_states(db, ns.id, paths)
            return gone

        return await self._take(namespace, 0, forgetting)

    async def chunks(self, namespace: str, path: str, first: int, last: int) -> list[Item]:
        async def getting(db: Db, ns: Namespace) -> list[Item]:
            return list((await items.get(db, ns, await chunks.ids(db, ns.id, [path], first, last))).values())

        return await self._read(namespace, [], getting)

    async def named_chunks(self, namespace: str, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        async def naming(db: Db) -> list[tuple[int, str]]:
            ns = await spaces.find(db, namespace) if filters != NO_FILTERS else None
            condition = await where(db, filters, ns.id) if ns is not None else ("", ())
            return await chunks.named(db, namespace, names, condition)

        return await self._in_time(naming)

    # ------------------------------------------------------------ vectors

    async def space(self, namespace: str) -> Space | None:
        async def reading(db: Db, ns: Namespace) -> Space | None:
            return ns.space

        return await self._read(namespace, None, reading)

    async def set_space(self, namespace: str, space: Space) -> None:
        async def setting(db: Db, ns: Namespace) -> None:
            spaces.fix_space(ns, space)

        if await self.space(namespace) != space:
            await self._write(namespace, setting)

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
        return await self._write(namespace, put_made, space, vectors)

    # ------------------------------------------------------------ retrieval

    async def nearest(self, namespace: str, vector: Vector, limit: int, filters: Filters) -> Ranking:
        def asked(ns: Namespace) -> list[Statement]:
            if filters != NO_FILTERS or not vectors.fits(ns, vector):
                return []
            return [vectors.proposal(ns, vector, limit)]

        async def searching(db: Db, ns: Namespace, found: list[list[Answer]]) -> Ranking:
            if ns.space is None:
                return Ranking(pending=ns.size.pending)
            check_dimension(len(vector), ns.space.dimension)
            near = Packed.read(found[0][0]) if found else await self._near(db, ns, vector, limit, filters)
            hits = vectors.scored(near, ns.space.dimension, vector)[:limit]
            sample = await self._samples.get(ns.id, ns.vector_changes, "", lambda: vectors.sample(db, ns))
            return Ranking(hits, sample.background(vector), ns.size.pending)

        return await self._ask(namespace, Ranking(), asked, searching)

    async def _near(self, db: Db, ns: Namespace, vector: Vector, limit: int, filters: Filters) -> Packed:
        """Rows among which the nearest are that satisfy the filters."""
        condition, narrow = await self._filtered(db, ns, filters)
        if narrow is not None:
            return await vectors.read(db, vectors.of_items(ns, narrow))
        found = await vectors.read(db, vectors.proposal(ns, vector, limit, condition))
        if found.proposed < limit:  # the index gave up before enough rows passed
            found = await vectors.read(db, vectors.of_items(ns, await items.matching(db, ns, filters)))
        return found

    async def similarities(self, namespace: str, vector: Vector, ids: Sequence[int]) -> Ranking:
        def asked(ns: Namespace) -> list[Statement]:
            return [vectors.of_items(ns, ids)]

        async def scoring(db: Db, ns: Namespace, found: list[list[Answer]]) -> Ranking:
            if ns.space is None:
                return Ranking()
            check_dimension(len(vector), ns.space.dimension)
            return Ranking(vectors.scored(Packed.read(found[0][0]), ns.space.dimension, vector))

        return await self._ask(namespace, Ranking(), asked, scoring)

    async def match(self, namespace: str, text: str, limit: int, filters: Filters) -> Ranking:
        search = keyword.Beginning(text, limit, self._languages, self._queries, self._shelf)

        async def searching(db: Db, ns: Namespace, found: list[list[Answer]]) -> Ranking:
            begun, early = search.learn(found)
            query = await self._query(db, ns, text, begun)
            condition, narrow = await self._filtered(db, ns, filters)
            return await keyword.match(db, ns, query, limit, condition, narrow, self._shelf, early)

        return await self._ask(
            namespace, Ranking(), lambda ns: search.asked(ns, early=filters == NO_FILTERS), searching
        )

    async def match_scores(self, namespace: str, text: str, ids: Sequence[int]) -> Ranking:
        def asked(ns: Namespace) -> list[Statement]:
            return [scores.of_items(ns, ids)]

        async def scoring(db: Db, ns: Namespace, found: list[list[Answer]]) -> Ranking:
            return scores.match_scores(ns, await self._query(db, ns, text), Packed.read(found[0][0]))

        return await self._ask(namespace, Ranking(), asked, scoring)

    async def _query(self, db: Db, ns: Namespace, text: str, begun: Preparation | None = None) -> KeywordQuery:
        """Remembered while no text changes: search and score ask for the same one."""

        async def prepared() -> KeywordQuery:
            preparing = begun
            if preparing is None:
                languages = await self._languages.get(ns.id, ns.text_changes, "", lambda: spaces.languages(db, ns.id))
                preparing = Preparation(ns, text, languages)
            while not preparing.is_complete:
                preparing.learn(await together(db, preparing.questions()))
            return preparing.query

        return await self._queries.get(ns.id, ns.text_changes, text, prepared)

    async def _filtered(self, db: Db, ns: Namespace, filters: Filters) -> tuple[Condition, Sequence[int] | None]:
        """The filters as a condition, and the items that satisfy it where they are few."""
        if filters == NO_FILTERS:
            return ("", ()), None

        async def few() -> list[int] | None:
            found = await items.matching(db, ns, filters, _NARROW + 1)
            return found if len(found) <= _NARROW else None

        narrow = await self._narrow.get(ns.id, ns.changes, repr(filters), few)
        return (await where(db, filters, ns.id) if narrow is None else ("", ())), narrow

    async def node_links(self, namespace: str, names: Sequence[str], filters: Filters) -> list[Link]:
        async def linking(db: Db) -> list[Link]:
            nodes = graph_search.named(await rows(db, *graph_search.naming(namespace, names)))
            if not nodes:
                return []
            links = graph_search.node_links(*await together(db, graph_search.around_nodes(nodes)))
            return await self._passing(db, namespace, filters, links)

        return await self._in_time(linking)

    async def item_links(self, namespace: str, ids: Sequence[int], filters: Filters) -> list[Link]:
        async def linking(db: Db) -> list[Link]:
            links = graph_search.item_links(*await together(db, graph_search.around_items(namespace, ids)))
            return await self._passing(db, namespace, filters, links)

        return await self._in_time(linking)

    async def _passing(self, db: Db, namespace: str, filters: Filters, found: list[F]) -> list[F]:
        """Those links or uses whose item satisfies the filters."""
        ns = await spaces.find(db, namespace) if filters != NO_FILTERS and found else None
        if ns is None:
            return found
        wanted = sorted({row.item for row in found})
        kept = await items.passing(db, ns, filters, wanted)
        return [row for row in found if row.item in kept]

    async def tag_counts(self, namespace: str) -> Mapping[str, int]:
        async def counting(db: Db, ns: Namespace) -> Mapping[str, int]:
            async def fresh() -> tuple[float, Mapping[str, int]]:
                return time.monotonic(), await tags.counts(db, ns)

            known = await self._tags.get(ns.id, ns.changes, "", fresh)
            if time.monotonic() - known[0] > limits.TAG_CACHE_SECONDS:
                self._tags.clear()
                known = await self._tags.get(ns.id, ns.changes, "", fresh)
            return known[1]

        return await self._read(namespace, {}, counting)

    async def tagged(self, namespace: str, candidates: Sequence[str], filters: Filters) -> list[TagUse]:
        async def using(db: Db) -> list[TagUse]:
            found = tags.tagged(await rows(db, *tags.using(namespace, candidates)))
            return await self._passing(db, namespace, filters, found)

        return await self._in_time(using)

    # ------------------------------------------------------------ graph

    async def add_nodes(self, namespace: str, nodes: Sequence[NewNode]) -> list[Node]:
        async def adding(db: Db, ns: Namespace) -> list[Node]:
            made: list[int] = []
            for new in nodes:
                node, fresh = await graph.add_node(db, ns, new)
                await self._named(db, ns, fresh)
                made.append(node)
            found = await graph.read_nodes(db, made)
            return [found[node] for node in made]

        return await self._write(namespace, adding)

    async def _named(self, db: Db, ns: Namespace, fresh: Sequence[str]) -> None:
        linker = self._linker(ns)
        await linker.renamed(db, ns, fresh)
        await linker.announce(db, ns, fresh)

    async def add_edges(self, namespace: str, edges: Sequence[Edge]) -> None:
        async def adding(db: Db, ns: Namespace) -> None:
            await self._named(db, ns, await graph.add_edges(db, ns.id, edges))

        await self._write(namespace, adding)

    async def remove_node(self, namespace: str, name: str, label: str | None) -> bool:
        async def removing(db: Db, ns: Namespace) -> bool:
            node = await graph.resolve(db, ns.id, name, label)
            if node is not None:
                await self._linker(ns).renamed(db, ns, gone=await graph.remove_nodes(db, ns.id, [node]))
            return node is not None

        return await self._take(namespace, False, removing)

    async def remove_edge(self, namespace: str, source: str, relation: str, target: str) -> bool:
        async def removing(db: Db, ns: Namespace) -> bool:
            return await graph.remove_edge(db, ns.id, source, relation, target)

        return await self._take(namespace, False, removing)

    async def neighbors(
        self, namespace: str, name: str, label: str | None, depth: int, direction: Direction, relation: str | None
    ) -> list[Neighbor]:
        async def walking(db: Db, ns: Namespace) -> list[Neighbor]:
            start = await graph.required(db, ns.id, name, label)
            return await graph.neighbors(db, start, depth, direction, relation)

        return await self._walk(namespace, name, walking)

    async def path(self, namespace: str, start: str, goal: str, max_depth: int) -> list[Edge]:
        async def walking(db: Db, ns: Namespace) -> list[Edge]:
            ends = [await graph.required(db, ns.id, name) for name in (start, goal)]
            return await graph.find_path(db, ends[0], ends[1], max_depth)

        return await self._walk(namespace, start, walking)

    async def _walk(self, namespace: str, name: str, walking: Callable[[Db, Namespace], Awaitable[list[T]]]) -> list[T]:
        found = await self._read(namespace, None, walking)
        if found is None:
            raise graph.no_node(name)
        return found

    # ------------------------------------------------------------ the whole

    async def namespaces(self) -> dict[str, int]:
        return {ns.name: ns.items for ns in await self._db.read(spaces.everyone)}

    async def queues(self) -> list[str]:
        return await self._db.read(spaces.queues)

    async def size(self, namespace: str) -> Size:
        async def reading(db: Db, ns: Namespace) -> Size:
            return ns.size

        return await self._read(namespace, Size(0, 0), reading)

    @asynccontextmanager
    async def lease(self, namespace: str) -> AsyncGenerator[bool]:
        async with self._leases.held(namespace) as mine:
            yield mine

    async def maintain(self, namespace: str, *, wholly: bool = False) -> bool:
        if not await self._is_due(namespace, wholly):
            return True
        async with self._leases.held(namespace) as mine:
            if mine:
                await self._catch_up(namespace)
                await upkeep.index_vectors(self._db, namespace)
                if self._db.has_textsearch:
                    await upkeep.fill_words(self._db, namespace)
                else:
                    await postings.build(self._db, namespace, wholly=wholly)
            return mine

    async def _is_due(self, namespace: str, wholly: bool) -> bool:
        async def asking(db: Db, ns: Namespace) -> bool:
            if self._db.has_textsearch:
                words = ns.words != keyword.READY and ns.items >= upkeep.WORDED
            else:
                words = await postings.is_due(db, ns, wholly=wholly)
            return words or bool(await links.postponed(db, ns)) or await vectors.lacks_index(db, ns)

        return await self._read(namespace, False, asking)

    async def _catch_up(self, namespace: str) -> None:
        nodes = await self._read(namespace, [], links.postponed)
        after: int | None = 0 if nodes else None

        async def catching_up(db: Db, ns: Namespace, after: int) -> int | None:
            return await self._linker(ns).catch_up(db, ns, nodes, after)

        while after is not None:
            after = await self._write(namespace, catching_up, after)

    async def status(self) -> dict[str, Json]:
        return {"store": self.address.shown, **await self._db.read(health.status)}

    async def check(self) -> list[str]:
        async with self._db.snapshot() as db:
            return [problem async for problem in soundness.check(db)]

    async def repair(self, *, purge: bool = False) -> list[str]:
        async with self._db.write() as db:
            done = await soundness.mend_counters(db)
        names = await self._analyse_anew()
        if purge:
            async with self._db.unhurried() as db:
                await health.vacuum(db)
        done += [f"namespace {name}: texts analysed anew" for name in names]
        return [*done, "tables written anew without what was forgotten"] if purge else done

    async def _analyse_anew(self) -> Sequence[str]:
        names = list(await self.namespaces())
        for name in names:
            await self._write(name, _analysing_anew)
        async with self._db.write() as db:
            await soundness.note_analyser(db)
        return names

    async def backup(self, target: Path) -> None:
        raise RequestError(
            "a PostgreSQL store is backed up by its server", "Use pg_dump, or fourfold export FILE (docs/postgres.md)"
        )

    async def export(self, write: Callable[[Record], None]) -> None:
        for namespace in await self.namespaces():
            await self._catch_up(namespace)
        async with self._db.snapshot() as db:
            async for record in portable.records(db):
                write(record)

    async def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        self._linkers.clear()
        if mark is None:
            async with self._db.write() as db:
                await portable.require_empty(db)
                await portable.load(db, records)
            return
        async with self._db.write() as db:
            done = await portable.begin(db, mark)
        for piece, count in pieces(records, done):
            async with self._db.write() as db:
                await portable.load_piece(db, piece, mark, count)
        async with self._db.write() as db:
            await portable.finish(db)

    async def close(self) -> None:
        await self._db.close()


def _linked(row: Row) -> Linked:
    return Linked(row.id, row.text, own_names(row.title, row.text, row.metadata)) if row.linked else Linked(row.id, "")


async def put_made(db: Db, ns: Namespace, space: Space, made: Sequence[tuple[int, str, str, Vector]]) -> int:
    return await vectors.put_made(db, ns, space, made)


async def _analysing_anew(db: Db, ns: Namespace) -> None:
    await upkeep.drop_words(db, ns)
    await postings.drop(db, ns)
    await soundness.analyse_anew(db, ns)
