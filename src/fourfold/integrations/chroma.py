"""Hybrid search over a Chroma collection (extra `chroma`).

Vectors come from Chroma; words, tags and links from a store that mirrors the texts of the collection.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np

from fourfold import addresses, limits, threads
from fourfold import validation as rules
from fourfold.config import Settings
from fourfold.embed.base import Embedder, EmbeddingModel
from fourfold.engine.secret_policy import SecretPolicy
from fourfold.errors import FourfoldError, InvalidItem, InvalidQuery, MissingExtra, NotFound, StoreUnavailable
from fourfold.limits import ITEM_BYTES, NAME_BYTES, READ_SECONDS, RETRIEVER_SECONDS, TAGS
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Filters, Json, NewItem, Vector
from fourfold.retrieval import Hit, Query, Ranking, Retriever, SearchResponse
from fourfold.storage.protocols import Store
from fourfold.storage.sql.dialect import pages
from fourfold.storage.sql.linking import bring_names
from fourfold.text.fold import clean

T = TypeVar("T")

_PAGE_IDS = 5000


class Collection(Protocol):
    """A chromadb.Collection, embedded or on a server."""

    @property
    def name(self) -> str: ...

    def count(self) -> int: ...

    def query(
        self,
        query_embeddings: Any,
        *,
        ids: Any = None,
        n_results: int = 10,
        include: Any = (),
    ) -> Mapping[str, Any]: ...

    def get(
        self, ids: Any = None, *, limit: int | None = None, offset: int | None = None, include: Any = ()
    ) -> Mapping[str, Any]: ...


def all_ids(collection: Collection) -> list[str]:
    ids: list[str] = []
    while page := collection.get(limit=_PAGE_IDS, offset=len(ids), include=[])["ids"]:
        ids += page
        if len(page) < _PAGE_IDS:
            break
    return ids


def is_cosine(collection: object) -> bool:
    """Whether its distances are 1 - cosine."""
    configuration: dict[str, Any] = getattr(collection, "configuration_json", None) or {}
    metadata: dict[str, Any] = getattr(collection, "metadata", None) or {}
    spaces: list[Any] = [(configuration.get(index) or {}).get("space") for index in ("hnsw", "spann")]
    return "cosine" in (metadata.get("hnsw:space"), *spaces)


def open_collection(place: str | Path, name: str) -> Collection:
    """`place`: the folder of an embedded Chroma, or the http(s) address of a server. The collection has to exist.

    If a server does not answer now, each call of the collection tries again.
    """
    _require_chroma()
    if "://" not in str(place):
        return _opened(lambda: embedded(Path(place)), name)
    collection = ServerCollection(str(place), name)
    with suppress(ConnectionError):
        collection.connect()
    return cast("Collection", collection)


class ServerCollection:
    """A collection on a server that may be down: each call connects if necessary, or raises ConnectionError."""

    def __init__(self, address: str, name: str) -> None:
        self.name = name
        self._client = _client_of(address)
        self._real: Collection | None = None

    def connect(self) -> Collection:
        if self._real is None:
            try:
                self._real = ask(limits.RETRIEVER_SECONDS, _opened, self._client, self.name)
            except (StoreUnavailable, TimeoutError) as error:
                raise ConnectionError(str(error) or "Chroma does not answer") from error
        return self._real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connect(), name)


def ask(seconds: float, call: Callable[..., T], *args: Any, **options: Any) -> T:
    """Calls a client of Chroma within a deadline; a call that exceeds it continues in a daemon thread."""
    return threads.start(partial(calling, call, *args, **options), "fourfold-chroma").result(seconds)


def calling(call: Callable[..., T], *args: Any, **options: Any) -> T:
    """Raises a panic of Chroma's native part, as at a damaged folder, as RuntimeError; `except Exception` misses it."""
    try:
        return call(*args, **options)
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise RuntimeError(f"Chroma failed: {error}") from error
        raise


def _opened(client: Callable[[], Any], name: str) -> Collection:
    try:
        return calling(lambda: client().get_collection(name, embedding_function=None))
    except FourfoldError:
        raise
    except Exception as error:
        if type(error).__name__ == "NotFoundError" or "does not exist" in str(error):
            raise NotFound(f"no collection {name!r}", "Check its name") from error
        remedy = "Is it running?"
        raise StoreUnavailable(f"Chroma cannot be reached ({type(error).__name__}: {error})", remedy) from error


