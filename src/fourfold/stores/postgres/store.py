"""The store for a team: one PostgreSQL server with pgvector. Rows and indexes are the server's; scores are ours."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fourfold.errors import RequestError
from fourfold.model import (
    NO_FILTERS,
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
    RawRecord,
)
from fourfold.storage.mending import mended, shortened
from fourfold.storage.naming import no_node
from fourfold.storage.records import accepted
from fourfold.stores.base import Direction, FileRow, FileUpdate, NewNode, Record, Size, Space, Vocabulary
from fourfold.stores.loading import pieces
from fourfold.stores.postgres import (
    chunks,
    graph,
    health,
    items,
    links,
    portable,
    postings,
    raw,
    soundness,
    spaces,
    upkeep,
    vectors,
)
from fourfold.stores.postgres.filters import where
from fourfold.stores.postgres.items import Row
from fourfold.stores.postgres.lease import Leases
from fourfold.stores.postgres.links import Linked, Linker
from fourfold.stores.postgres.retrieval import Retrieval
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db
from fourfold.stores.raw import no_raw
from fourfold.text.links import own_names

if TYPE_CHECKING:
    from fourfold.model import Vector

T = TypeVar("T")


class PostgresStore(Retrieval):
    """As durable as the server's `synchronous_commit`. Any number of processes may have one store open."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._leases = Leases(self._db)
        self._linkers: dict[int, Linker] = {}

    def _undone(self) -> None:
        self._linkers.clear()  # they may know names that were rolled back

    async def open(self, *, create: bool = True) -> None:
        """Connects, and brings the schema up to date; without `create`, StoreNotFound where there is none."""
        await self._db.open(create=create)
        if await self._db.read(soundness.is_analysed_otherwise):
            await self._analyse_anew()

    def _linker(self, ns: Namespace) -> Linker:
        return self._linkers.setdefault(ns.id, Linker())

    # ------------------------------------------------------------ items

    async def put(self, namespace: str, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        return await self._write(namespace, self._put, items, now, links) if items else []

    async def _put(self, db: Db, ns: Namespace, new: Sequence[NewItem], now: datetime, links: bool) -> list[Item]:
        draft = await items.put(db, ns, new, now, links=links)
        await self._link(db, ns, draft.rows)
        return [items.as_item(ns.name, row) for row in draft.named]

    async def _link(self, db: Db, ns: Namespace, changed: Sequence[Row]) -> None:
        seen = [_linked(row) for row in changed if row.touched and (row.retold or row.renamed)]
        if seen:
            await self._linker(ns).link(db, ns, seen)

    async def patch(self, namespace: str, item: int, patch: ItemPatch, now: datetime, *, links: bool = True) -> Item:
        async def patching(db: Db, ns: Namespace) -> Item:
            row = await items.patch(db, ns, item, patch, now, links=links)
            await self._link(db, ns, [row])
            return items.as_item(ns.name, row)

        return await self._write(namespace, patching)

    async def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Item]:
        return await self._in_time(lambda db: items.find(db, namespace, ids))

    async def find_keys(self, namespace: str, keys: Sequence[str]) -> dict[str, int]:
        return await self._read(namespace, {}, items.by_keys, keys)

    async def list(self, namespace: str, filters: Filters, limit: int, offset: int) -> list[Item]:
        return await self._read(namespace, [], items.listed, filters, limit, offset)

    async def vocabulary(self, namespace: str, field: Vocabulary) -> dict[str, int]:
        return await self._read(namespace, {}, items.vocabulary, field)

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

    async def list_raw(
        self, namespace: str, session_id: str | None, speaker: str | None, limit: int, offset: int
    ) -> Page[RawRecord]:
        return await self._read(namespace, Page([], 0, offset), raw.page, session_id, speaker, limit, offset)

    async def forget_raw(self, namespace: str, ids: Sequence[int], *, force: bool = False) -> int:
        async def forgetting(db: Db, ns: Namespace) -> int | None:
            return await raw.forget(db, ns, ids, force=force)

        found = await self._take(namespace, None, forgetting)
        if found is None and ids:
            raise no_raw(ids[0])
        return found or 0

    # ------------------------------------------------------------ files

    async def files(self, namespace: str, prefix: str) -> Mapping[str, FileRow]:
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

    async def nodes(self, namespace: str, like: str, limit: int, offset: int) -> list[NodeSummary]:
        return await self._read(namespace, [], graph.summaries, like, limit, offset)

    async def node_view(self, namespace: str, name: str, label: str | None, limit: int) -> NodeView:
        async def viewing(db: Db, ns: Namespace) -> NodeView:
            return await graph.view(db, await graph.required(db, ns.id, name, label), limit)

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
        async def walking(db: Db, ns: Namespace) -> Page[Neighbor]:
            start = await graph.required(db, ns.id, name, label)
            return await graph.neighbors(db, start, depth, direction, relation, limit, offset)

        return await self._walk(namespace, name, walking)

    async def path(self, namespace: str, start: str, goal: str, max_depth: int) -> list[Edge]:
        async def walking(db: Db, ns: Namespace) -> list[Edge]:
            ends = [await graph.required(db, ns.id, name) for name in (start, goal)]
            return await graph.find_path(db, ends[0], ends[1], max_depth)

        return await self._walk(namespace, start, walking)

    async def _walk(self, namespace: str, name: str, walking: Callable[[Db, Namespace], Awaitable[T]]) -> T:
        found = await self._read(namespace, None, walking)
        if found is None:
            raise no_node(name)
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
    async def lease(self, namespace: str | None) -> AsyncGenerator[bool]:
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
                    await upkeep.fill_words(self._db, namespace, wholly=wholly)
                else:
                    await postings.build(self._db, namespace, wholly=wholly)
            return mine

    async def _is_due(self, namespace: str, wholly: bool) -> bool:
        async def asking(db: Db, ns: Namespace) -> bool:
            words = upkeep.is_due if self._db.has_textsearch else postings.is_due
            due = await words(db, ns, wholly=wholly) or await vectors.lacks_index(db, ns)
            return due or bool(await links.postponed(db, ns))

        return await self._read(namespace, False, asking)

    async def _catch_up(self, namespace: str) -> None:
        nodes = await self._read(namespace, [], links.postponed)
        after: int | None = 0 if nodes else None

        async def catching_up(db: Db, ns: Namespace, after: int) -> int | None:
            return await self._linker(ns).catch_up(db, ns, nodes, after)

        while after is not None:
            after = await self._write(namespace, catching_up, after)

    async def status(self) -> dict[str, Json]:
        facts = await self._db.read(health.status)
        return {"store": self.address.shown, **facts, "embedding_worker": await self._leases.worker_is_running()}

    async def check(self) -> list[str]:
        async with self._db.snapshot() as db:
            return [problem async for problem in soundness.check(db)]

    async def repair(self, *, purge: bool = False) -> list[str]:
        async with self._db.write() as db:
            done = await soundness.mend_counters(db)
        for name in await self.namespaces():
            if broken := await self._breaking_limits(name):
                done += await self._write(name, self._mend_items, broken)
        names = await self._analyse_anew()
        if purge:
            async with self._db.unhurried() as db:
                await health.vacuum(db)
        done += [f"namespace {name}: texts analysed anew" for name in names]
        return [*done, "tables written anew without what was forgotten"] if purge else done

    async def _breaking_limits(self, namespace: str) -> list[int]:
        """Items that no write would leave as they are."""
        async with self._db.snapshot() as db:
            ns = await spaces.find(db, namespace)
            every = items.everything(db, 0 if ns is None else ns.id)
            return [row.id async for row in every if mended(items.as_item(namespace, row)) is not None]

    async def _mend_items(self, db: Db, ns: Namespace, broken: Sequence[int]) -> list[str]:
        """Brings items within the limits; what is taken out of them becomes raw records."""
        done: list[str] = []
        now = datetime.now(UTC)
        for row in await items.load(db, ns.id, broken):
            item = items.as_item(ns.name, row)
            if (found := mended(item)) is None:
                continue
            about = {"repaired_item": item.id}
            kept = [(await raw.add(db, ns, text, None, None, about, now)).id for text in found.removed]
            items.rewrite(row, replace(found.item, source_ids=(*found.item.source_ids, *kept)), now)
            await items.write(db, ns, [row])
            await self._link(db, ns, [row])
            done.append(f"mended: namespace {ns.name}: {shortened(item, kept)}")
        return done

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

    async def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        raise RequestError(
            "a store on a server is not removed from here",
            f"Everything is copied. Drop the schema there: DROP SCHEMA {self.address.schema} CASCADE",
        )

    async def export(self, write: Callable[[Record], None]) -> None:
        for namespace in await self.namespaces():
            await self._catch_up(namespace)
        async with self._db.snapshot() as db:
            async for record in portable.records(db):
                write(record)

    async def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        records = accepted(records)
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
    if not row.linked:
        return Linked(row.id, "")
    return Linked(row.id, row.text, own_names(row.title, row.text, row.metadata, row.kind))


async def put_made(db: Db, ns: Namespace, space: Space, made: Sequence[tuple[int, str, str, Vector]]) -> int:
    return await vectors.put_made(db, ns, space, made)


async def _analysing_anew(db: Db, ns: Namespace) -> None:
    await upkeep.drop_words(db, ns)
    await postings.drop(db, ns)
    await soundness.analyse_anew(db, ns)
