"""The exact store in memory: plain dicts and brute force, the oracle that every other store is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fourfold.errors import RequestError, SpaceMismatch, StoreNotEmpty
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
from fourfold.search.sharing import telling
from fourfold.search.walk import Link
from fourfold.storage.records import Audit, accepted
from fourfold.stores.base import Direction, FileRow, FileUpdate, NewNode, Record, Size, Space, TagUse, Vocabulary
from fourfold.stores.memory import cosines, graph, keyword, portable, walk
from fourfold.stores.memory import files as file_rows
from fourfold.stores.memory import items as rows
from fourfold.stores.memory.filters import passes
from fourfold.stores.memory.state import Counters, Namespace
from fourfold.stores.raw import no_raw
from fourfold.text.fold import fold

if TYPE_CHECKING:
    from fourfold.model import Vector


T = TypeVar("T")


class MemoryStore:
    """Holds nothing beyond its own life, and is meant for what a reader could check by hand: some thousand items."""

    def __init__(self) -> None:
        self._namespaces: dict[str, Namespace] = {}
        self._counters = Counters()
        self._refused: dict[str, dict[int, tuple[str, str]]] = {}
        """By namespace and item: title and text that an embedder would not have."""

    def _read(self, namespace: str) -> Namespace:
        """What the namespace holds; nothing where there is no such namespace."""
        return self._namespaces.get(namespace) or Namespace(namespace, Counters())

    @contextmanager
    def _write(self, namespace: str) -> Generator[Namespace]:
        """A copy that takes the namespace's place if the block ends well: all or nothing."""
        draft = self._read(namespace).copy()
        draft.counters = self._counters.copy()
        yield draft
        self._namespaces[namespace] = draft
        self._counters = draft.counters

    # ------------------------------------------------------------ items

    async def put(self, namespace: str, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        if not items:
            return []
        with self._write(namespace) as ns:
            written = [rows.put(ns, item, now, links=links) for item in items]
            graph.link(ns, [item for item, changed in written if changed])
        return [ns.items[item].item for item, _ in written]

    async def patch(self, namespace: str, item: int, patch: ItemPatch, now: datetime, *, links: bool = True) -> Item:
        with self._write(namespace) as ns:
            if rows.patch(ns, item, patch, now, links=links):
                graph.link(ns, [item])
        return ns.items[item].item

    async def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Item]:
        ns = self._read(namespace)
        return {id: ns.items[id].item for id in ids if id in ns.items}

    async def find_keys(self, namespace: str, keys: Sequence[str]) -> dict[str, int]:
        return rows.find_keys(self._read(namespace), keys)

    async def list(self, namespace: str, filters: Filters, limit: int, offset: int) -> list[Item]:
        found = [item for _, item in rows.all_items(self._read(namespace)) if passes(item, filters)]
        newest = sorted(found, key=lambda item: (item.created_at, item.id), reverse=True)
        return newest[offset : offset + limit]

    async def matching(self, namespace: str, filters: Filters) -> list[int]:
        return rows.matching(self._read(namespace), filters)

    async def forget(self, namespace: str, ids: Sequence[int]) -> int:
        gone = self._read(namespace).items.keys() & ids
        if gone:
            with self._write(namespace) as ns:
                for item in gone:
                    file_rows.forget_state(ns, item)
                    graph.forget(ns, item)
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
        with self._write(namespace) as ns:
            record = RawRecord(
                ns.counters.new(namespace, "raw"), namespace, content, speaker, session_id, dict(metadata), now
            )
            ns.raw[record.id] = record
        return record

    async def get_raw(self, namespace: str, ids: Sequence[int]) -> dict[int, RawRecord]:
        raw = self._read(namespace).raw
        return {id: raw[id] for id in ids if id in raw}

    async def list_raw(
        self, namespace: str, session_id: str | None, speaker: str | None, limit: int, offset: int
    ) -> Page[RawRecord]:
        found = [
            record
            for record in reversed(self._read(namespace).raw.values())
            if session_id in (None, record.session_id) and speaker in (None, record.speaker)
        ]
        return Page(found[offset : offset + limit], len(found), offset)

    async def forget_raw(self, namespace: str, ids: Sequence[int], *, force: bool = False) -> int:
        wanted = list(dict.fromkeys(ids))
        missing = [record for record in wanted if record not in self._read(namespace).raw]
        if missing:
            raise no_raw(missing[0])
        if not wanted:
            return 0
        with self._write(namespace) as ns:
            for record in wanted:
                rows.forget_raw(ns, record, force=force)
        return len(wanted)

    # ------------------------------------------------------------ files

    async def files(self, namespace: str, prefix: str) -> Mapping[str, FileRow]:
        known = self._read(namespace).files
        return {path: state for path, state in sorted(known.items()) if path.startswith(prefix)}

    async def put_files(
        self, namespace: str, files: Sequence[FileUpdate], now: datetime, *, links: bool = True
    ) -> None:
        with self._write(namespace) as ns:
            changed = [item for file in files for item in file_rows.put(ns, file, now, links=links)]
            graph.link(ns, (item for item in changed if item in ns.items))

    async def forget_files(self, namespace: str, paths: Sequence[str]) -> int:
        with self._write(namespace) as ns:
            return sum(file_rows.forget(ns, path) for path in paths)

    async def chunks(self, namespace: str, path: str, first: int, last: int) -> list[Item]:
        return [
            item
            for item in file_rows.chunks(self._read(namespace), path)
            if item.chunk_index is not None and first <= item.chunk_index <= last
        ]

    async def named_chunks(self, namespace: str, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        return file_rows.named(self._read(namespace), names, filters)

    # ------------------------------------------------------------ vectors

    async def space(self, namespace: str) -> Space | None:
        return self._read(namespace).space

    async def set_space(self, namespace: str, space: Space) -> None:
        with self._write(namespace) as ns:
            _fix_space(ns, space)

    async def reset_space(self, namespace: str, space: Space) -> None:
        with self._write(namespace) as ns:
            if ns.space != space:
                ns.space = space
                ns.items = {id: replace(stored, vector=None) for id, stored in ns.items.items()}

    async def waiting(
        self, namespace: str, limit: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, str, str]]:
        lacking = [stored.item for stored in self._read(namespace).items.values() if stored.vector is None]
        refused = self._refused.get(namespace, {})
        wanted = [
            item
            for item in lacking
            if (item.id in among if among is not None else refused.get(item.id) != (item.title, item.text))
        ]
        return [(item.id, item.title, item.text) for item in wanted[:limit]]

    async def refuse(self, namespace: str, waiting: tuple[int, str, str], reason: str) -> None:
        item, *text = waiting
        self._refused.setdefault(namespace, {})[item] = (text[0], text[1])

    async def retry_refused(self, namespace: str) -> None:
        self._refused.pop(namespace, None)

    async def put_vectors(self, namespace: str, space: Space, vectors: Sequence[tuple[int, str, str, Vector]]) -> int:
        with self._write(namespace) as ns:
            _fix_space(ns, space)
            known = {id: (item.title, item.text) for id, item in rows.all_items(ns)}
            fitting = [(id, vector) for id, title, text, vector in vectors if known.get(id) == (title, text)]
            for id, vector in fitting:
                ns.items[id] = replace(ns.items[id], vector=vector)
        return len(fitting)

    # ------------------------------------------------------------ retrieval

    async def nearest(self, namespace: str, vector: Vector, limit: int, filters: Filters) -> Ranking:
        return cosines.nearest(self._read(namespace), vector, limit, filters)

    async def similarities(self, namespace: str, vector: Vector, ids: Sequence[int]) -> Ranking:
        return cosines.similarities(self._read(namespace), vector, ids)

    async def match(self, namespace: str, text: str, limit: int, filters: Filters) -> Ranking:
        return keyword.match(self._read(namespace), text, limit, filters)

    async def match_scores(self, namespace: str, text: str, ids: Sequence[int]) -> Ranking:
        return keyword.match_scores(self._read(namespace), text, ids)

    async def node_links(self, namespace: str, names: Sequence[str], filters: Filters) -> list[Link]:
        return walk.node_links(self._read(namespace), names, filters)

    async def item_links(self, namespace: str, ids: Sequence[int], filters: Filters) -> list[Link]:
        return walk.item_links(self._read(namespace), ids, filters)

    async def at_once(self, query: Query, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T | None:
        return None

    async def tag_counts(self, namespace: str) -> Mapping[str, int]:
        carried = (tag for _, item in rows.all_items(self._read(namespace)) for tag in item.tags)
        return dict(sorted(Counter(map(fold, carried)).items()))

    async def vocabulary(self, namespace: str, field: Vocabulary) -> dict[str, int]:
        items = [item for _, item in rows.all_items(self._read(namespace))]
        if field == "metadata":
            return dict(Counter(key for item in items for key in item.metadata))
        return dict(Counter(name for item in items if (name := getattr(item, field)) is not None))

    async def tagged(self, namespace: str, candidates: Sequence[str], filters: Filters) -> list[TagUse]:
        uses = await self.tag_counts(namespace)
        found = [(id, item) for id, item in rows.all_items(self._read(namespace)) if passes(item, filters)]
        carried = [(id, tag) for id, item in found for tag in sorted(map(fold, item.tags)) if tag in candidates]
        return [TagUse(id, tag, uses[tag]) for id, tag in carried]

    async def sharing(self, namespace: str, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        uses = await self.tag_counts(namespace)
        starts = [item for id, item in rows.all_items(self._read(namespace)) if id in ids]
        carried = {fold(tag) for item in starts for tag in item.tags}
        return await self.tagged(namespace, telling({tag: uses[tag] for tag in carried}), filters)

    # ------------------------------------------------------------ graph

    async def add_nodes(self, namespace: str, nodes: Sequence[NewNode]) -> list[Node]:
        with self._write(namespace) as ns:
            made = [graph.add_node(ns, node) for node in nodes]
        return [ns.node(node) for node in made]

    async def add_edges(self, namespace: str, edges: Sequence[Edge]) -> None:
        with self._write(namespace) as ns:
            for edge in edges:
                graph.set_edge(ns, edge)

    async def remove_node(self, namespace: str, name: str, label: str | None) -> bool:
        node = graph.resolve(self._read(namespace), name, label)
        if node is not None:
            with self._write(namespace) as ns:
                graph.remove_node(ns, node)
        return node is not None

    async def remove_edge(self, namespace: str, source: str, relation: str, target: str) -> bool:
        known = self._read(namespace)
        ends = (graph.resolve(known, source), relation, graph.resolve(known, target))
        said = [edge for edge in known.edges if edge == ends]
        for edge in said:
            with self._write(namespace) as ns:
                del ns.edges[edge]
        return bool(said)

    async def nodes(self, namespace: str, like: str, limit: int, offset: int) -> list[NodeSummary]:
        return walk.summaries(self._read(namespace), like)[offset:][:limit]

    async def node_view(self, namespace: str, name: str, label: str | None, limit: int) -> NodeView:
        ns = self._read(namespace)
        return walk.view(ns, graph.required(ns, name, label), limit)

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
        ns = self._read(namespace)
        found = walk.neighbors(ns, graph.required(ns, name, label), depth, direction, relation)
        return Page(found[offset:][:limit], len(found), offset)

    async def path(self, namespace: str, start: str, goal: str, max_depth: int) -> list[Edge]:
        ns = self._read(namespace)
        return walk.path(ns, graph.required(ns, start), graph.required(ns, goal), max_depth)

    # ------------------------------------------------------------ the whole

    async def namespaces(self) -> dict[str, int]:
        return {name: len(ns.items) for name, ns in sorted(self._namespaces.items())}

    async def size(self, namespace: str) -> Size:
        ns = self._read(namespace)
        return Size(len(ns.items), len(ns.items) - cosines.pending(ns))

    async def queues(self) -> list[str]:
        return [name for name in sorted(self._namespaces) if await self.waiting(name, 1)]

    @asynccontextmanager
    async def lease(self, namespace: str | None) -> AsyncGenerator[bool]:
        yield True

    async def maintain(self, namespace: str, *, wholly: bool = False) -> bool:
        """Nothing is ever behind."""
        return True

    async def status(self) -> dict[str, Json]:
        namespaces = {name: _status(ns) for name, ns in sorted(self._namespaces.items())}
        return {"store": "memory", "namespaces": namespaces, "embedding_worker": False}

    async def check(self) -> list[str]:
        audit = Audit()
        await self.export(audit.look)
        return audit.problems

    async def repair(self, *, purge: bool = False) -> list[str]:
        return []

    async def backup(self, target: Path) -> None:
        raise RequestError("a store in memory has nothing to back up", "Export it, or use a store in a folder")

    async def export(self, write: Callable[[Record], None]) -> None:
        for record in portable.records(self._namespaces):
            write(record)

    async def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        records = accepted(records)
        if any(ns.items or ns.nodes or ns.raw or ns.files for ns in self._namespaces.values()):
            raise StoreNotEmpty("this store is not empty", "An export goes into an empty store: choose another")
        self._namespaces, self._counters = portable.load(records)

    async def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        raise RequestError("a store in memory has no files to remove", "Close it: nothing of it stays")

    async def close(self) -> None:
        """Nothing is held."""


def _fix_space(ns: Namespace, wanted: Space) -> None:
    ns.space = ns.space or wanted
    if ns.space != wanted:
        raise SpaceMismatch(
            f"the vectors here come from {ns.space.fingerprint}, not from {wanted.fingerprint}",
            "Go back to that embedder, or make all vectors anew: fourfold reembed",
        )


def _status(ns: Namespace) -> dict[str, Json]:
    lacking = cosines.pending(ns)
    return {
        "items": len(ns.items),
        "vectors": len(ns.items) - lacking,
        "pending_vectors": lacking,
        "languages": list(ns.languages),
        "embedder": None if ns.space is None else ns.space.fingerprint,
        "dimension": None if ns.space is None else ns.space.dimension,
        "nodes": len(ns.nodes),
        "edges": len(ns.edges),
        "mentions": sum(map(len, graph.mentions(ns).values())),
    }