def _client_of(address: str) -> Callable[[], Any]:
    url = addresses.parse(address)
    ((host, port), *others) = url.hosts
    if url.scheme not in ("http", "https") or not host or others or url.user is not None:
        raise InvalidQuery(f"{url.shown} is not the address of a Chroma server", "Write http://HOST:PORT")
    secure = url.scheme == "https"

    def connect() -> Any:
        import chromadb

        return chromadb.HttpClient(host, int(port or (443 if secure else 8000)), ssl=secure, settings=_quiet())

    return connect


def _quiet() -> Any:
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def _require_chroma() -> Any:
    try:
        import chromadb
    except ImportError as error:
        raise MissingExtra(f"chromadb is missing ({error})", "pip install 'fourfold[chroma]'") from error
    return chromadb


def embedded(folder: Path) -> Any:
    """The client of a Chroma in this folder."""
    if not (folder / "chroma.sqlite3").is_file():  # opening would create one
        raise NotFound(f"{folder} is not a Chroma folder", "Give the folder with chroma.sqlite3")
    return _require_chroma().PersistentClient(str(folder), settings=_quiet())


def chunks(response: Mapping[str, Any]) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
    """(id, document, metadata) of each chunk of a response."""
    ids = response["ids"]
    documents = response.get("documents") or [None] * len(ids)
    metadatas = response.get("metadatas") or [None] * len(ids)
    return [(id, document or "", data or {}) for id, document, data in zip(ids, documents, metadatas, strict=True)]


# ---------------------------------------------------------------- the mirror

_PAGE_CHUNKS: Final = 500
SECONDS: Final = 5.0
"""Between two reads of all ids."""
_TITLES: Final = ("title", "article_title", "name")
_PATHS: Final = ("path", "file_path", "source", "url")
_HASHED: Final = "sha256:"
"""How the keys of ids begin that cannot be keys."""


class _Known(NamedTuple):
    item: int
    mark: int
    """Hash of document and metadata as last seen by this process."""


class Mirror:
    """The mirror of one collection, in a namespace of its own. Safe to call from several threads."""

    def __init__(self, collection: Collection, store: Store, namespace: str, settings: Settings) -> None:
        self.collection = collection
        self.store = store
        self.namespace = namespace
        self._links = settings.links
        self._secrets = SecretPolicy("allow" if settings.secrets == "allow" else "mask")  # a search cannot refuse
        self._known: dict[str, _Known] = {}
        """By key."""
        self._ids: dict[int, str] = {}
        """Ids in the collection, by item."""
        self._seen = float("-inf")
        self._loaded = False
        self.changes = 0
        """Chunks stored or removed so far."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._known)

    def id(self, item: int) -> str | None:
        """The id in the collection."""
        return self._ids.get(item)

    def catch_up(self) -> None:
        """Follows the collection if it may have changed."""
        with self._lock:
            self._load()
            count = ask(RETRIEVER_SECONDS, self.collection.count)
            if count != len(self._known) or time.monotonic() - self._seen > SECONDS:
                self._follow(verify=False)

    def follow(self, *, verify: bool = False) -> int:
        """Returns how many chunks were stored or removed."""
        with self._lock:
            self._load()
            before = self.changes
            self._follow(verify=verify)
            return self.changes - before

    def items(self, chunks: Sequence[tuple[str, str, Mapping[str, Any]]]) -> dict[str, int]:
        """Items of chunks (id, document, metadata) that a search returned; stores new and changed ones."""
        with self._lock:
            self._put(chunks)
            return {id: self._known[_key(id)].item for id, _, _ in chunks}

    # ------------------------------------------------------------ following

    def _load(self) -> None:
        """Reads what an earlier process stored."""
        if self._loaded:
            return
        with self.store.snapshot(self.namespace) as snapshot:
            ids = snapshot.rows.ids(NO_FILTERS)
            for part in pages(ids, _PAGE_CHUNKS):
                for item in snapshot.rows.get(part).values():
                    if item.key is not None:
                        self._known[item.key] = _Known(item.id, _mark(item.text, item.metadata))
                        self._ids[item.id] = item.key
        self._loaded = True

    def _follow(self, *, verify: bool) -> None:
        ids = {_key(id): id for id in ask(READ_SECONDS, all_ids, self.collection)}
        wanted = [id for key, id in ids.items() if verify or key not in self._known]
        for part in pages(wanted, _PAGE_CHUNKS):
            self._put(chunks(ask(READ_SECONDS, self.collection.get, ids=part, include=["documents", "metadatas"])))
        self._forget(self._known.keys() - ids.keys())
        self._ids = {known.item: ids[key] for key, known in self._known.items()}
        self._seen = time.monotonic()

    def _is_new(self, chunk: tuple[str, str, Mapping[str, Any]]) -> bool:
        seen = self._known.get(_key(chunk[0]))
        return seen is None or seen.mark != _mark(chunk[1], chunk[2])

    def _put(self, chunks: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Stores new and changed chunks."""
        fresh = [chunk for chunk in chunks if self._is_new(chunk)]
        if not fresh:
            return
        items = self._secrets.items([_item(*chunk) for chunk in fresh])
        with self.store.transaction(self.namespace, names=self._links and bring_names(items)) as transaction:
            stored = transaction.items.put(items, datetime.now(UTC), links=self._links)
        for (id, document, metadata), item in zip(fresh, stored, strict=True):
            self._known[_key(id)] = _Known(item.id, _mark(document, metadata))
            self._ids[item.id] = id
        self.changes += len(fresh)

    def _forget(self, gone: Iterable[str]) -> None:
        keys = list(gone)
        for part in pages(keys, _PAGE_CHUNKS):
            with self.store.transaction(self.namespace) as transaction:
                transaction.items.forget([self._known[key].item for key in part])
            for key in part:
                self._ids.pop(self._known.pop(key).item, None)
        self.changes += len(keys)


