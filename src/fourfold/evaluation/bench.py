"""Asks questions: those of a collection in a store of its own, or those about a store that exists.

Vectors are cached by model and text: a second evaluation of the same items embeds nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fourfold import owner_only
from fourfold.config import Settings
from fourfold.embed import OpenAISettings, create
from fourfold.embed.base import EmbeddingModel, asymmetric, replaced
from fourfold.errors import StoreUnavailable
from fourfold.evaluation.collection import Collection, Question
from fourfold.limits import TOP_K
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Filters, MetadataTest, NewItem
from fourfold.retrieval import Plan, SearchResponse
from fourfold.storage.values import NewNode
from fourfold.text.entities import normal_name

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray

    Embed: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]

Progress = Callable[[int, int], None]

_WARM_UP_QUESTIONS: Final = 3
"""Asked before times are taken: the first searches load the model and read indexes into memory."""
_BATCH_ITEMS: Final = 1000
_PATIENCE_SECONDS: Final = 120.0
"""Deadline of each retriever: quality is measured, so a busy machine must not lose a list."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A search to measure: a name, and arguments of `Memory.search`."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one question."""

    question: Question
    keys: tuple[str, ...]
    """Best first, in the engine's order, also among equal scores."""
    confidence: float
    milliseconds: float
    """Time of the search for a hundred results, including the embedding of the query."""
    plan: Plan
    weights: Mapping[str, float]
    """The applied weights."""
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """Time of each retriever."""
    degraded: tuple[str, ...] = ()


class LiveBench:
    """An open store, to which nothing is written, and questions about it. Results are identified by their ids."""

    def __init__(self, memory: Memory, collection: Collection, model: str | None) -> None:
        self.collection = collection
        self.model = model
        """The fingerprint of the embedder."""
        self.memory = memory

    def run(self, variant: Variant, *, fresh: bool = False, progress: Progress | None = None) -> list[Answer]:
        """Asks every question. `fresh`: vectors of questions are made by the model, for realistic times."""
        if fresh:
            for question in self.collection.questions[:_WARM_UP_QUESTIONS]:
                self._ask(replace(question, text=f"{question.text} again"), variant, fresh=True)
        answers: list[Answer] = []
        for question in self.collection.questions:
            answers.append(self._ask(question, variant, fresh=fresh))
            if progress is not None:
                progress(len(answers), len(self.collection.questions))
        return answers

    def _ask(self, question: Question, variant: Variant, *, fresh: bool) -> Answer:
        del fresh  # without a cache, the model makes every vector
        arguments: dict[str, Any] = {"top_k": TOP_K, **variant.arguments}
        response = self.memory.search(question.text, **arguments)
        return answered(question, response, [str(result.id) for result in response.results])


class Bench(LiveBench):
    """A collection in a store of its own. Results are identified by their keys."""

    def __init__(self, memory: Memory, collection: Collection, embedder: CachedEmbedder | None) -> None:
        super().__init__(memory, collection, None if embedder is None else embedder.fingerprint)
        self._embedder = embedder
        self._spaces = _namespaces(collection)
        self._names = _node_names(collection)

    def fill(self, progress: Progress | None = None) -> None:
        """Stores items, links and edges, and makes every vector.

        Items without a time get the same time, since recency must not prefer those at the end of the file.
        """
        done, now = 0, datetime.now(UTC)
        for namespace, items in _by_namespace(self._spaces, self.collection).items():
            view = self.memory.within(namespace)
            for start in range(0, len(items), _BATCH_ITEMS):
                batch = items[start : start + _BATCH_ITEMS]
                view.add_many([item if item.created_at else replace(item, created_at=now) for item in batch])
            self._connect(view, {item.key or "" for item in items})
            view.embed_pending(_shifted(progress, done, len(self.collection.items)))
            view.index()
            done += len(items)

    def _connect(self, view: Memory, keys: set[str]) -> None:
        links = [(source, target) for source, target in self.collection.links if source in keys and target in keys]
        names = self._names
        ends = list(dict.fromkeys(key for link in links for key in link))
        if ends:
            with view.store.snapshot(view.namespace) as snapshot:
                ids = snapshot.rows.find_keys(ends)
            with view.store.transaction(view.namespace) as transaction:
                transaction.graph.add_nodes([NewNode(names[key], item=ids[key]) for key in ends])
        edges = [(names[source], "links", names[target], 1.0) for source, target in links]
        if edges or self.collection.edges:
            view.add_edges([*edges, *self.collection.edges])

    def _ask(self, question: Question, variant: Variant, *, fresh: bool) -> Answer:
        if self._embedder is not None:
            self._embedder.fresh = fresh
        response = self.search(question, **variant.arguments)
        return answered(question, response, [str(result.key) for result in response.results])

    def search(self, question: Question, **options: Any) -> SearchResponse:
        """Searches the items that the question can see. Without a `vector`, the cached embedder makes one."""
        arguments: dict[str, Any] = {"top_k": TOP_K, "filters": _earlier(question), **options}
        return self.memory.search(question.text, namespaces=[self._spaces.get(question.scope, "default")], **arguments)


