"""Memory: the one public object. It orchestrates; ranking, storing and embedding are elsewhere."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fourfold import addresses, courtesy, limits
from fourfold import items as rules
from fourfold.arguments import checks_arguments
from fourfold.config import Settings, default_store
from fourfold.embed.base import Embedder, EmbeddingModel, completed
from fourfold.embed.queue import Progress, Vectorizer
from fourfold.embed.vectors import check_dimension
from fourfold.errors import (
    EmbedderUnavailable,
    InvalidItem,
    InvalidQuery,
    MissingExtra,
    NotFound,
    RequestError,
    SpaceMismatch,
)
from fourfold.filters.unknown import unknown_names
from fourfold.model import (
    NO_FILTERS,
    Edge,
    GivenFilters,
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
    Retriever,
    SearchResponse,
)
from fourfold.processes import Owner
from fourfold.search.answer import Wish
from fourfold.search.diversity import check_per_source
from fourfold.search.plan import PlanRequest
from fourfold.search.presets import find_preset
from fourfold.search.several import JUDGED, merged
from fourfold.searching import Searching, Why
from fourfold.stores.base import Direction, NewNode, Store
from fourfold.stores.raw import no_raw
from fourfold.text import language
from fourfold.text.entities import normal_name
from fourfold.upkeep import NO_VECTORS, Upkeep

if TYPE_CHECKING:
    from fourfold.ingest.report import IndexReport
    from fourfold.model import Vector
    from fourfold.moving import Moved

log = logging.getLogger("fourfold")

_CHECKED_AT_ONCE = 32
"""Items, in about a millisecond."""


@checks_arguments
class Memory:
    """A store of texts with search by meaning, words, relations and tags at once.

        async with await Memory.open("notes") as memory:
            await memory.add(NewItem("The router's password is in the blue folder", tags=("office",)))
            response = await memory.search("how do I get into the network?")

    Methods are safe to call concurrently. `namespace` is what methods act on unless they are told another.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder | EmbeddingModel | None,
        namespace: str = "default",
        settings: Settings | None = None,
        *,
        background: bool = True,
        retrievers: Sequence[Retriever] | None = None,
    ) -> None:
        settings = settings or Settings()
        self.owner = Owner()
        self.store = store
        self.namespace = rules.name(namespace, "namespace")
        self.settings = settings
        self._vectorizer = Vectorizer(completed(embedder), store) if embedder is not None else None
        self._upkeep = Upkeep(store, self._vectorizer, self.namespace, watch=background)
        self._searching = Searching(store, self._vectorizer, settings, self._upkeep.troubles, retrievers)

    # ------------------------------------------------------------ opening and closing

    @classmethod
    async def open(
        cls,
        store: str | Path | Store | None = None,
        *,
        namespace: str | None = None,
        embedder: str | Embedder | EmbeddingModel | None = None,
        settings: Settings | None = None,
        background: bool = True,
        create: bool = True,
        retrievers: Callable[[Store], Sequence[Retriever]] | None = None,
    ) -> Self:
        """Opens a store, and creates it if there is none; without `create` that is a StoreNotFound.

        `embedder`: minilm, openai, onnx:FOLDER, none, or one of your own. `background`: make vectors from the queue
        and publish indexes while this object lives, also for other processes; a short-lived one lets others do that.
        `retrievers`: makes those that searches ask, of the opened store; the four of the store if left out.
        """
        settings = settings or Settings()
        name = rules.name(namespace or settings.namespace, "namespace")
        model = _open_embedder(embedder if embedder is not None else settings.embedder, settings)
        opened = await _open_store(store if store is not None else settings.store, create=create)
        asked = None if retrievers is None else retrievers(opened)
        memory = cls(opened, model, name, settings, background=background, retrievers=asked)
        memory._upkeep.start()
        return memory

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def within(self, namespace: str) -> Self:
        """The same store, acting on another namespace. It shares everything with this object, and closes with it."""
        view = copy(self)
        view.namespace = rules.name(namespace, "namespace")
        return view

    async def close(self) -> None:
        """Stops the queue (what waits goes on waiting), publishes what is due, and releases everything.

        In a forked child it does nothing: what is open belongs to the parent.
        """
        if not self.owner.is_here:
            return
        try:
            await self._upkeep.close()
        finally:
            if self._vectorizer is not None:
                await self._vectorizer.close()
            await self.store.close()

    # ------------------------------------------------------------ storing

    async def add(self, item: NewItem | str, *, wait: bool = False) -> Item:
        """Stores one item, durably. Its vector follows from the queue; with `wait` it is made before this returns."""
        new = NewItem(item) if isinstance(item, str) else item
        return (await self.add_many([new], wait=wait))[0]

    async def add_many(self, items: Sequence[NewItem], *, wait: bool = False) -> list[Item]:
        """Stores all of them, or none. An item that is there already is returned or replaced (B10)."""
        with self._upkeep.writing(self.namespace):
            checked = await _checked(items)
            if self._vectorizer is not None:
                await self._fit_vectors(self._vectorizer, [item.vector for item in checked if item.vector is not None])
            if wait and self._vectorizer is not None:
                await self._vectorizer.check_space(self.namespace)
            stored = await self.store.put(self.namespace, checked, _now(), links=self.settings.links)
            if wait:
                await self._embed_now([item.id for item in stored])
        return stored

    async def _embed_now(self, ids: Sequence[int]) -> None:
        """Their vectors, before anything else. They are stored already: a model that fails leaves them waiting."""
        try:
            if self._vectorizer is not None:
                await self._vectorizer.embed_items(self.namespace, ids)
                self._upkeep.troubles.pop(NO_VECTORS, None)
        except (EmbedderUnavailable, SpaceMismatch) as error:
            self._upkeep.troubles[NO_VECTORS] = str(error)

    def troubles(self) -> dict[str, str]:
        """What goes wrong in the background, with the reason; searches say it in their notes."""
        return dict(self._upkeep.troubles)

    async def update(self, item: int | str, patch: ItemPatch, *, wait: bool = False) -> Item:
        """Changes one item. If its text changed, a new vector follows; with `wait` it is made before this returns."""
        checked = rules.checked_patch(patch)
        (number,) = await self._numbers([item])
        if not number:
            raise _no_item(item)
        with self._upkeep.writing(self.namespace):
            updated = await self.store.patch(self.namespace, number, checked, _now(), links=self.settings.links)
            if wait:
                await self._embed_now([updated.id])
        return updated

    async def get(self, ids: Sequence[int | str]) -> list[Item]:
        """Items by id, or by "key:K"; NotFound names the first that is missing."""
        numbers = await self._numbers(ids)
        found = await self.store.get(self.namespace, numbers)
        for given, number in zip(ids, numbers, strict=True):
            if number not in found:
                raise _no_item(given)
        return [found[number] for number in numbers]

    async def around(self, item: int | str, before: int = 1, after: int = 1) -> list[Item]:
        """An item between its neighbours: the chunks of its file from so many before it to so many after it (B12)."""
        if not rules.is_whole(before, 0) or not rules.is_whole(after, 0) or before + after > limits.TOP_K:
            raise InvalidQuery(f"before {before!r}, after {after!r}", f"Together at most {limits.TOP_K} neighbours")
        (found,) = await self.get([item])
        if found.path is None or found.chunk_index is None or found.key is not None:
            return [found]
        number = found.chunk_index
        return await self.store.chunks(self.namespace, found.path, number - before, number + after)

    async def list(self, filters: GivenFilters | None = None, *, limit: int = 50, offset: int = 0) -> list[Item]:
        """Newest first."""
        _check_page(limit, offset)
        return await self.store.list(self.namespace, rules.checked_filters(filters), limit, offset)

    async def count(self, filters: GivenFilters | None = None) -> int:
        checked = rules.checked_filters(filters)
        if checked == NO_FILTERS:
            return (await self.store.size(self.namespace)).items
        return len(await self.store.matching(self.namespace, checked))

    async def forget(self, ids: Sequence[int | str]) -> int:
        """Removes items; NotFound, and nothing removed, if one of them does not exist."""
        items = await self.get(ids)
        return await self._forget([item.id for item in items])

    async def forget_matching(self, filters: GivenFilters) -> int:
        checked = rules.checked_filters(filters)
        if checked == NO_FILTERS:
            raise InvalidQuery("no filter was given", "Say which items to forget: a tag, a path, a kind ...")
        return await self._forget(await self.store.matching(self.namespace, checked))

    async def unknown_names(self, filters: GivenFilters) -> list[str]:
        """Kinds, languages, tags and metadata keys of a filter that no item has, each with those that exist."""
        condition = rules.checked_filters(filters).condition
        return [] if condition is None else list(await unknown_names(self.store, self.namespace, condition))

    async def _forget(self, ids: Sequence[int]) -> int:
        with self._upkeep.writing(self.namespace):
            return await self.store.forget(self.namespace, ids)

    async def add_raw(
        self,
        content: str,
        speaker: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> RawRecord:
        """Keeps an original; items point back to it by `source_ids` (S1.7)."""
        checked = rules.checked(NewItem(content))
        return await self.store.add_raw(
            self.namespace,
            checked.text,
            rules.optional_name(speaker, "speaker"),
            rules.optional_name(session_id, "session_id"),
            rules.checked_metadata(metadata or {}),
            _now(),
        )

    async def get_raw(self, ids: Sequence[int]) -> list[RawRecord]:
        """Raw records by id; NotFound names the first that is missing."""
        wanted = _raw_ids(ids)
        found = await self.store.get_raw(self.namespace, wanted)
        for record in wanted:
            if record not in found:
                raise no_raw(record)
        return [found[record] for record in wanted]

    async def list_raw(
        self, *, session_id: str | None = None, speaker: str | None = None, limit: int = 50, offset: int = 0
    ) -> Page[RawRecord]:
        """Raw records, newest first; of one session or speaker only, where these are named."""
        _check_page(limit, offset)
        session, who = rules.optional_name(session_id, "session_id"), rules.optional_name(speaker, "speaker")
        return await self.store.list_raw(self.namespace, session, who, limit, offset)

    async def forget_raw(self, ids: Sequence[int], *, force: bool = False) -> int:
        """Removes raw records, all of them or none. NotFound names one that does not exist.

        A raw record that is a source of an item stays (RequestError), unless with `force`: then the items' `source_ids`
        lose it.
        """
        with self._upkeep.writing(self.namespace):
            return await self.store.forget_raw(self.namespace, _raw_ids(ids), force=force)

    async def sources(self, item: int | str) -> list[RawRecord]:
        """The raw records that an item is drawn from, in the order of its `source_ids`."""
        (found,) = await self.get([item])
        return await self._sources(found)

    async def _sources(self, item: Item) -> list[RawRecord]:
        known = await self.store.get_raw(self.namespace, item.source_ids) if item.source_ids else {}
        return [known[record] for record in item.source_ids if record in known]

    # ------------------------------------------------------------ searching

    async def search(
        self,
        text: str,
        *,
        vector: Sequence[float] | Vector | None = None,
        top_k: int | None = None,
        preset: str | None = None,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        alpha: float | None = None,
        only: Collection[str] | None = None,
        k: int | None = None,
        filters: GivenFilters | None = None,
        per_source: int | None = None,
        min_confidence: float | None = None,
        explain: bool = False,
        namespaces: Sequence[str] | None = None,
    ) -> SearchResponse:
        """What the store knows about a text, best first, with the reasons (B15: several `namespaces` apart)."""
        filters = rules.checked_filters(filters)
        request = PlanRequest(
            text, preset or self.settings.preset, fusion, weights, alpha, self._top_k(preset, top_k), only, k
        )
        wish = Wish(_per_source(per_source, request.preset), _checked_confidence(min_confidence), explain)
        names = [rules.name(name, "namespace") for name in namespaces or (self.namespace,)]
        if len(set(names)) > 1:
            wish = replace(wish, at_least=JUDGED)
        answers = [
            await self._searching.answer(name, request, wish, vector, filters, _now()) for name in dict.fromkeys(names)
        ]
        return answers[0] if len(answers) == 1 else merged(answers)

    def _top_k(self, preset: str | None, top_k: int | None) -> int | None:
        """The setting stands for the default preset only: each other one has its own."""
        return top_k if top_k is not None or preset is not None else self.settings.top_k

    async def why(
        self,
        item: int | str,
        text: str,
        *,
        vector: Sequence[float] | Vector | None = None,
        preset: str | None = None,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        alpha: float | None = None,
        filters: GivenFilters | None = None,
    ) -> Why:
        """Why an item is where it is in the answer to a text, or was not found (B2)."""
        filters = rules.checked_filters(filters)
        (stored,) = await self.get([item])
        request = PlanRequest(text, preset or self.settings.preset, fusion, weights, alpha)
        why = await self._searching.why(stored, request, vector, filters, _now())
        return replace(why, sources=tuple(await self._sources(stored)))

    # ------------------------------------------------------------ vectors

    async def embed_pending(self, progress: Progress | None = None, *, seconds: float | None = None) -> int:
        """Makes the vectors of all items that wait for one; how many were made.

        `seconds`: begins no further batch after this long, and leaves the rest waiting.
        """
        return 0 if self._vectorizer is None else await self._drained(self._vectorizer, progress, seconds)

    async def reembed(self, progress: Progress | None = None) -> int:
        """Makes all vectors with the present embedder. Interrupted, it goes on where it was; searches go on."""
        if self._vectorizer is None:
            raise RequestError("there is no embedder", "Set one: FOURFOLD_EMBEDDER=minilm")
        await self.store.reset_space(self.namespace, await self._vectorizer.space())
        return await self._drained(self._vectorizer, progress)

    async def _drained(
        self, vectorizer: Vectorizer, progress: Progress | None = None, seconds: float | None = None
    ) -> int:
        """Also gives another chance to texts that the embedder refused."""
        await self.store.retry_refused(self.namespace)
        with self._upkeep.writing(self.namespace):
            return await self._upkeep.drain(vectorizer, self.namespace, progress, patiently=True, seconds=seconds)

    async def _fit_vectors(self, vectorizer: Vectorizer, vectors: Sequence[Sequence[float] | Vector]) -> None:
        """Where there is an embedder, callers' own vectors have to be of its space."""
        if not vectors:
            return
        space = await vectorizer.space()
        for vector in vectors:
            check_dimension(len(vector), space.dimension)
        await self.store.set_space(self.namespace, space)

    async def index_folders(
        self,
        folders: Sequence[str | Path],
        *,
        exclude: Sequence[str] = (),
        tags: Sequence[str] = (),
        verify: bool = False,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Makes the store hold what these files, or those below these folders, hold; only changes cost time (S3.1).

        `exclude`: globs in the syntax of .gitignore for what to leave out. `tags`: added to every item of these files.
        Files whose size and time are as before are not opened; with `verify`, their content is compared.
        """
        from fourfold.ingest.sync import index_folders

        with self._upkeep.writing(self.namespace):
            return await index_folders(
                self.store,
                self.namespace,
                folders,
                exclude=exclude,
                tags=tags,
                links=self.settings.links,
                verify=verify,
                progress=progress,
            )

    async def index(self) -> None:
        """Publishes the indexes wholly, now."""
        await self.store.maintain(self.namespace, wholly=True)

    # ------------------------------------------------------------ graph

    async def add_node(
        self,
        name: str,
        label: str = "entity",
        aliases: Sequence[str] = (),
        properties: Mapping[str, Json] | None = None,
        item: int | str | None = None,
    ) -> Node:
        """A node, or what is new about one that exists (S4.1)."""
        new = NewNode(
            rules.node_name(name),
            rules.name(label, "label"),
            tuple(rules.node_name(alias) for alias in aliases),
            None if properties is None else rules.checked_metadata(properties),
            None if item is None else (await self.get([item]))[0].id,
        )
        with self._upkeep.writing(self.namespace):
            (node,) = await self.store.add_nodes(self.namespace, [new])
        return node

    async def add_edge(self, source: str, relation: str, target: str, weight: float = 1.0) -> Edge:
        """An edge; nodes that do not exist are made, an edge that exists gets the weight."""
        await self.add_edges([(source, relation, target, weight)])
        return Edge(source, relation, target, weight)

    async def add_edges(self, edges: Sequence[tuple[str, str, str, float]]) -> None:
        checked = [rules.checked_edge(*edge) for edge in edges]
        with self._upkeep.writing(self.namespace):
            await self.store.add_edges(self.namespace, checked)

    async def neighbors(
        self,
        name: str,
        depth: int = 1,
        direction: Direction = "both",
        relation: str | None = None,
        label: str | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> Page[Neighbor]:
        """Nodes within `depth` steps, nearest first; all of them, or a page of `limit` from `offset` on."""
        _check_range("depth", depth, limits.NEIGHBOR_DEPTH)
        if limit is not None:
            _check_page(limit, offset)
        if direction not in ("both", "out", "in"):
            raise InvalidQuery(f"direction is {direction!r}", "It is both, out or in")
        start, label = _node(name, label)
        relation = rules.optional_name(relation, "relation")
        return await self.store.neighbors(
            self.namespace, start, label, depth, direction, relation, limit, 0 if limit is None else offset
        )

    async def nodes(self, like: str = "", *, limit: int = 50, offset: int = 0) -> list[NodeSummary]:
        """Nodes, most connected first; those with a name or alias that contains `like`, without regard to case."""
        _check_page(limit, offset)
        return await self.store.nodes(self.namespace, normal_name(like), limit, offset)

    async def node(self, name: str, label: str | None = None, *, limit: int = 50) -> NodeView:
        """One node with at most `limit` of its items, of the items that mention it, and of its edges."""
        _check_page(limit, 0)
        return await self.store.node_view(self.namespace, *_node(name, label), limit)

    async def path(self, start: str, goal: str, max_depth: int = limits.PATH_DEPTH) -> list[Edge]:
        """A shortest way between two nodes; empty if there is none."""
        _check_range("max_depth", max_depth, limits.PATH_DEPTH)
        return await self.store.path(self.namespace, rules.node_reference(start), rules.node_reference(goal), max_depth)

    async def remove_node(self, name: str, label: str | None = None) -> bool:
        return await self.store.remove_node(self.namespace, *_node(name, label))

    async def remove_edge(self, source: str, relation: str, target: str) -> bool:
        edge = rules.checked_edge(source, relation, target, 1.0)
        return await self.store.remove_edge(self.namespace, edge.source, edge.relation, edge.target)

    # ------------------------------------------------------------ the whole

    async def tags(self) -> list[tuple[str, int]]:
        """Tags with the number of their items, the commonest first."""
        return _commonest(await self.store.tag_counts(self.namespace))

    async def kinds(self) -> list[tuple[str, int]]:
        """Kinds with the number of their items, the commonest first."""
        return _commonest(await self.store.vocabulary(self.namespace, "kind"))

    async def metadata_keys(self) -> list[tuple[str, int]]:
        """Top-level keys of metadata with the number of items that have them, the commonest first."""
        return _commonest(await self.store.vocabulary(self.namespace, "metadata"))

    async def namespaces(self) -> list[tuple[str, int]]:
        return list((await self.store.namespaces()).items())

    async def status(self) -> dict[str, Json]:
        embedder = self._vectorizer.embedder.fingerprint if self._vectorizer is not None else None
        return {**await self.store.status(), "namespace": self.namespace, "embedder": embedder}

    async def check(self) -> list[str]:
        """What is wrong with the store, a line each."""
        return await self.store.check()

    async def repair(self, *, purge: bool = False) -> list[str]:
        """Rebuilds what can be rebuilt from the rows; says what was done.

        `purge`: also removes what was forgotten from all files of the store, so that no byte of it is left.
        """
        return await self.store.repair(purge=purge)

    async def backup(self, target: str | Path) -> None:
        await self.store.backup(_file(target))

    @staticmethod
    async def restore(source: str | Path, store: str | Path | None = None) -> None:
        """Puts a backup into a folder that holds no store yet."""
        if isinstance(store, str) and addresses.is_address(store):
            raise RequestError("a backup goes into a folder", "Restore it there, then: fourfold copy DSN")
        from fourfold.stores.sqlite.health import restore

        await asyncio.to_thread(
            restore, Path(source), Path(store).expanduser() if store is not None else default_store()
        )

    async def export(self, target: str | Path) -> dict[str, int]:
        """Everything into one JSON Lines file; counts by kind (B9)."""
        from fourfold.portable import export_file

        return await export_file(self.store, _file(target))

    async def move(
        self, target: str | Path | Store, progress: Progress | None = None, *, delete_source: bool = False
    ) -> Moved:
        """Copies everything into another store, which is empty or holds a part of this copy; compares both (B9).

        `delete_source`: removes this store after that, unless something was written to it meanwhile.
        """
        from fourfold.moving import checksum, move

        opened = await _open_store(target)
        try:
            moved = await move(self.store, opened, progress)
            if delete_source:
                await self.store.remove(lambda records: checksum(records) == moved.checksum)
            return moved
        finally:
            if opened is not target:
                await opened.close()

    async def import_file(self, source: str | Path, progress: Progress | None = None) -> dict[str, int]:
        """An export, or rows {"text", "key"?, "title"?, ...}; counts by kind."""
        from fourfold.portable import import_file

        with self._upkeep.writing(self.namespace):
            return await import_file(self, _file(source), progress)

    async def _numbers(self, ids: Sequence[int | str]) -> list[int]:
        keys = [_key(given) for given in ids if isinstance(given, str)]
        known = await self.store.find_keys(self.namespace, keys) if keys else {}
        return [known.get(_key(given), 0) if isinstance(given, str) else _number(given) for given in ids]


# ---------------------------------------------------------------- what methods need


def _file(path: str | Path) -> Path:
    if not Path(path).name:
        raise InvalidQuery(f"{str(path)!r} does not name a file", "Give the path of a file")
    return Path(path)


def _now() -> datetime:
    return datetime.now(UTC)


def _commonest(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


async def _checked(items: Sequence[NewItem]) -> list[NewItem]:
    """The items as they will be stored. Searches go on between some and the next."""
    checked: list[NewItem] = []
    since = time.perf_counter()
    for start in range(0, len(items), _CHECKED_AT_ONCE):
        if start:
            since = await courtesy.giving_way(since)
        some = items[start : start + _CHECKED_AT_ONCE]
        here = len(items) <= _CHECKED_AT_ONCE or language.is_ready()
        checked += rules.checked_many(some) if here else await asyncio.to_thread(rules.checked_many, some)
    return checked


def _key(given: str) -> str:
    if not given.startswith("key:"):
        raise NotFound(f"{given!r} is no id", "An id is a number, or key:K")
    try:
        return rules.name(given.removeprefix("key:"), "key")
    except InvalidItem as error:
        raise NotFound(f"no item can have that key: {error.message}", "fourfold list shows what is stored") from error


def _node(name: str, label: str | None) -> tuple[str, str | None]:
    """Both as they are stored. With a label the name is taken as it is; otherwise it may be `Name#label`."""
    return (rules.node_reference(name), None) if label is None else (rules.node_name(name), rules.name(label, "label"))


def _no_item(given: int | str) -> NotFound:
    return NotFound(f"no item {given}", "fourfold list shows what is stored")


def _number(given: int) -> int:
    """0, which no item has, for what no store could count to."""
    return given if rules.is_whole(given, 1) else 0


def _raw_ids(ids: Sequence[int]) -> list[int]:
    """Ids that a store could have given; NotFound names another."""
    for record in ids:
        if not rules.is_whole(record, 1):
            raise no_raw(record)
    return list(ids)


def _check_range(name: str, value: int, most: int) -> None:
    if not rules.is_whole(value, 1) or value > most:
        raise InvalidQuery(f"{name} is {value!r}", f"It is a whole number from 1 to {most}")


def _check_page(limit: int, offset: int) -> None:
    if not rules.is_whole(limit, 1) or limit > limits.PAGE_SIZE or not rules.is_whole(offset, 0):
        raise InvalidQuery(
            f"limit {limit!r}, offset {offset!r}", f"A page has 1 to {limits.PAGE_SIZE} rows; offset is at least 0"
        )


def _per_source(given: int | None, preset: str) -> int | None:
    """`auto` shows at most two chunks of one file, unless asked otherwise (B12)."""
    if given is not None:
        return check_per_source(given)
    return find_preset(preset).per_source


def _checked_confidence(given: float | None) -> float:
    if given is not None and not 0 <= given <= 1:
        raise InvalidQuery(f"min_confidence is {given!r}", "It is a number from 0 to 1")
    return given or 0.0


async def _open_store(store: str | Path | Store | None, *, create: bool = True) -> Store:
    if store is not None and not isinstance(store, str | Path):
        return store
    if isinstance(store, str) and addresses.is_address(store):
        return await _open_server(store, create=create)
    from fourfold.stores.sqlite.store import SqliteStore

    folder = Path(store).expanduser() if store is not None else default_store()
    return await asyncio.to_thread(SqliteStore, folder, create=create)


async def _open_server(address: str, *, create: bool) -> Store:
    scheme = addresses.parse(address).scheme
    if scheme not in ("postgresql", "postgres"):
        raise MissingExtra(f"no store for {scheme} is installed", "Use a folder, or postgresql://HOST/DATABASE")
    try:
        from fourfold.stores.postgres.store import PostgresStore
    except ImportError as error:
        raise MissingExtra(
            f"stores on PostgreSQL need psycopg ({error})", "Install it: pip install 'fourfold[postgres]'"
        ) from error
    server = PostgresStore(address)
    try:
        await server.open(create=create)
    except BaseException:
        await server.close()
        raise
    return server


def _open_embedder(given: str | Embedder | EmbeddingModel, settings: Settings) -> Embedder | EmbeddingModel | None:
    if not isinstance(given, str):
        return given
    from fourfold.embed import OpenAISettings, create

    return create(
        given,
        openai=OpenAISettings(
            base_url=settings.openai_base_url,
            api_key=settings.openai_api_key,
            model=settings.openai_model,
            dimensions=settings.openai_dimensions,
            timeout=settings.openai_timeout,
        ),
    )