def _mark(document: str, metadata: Mapping[str, Json]) -> int:
    return hash((document, json.dumps(dict(metadata), sort_keys=True, default=str)))


def _key(id: str) -> str:
    """The key of a chunk: its id, or a hash of an id that a store would refuse or spell differently."""
    with suppress(InvalidItem):
        if rules.name(id, "id") == id and not id.startswith(_HASHED):
            return id
    return f"{_HASHED}{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _item(id: str, document: str, metadata: Mapping[str, Any]) -> NewItem:
    """A chunk as an item, with the title of its article, and without values that cannot be stored."""
    key, text, title = _key(id), _storable(document), _storable(_first(metadata, _TITLES))
    number = metadata.get("chunk_index")
    new = NewItem(
        text=text,
        title=title if title.strip() or text.strip() else key,
        key=key,
        tags=_tags(metadata.get("tags")),
        metadata=dict(metadata),
        path=_first(metadata, _PATHS) or None,
        chunk_index=number if isinstance(number, int) and number >= 0 else None,
    )
    try:
        return rules.checked(new)
    except InvalidItem:
        return rules.checked(NewItem(text=new.text, title=new.title, key=key))


def _first(metadata: Mapping[str, Any], names: Sequence[str]) -> str:
    said = (metadata.get(name) for name in names)
    return next((text for text in said if isinstance(text, str) and 0 < len(text.encode()) <= NAME_BYTES), "")


def _tags(value: Any) -> tuple[str, ...]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    if isinstance(value, str):
        listed = list(value.split(","))
    return tuple(tag.strip() for tag in listed if isinstance(tag, str) and tag.strip())[:TAGS]