@contextmanager
def open_bench(collection: Collection, settings: Settings, cache: Path | None = None) -> Generator[Bench]:
    """Opens an empty temporary store for the collection, with the embedder of the settings."""
    embedder = _embedder(settings, cache)
    patient = replace(settings, retriever_seconds=_PATIENCE_SECONDS, namespace="default")
    with (
        TemporaryDirectory(prefix="fourfold-eval-", ignore_cleanup_errors=True) as folder,
        Memory.open(folder, embedder=embedder or "none", settings=patient, background=False) as memory,
    ):
        yield Bench(memory, collection, embedder)


def _embedder(settings: Settings, cache: Path | None) -> CachedEmbedder | None:
    endpoint = OpenAISettings(
        base_url=settings.openai_base_url,
        api_key=settings.openai_api_key,
        model=settings.openai_model,
        dimensions=settings.openai_dimensions,
        timeout=settings.openai_timeout,
    )
    model = create(settings.embedder, openai=endpoint, provider=settings.onnx_provider)
    return None if model is None else CachedEmbedder(model, cache or cache_folder())


@contextmanager
def opened_export(file: Path, settings: Settings) -> Generator[Memory]:
    """Loads an export, with its vectors, into a temporary store."""
    with (
        TemporaryDirectory(prefix="fourfold-eval-", ignore_cleanup_errors=True) as folder,
        Memory.open(folder, namespace=settings.namespace, settings=settings, background=False) as memory,
    ):
        memory.import_file(file)
        memory.embed_pending()
        memory.index()
        yield memory


def answered(question: Question, response: SearchResponse, keys: Sequence[str]) -> Answer:
    return Answer(
        question=question,
        keys=tuple(keys),
        confidence=response.confidence,
        milliseconds=response.timings_ms["total"],
        plan=response.plan,
        weights=response.applied_weights,
        timings_ms=response.timings_ms,
        degraded=tuple(f"{part.retriever}: {part.reason}" for part in response.degraded),
    )


def _earlier(question: Question) -> Filters:
    if question.session_no is None:
        return NO_FILTERS
    return Filters(metadata=(MetadataTest("session_no", "lt", question.session_no),))


# ---------------------------------------------------------------- where items go


def _namespaces(collection: Collection) -> dict[str | None, str]:
    """A namespace for each scope, if questions have scopes; items without one share the default namespace."""
    if not collection.scoped:
        return {}
    scopes = {str(item.metadata["scope"]) for item in collection.items if item.metadata.get("scope") is not None}
    of_questions = {question.scope for question in collection.questions if question.scope is not None}
    return {scope: f"scope-{number}" for number, scope in enumerate(sorted(scopes | of_questions))}


def _by_namespace(spaces: Mapping[str | None, str], collection: Collection) -> dict[str, list[NewItem]]:
    groups: dict[str, list[NewItem]] = {}
    for item in collection.items:
        scope = item.metadata.get("scope")
        groups.setdefault(spaces.get(None if scope is None else str(scope), "default"), []).append(item)
    return groups