def _storable(text: str) -> str:
    stored = clean(text[:ITEM_BYTES].encode("utf-8", "replace").decode().replace("\0", " "))
    return stored.encode()[: ITEM_BYTES // 2].decode("utf-8", "ignore")


# ---------------------------------------------------------------- the retriever

_SEEN = ["documents", "metadatas"]


class ChromaRetriever:
    """Ranks the chunks of a collection by cosine. Its items are those of the mirror, whose store holds their text."""

    name = "semantic"

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._collection: Collection = mirror.collection
        self._by_distance: bool | None = None

    def search(self, query: Query, limit: int) -> Ranking:
        if query.vector is None:
            return Ranking()
        allowed = self._allowed(query.filters)
        if allowed is not None and not allowed:
            return Ranking()
        answer = ask(limits.RETRIEVER_SECONDS, self._ask, query.vector, limit, allowed)
        items = self._mirror.items(chunks(answer))
        scores = self._scores(answer, query.vector)
        hits = [Hit(items[id], score) for id, score in zip(answer["ids"], scores, strict=True) if id in items]
        return Ranking(tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id))))

    def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        keys = {key: item for item in ids if (key := self._mirror.id(item)) is not None}
        if query.vector is None or not keys:
            return Ranking()
        answer = ask(limits.RETRIEVER_SECONDS, self._collection.get, ids=list(keys), include=["embeddings"])
        scores = _cosines(answer["embeddings"], query.vector) if answer["ids"] else []
        return Ranking(tuple(Hit(keys[id], score) for id, score in zip(answer["ids"], scores, strict=True)))

    def _allowed(self, filters: Filters) -> list[str] | None:
        """The ids that pass; None if all do."""
        if filters == NO_FILTERS:
            return None
        with self._mirror.store.snapshot(self._mirror.namespace) as snapshot:
            passing = snapshot.rows.ids(filters)
        keys = [key for item in passing if (key := self._mirror.id(item)) is not None]
        return None if len(keys) == len(self._mirror) else keys

    def _ask(self, vector: Vector, limit: int, allowed: list[str] | None) -> Mapping[str, Any]:
        if self._by_distance is None:
            self._by_distance = is_cosine(self._collection)
        wanted = [*_SEEN, "distances" if self._by_distance else "embeddings"]
        answer = calling(self._collection.query, [vector.tolist()], ids=allowed, n_results=limit, include=wanted)
        return {name: rows[0] for name, rows in answer.items() if name in ("ids", *wanted) and rows is not None}

    def _scores(self, response: Mapping[str, Any], vector: Vector) -> list[float]:
        if not response["ids"]:
            return []
        if self._by_distance:
            return [round(1 - distance, 6) for distance in response["distances"]]
        return _cosines(response["embeddings"], vector)


def _cosines(embeddings: Any, vector: Vector) -> list[float]:
    matrix = np.asarray(embeddings, np.float64)
    lengths = np.linalg.norm(matrix, axis=1) * float(np.linalg.norm(vector))
    return [round(float(cosine), 6) for cosine in matrix @ vector / np.where(lengths > 0, lengths, 1)]


# ---------------------------------------------------------------- search


class ChromaSearch:
    """Vectors from a Chroma collection; texts, words, tags and links from a store that follows it.

        collection = chromadb.PersistentClient("chroma").get_collection("articles")
        with ChromaSearch.open(collection, "store") as wiki:
            response = wiki.search("who repairs the tower clock?")

    The collection is only read. The embedder must be the one that made its vectors.
    """

    def __init__(self, memory: Memory, mirror: Mirror) -> None:
        self.memory = memory
        self._mirror = mirror

    @classmethod
    def open(
        cls,
        collection: Collection,
        store: str | Path | Store | None = None,
        *,
        namespace: str | None = None,
        embedder: str | Embedder | EmbeddingModel | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """`namespace`: of the store, for this collection alone; default chroma:NAME."""
        settings = settings or Settings(preset="wiki")
        name = namespace or f"chroma:{collection.name}"
        mirrors: list[Mirror] = []

        def retrievers(opened: Store) -> Sequence[Retriever]:
            mirrors.append(Mirror(collection, opened, name, settings))
            return [ChromaRetriever(mirrors[0])]

        options: dict[str, Any] = {"namespace": name, "embedder": embedder, "settings": settings, "background": False}
        memory = Memory.open(store, retrievers=retrievers, **options)
        return cls(memory, mirrors[0])

    def search(self, text: str, **options: Any) -> SearchResponse:
        """Takes the arguments of Memory.search. Without the collection, the other retrievers answer."""
        notes: list[str] = []
        try:
            self._mirror.catch_up()
        except FourfoldError:
            raise
        except Exception as error:  # chromadb and its HTTP client raise many types; reported in the notes
            reason = str(error) or type(error).__name__
            if not len(self._mirror):
                raise StoreUnavailable(f"Chroma cannot be reached ({reason})", "Is it running?") from error
            notes.append(f"the keyword index cannot follow the collection: {reason}")
        before = self._mirror.changes
        response = self.memory.search(text, **options)
        if self._mirror.changes != before:  # chunks that the collection returned had changed: rank their new texts
            response = self.memory.search(text, **options)
        return replace(response, notes=(*response.notes, *notes)) if notes else response

    def follow(self, *, verify: bool = False) -> int:
        """Copies changes of the collection; returns how many texts were stored or removed. `verify`: compares all."""
        return self._mirror.follow(verify=verify)

    def close(self) -> None:
        """Closes the store; the collection stays open."""
        self.memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