def _node_names(collection: Collection) -> dict[str, str]:
    """A node name for each key: the title if it is unique, else a name that no question contains."""
    titles = Counter(normal_name(item.title) for item in collection.items)

    def name(item: NewItem) -> str:
        folded = normal_name(item.title)
        alone = folded and titles[folded] == 1
        return item.title if alone else f"document {item.key} of {collection.name}"

    return {item.key or "": name(item) for item in collection.items}


def _shifted(progress: Progress | None, done: int, total: int) -> Progress | None:
    return None if progress is None else lambda made, _: progress(done + made, total)


def degraded_notes(answers: Iterable[Answer]) -> list[str]:
    """The reasons why retrievers were degraded, with the number of questions."""
    counts = Counter(reason for answer in answers for reason in answer.degraded)
    return [f"{reason} ({count} questions)" for reason, count in counts.items()]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is at least as large as this share of the values."""
    import math

    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


# ---------------------------------------------------------------- cached vectors

FILE: Final = "vectors-3.db"
_SCHEMA: Final = "CREATE TABLE IF NOT EXISTS vectors (hash BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
_BUSY_MS: Final = 60_000


def cache_folder() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("fourfold", appauthor=False) / "evaluation"


class CachedEmbedder:
    """An embedder with a cache file, which processes share and which may be deleted at any time."""

    def __init__(self, embedder: EmbeddingModel, folder: Path) -> None:
        self.model = embedder
        """The embedder without the cache."""
        self.fresh = False
        """Whether to bypass the cache, for realistic times."""
        self._lock = threading.Lock()
        self._db = _opened(folder)

    @property
    def fingerprint(self) -> str:
        return self.model.fingerprint

    @property
    def dimension(self) -> int | None:
        return self.model.dimension

    def load(self) -> None:
        self.model.load()

    def truncates(self, text: str) -> bool:
        return self.model.truncates(text)

    @property
    def replaces(self) -> tuple[str, ...]:
        return replaced(self.model)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._cached(self.fingerprint, texts, self.model.embed)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        both = asymmetric(self.model)
        if both is None:
            return self.embed(texts)
        return self._cached(f"{self.fingerprint}/query", texts, both.embed_queries)

    def _cached(self, space: str, texts: Sequence[str], embed: Embed) -> NDArray[np.float32]:
        import numpy as np

        if self.fresh:
            return embed(texts)
        with self._lock:
            hashes = [sha256(f"{space}\0{text}".encode("utf-8", "surrogatepass")).digest() for text in texts]
            vectors = self._known(hashes)
            missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in vectors}
            if missing:
                vectors |= self._made(missing, embed)
            return np.stack([np.frombuffer(vectors[key], "<f4") for key in hashes]).astype(np.float32)

    def close(self) -> None:
        self._db.close()
        self.model.close()

    def _known(self, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        marks = ",".join("?" * len(hashes))
        sql = f"SELECT hash, vector FROM vectors WHERE hash IN ({marks})"  # noqa: S608 (question marks only)
        return {key: vector for key, vector in self._db.execute(sql, tuple(hashes)) if len(vector) % 4 == 0}

    def _made(self, texts: dict[bytes, str], embed: Embed) -> dict[bytes, bytes]:
        vectors = embed(list(texts.values()))
        made = {key: vector.astype("<f4").tobytes() for key, vector in zip(texts, vectors, strict=True)}
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", made.items())
        return made


def _opened(folder: Path) -> apsw.Connection:
    """Opens the cache; replaces a damaged one."""
    import apsw

    try:
        owner_only.make_folder(folder)
        try:
            return _connected(folder / FILE)
        except (apsw.NotADBError, apsw.CorruptError):
            for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
                with suppress(FileNotFoundError):
                    (folder / name).unlink()
            return _connected(folder / FILE)
    except (OSError, apsw.Error) as error:
        raise StoreUnavailable(f"the cache {folder} cannot be used ({error})", "Name another with --cache") from error


def _connected(file: Path) -> apsw.Connection:
    import apsw

    owner_only.create_file(file)
    owner_only.tighten(file)
    connection = apsw.Connection(str(file))
    try:
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_SCHEMA)
    except apsw.Error:
        connection.close()
        raise
    return connection
