"""Opening a collection, and calling it with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fourfold import addresses, limits, threads
from fourfold.errors import FourfoldError, InvalidQuery, MissingExtra, NotFound, StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path

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
    found: list[str] = []
    while page := collection.get(limit=_PAGE_IDS, offset=len(found), include=[])["ids"]:
        found += page
        if len(page) < _PAGE_IDS:
            break
    return found


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
    try:
        import chromadb
    except ImportError as error:
        raise MissingExtra("chromadb is not installed", "pip install 'fourfold[chroma]'") from error
    if "://" not in str(place):
        return _opened(lambda: _embedded(chromadb, place), name)
    collection = ServerCollection(str(place), name)
    with suppress(ConnectionError):
        collection.connect()
    return collection


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

    @property
    def metadata(self) -> Any:
        return getattr(self.connect(), "metadata", None)

    @property
    def configuration_json(self) -> Any:
        return getattr(self.connect(), "configuration_json", None)

    def count(self) -> int:
        return self.connect().count()

    def query(self, query_embeddings: Any, **options: Any) -> Mapping[str, Any]:
        return self.connect().query(query_embeddings, **options)

    def get(self, ids: Any = None, **options: Any) -> Mapping[str, Any]:
        return self.connect().get(ids, **options)


def ask(seconds: float, call: Callable[..., T], *args: Any, **options: Any) -> T:
    """Calls a client of Chroma, which has no deadline of its own. After a TimeoutError only a daemon thread is left."""
    return threads.start(partial(call, *args, **options), "fourfold-chroma").result(seconds)


def _opened(client: Callable[[], Any], name: str) -> Collection:
    try:
        return client().get_collection(name, embedding_function=None)
    except FourfoldError:
        raise
    except Exception as error:
        if _is_missing(error):
            raise NotFound(f"no collection {name!r}", "Check its name") from error
        raise StoreUnavailable(
            f"Chroma cannot be reached ({type(error).__name__}: {error})", "Is it running?"
        ) from error


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


def _embedded(chromadb: Any, place: str | Path) -> Any:
    from pathlib import Path

    if not (Path(place) / "chroma.sqlite3").is_file():  # opening would create one
        raise NotFound(f"{place} is not a Chroma folder", "Give the folder with chroma.sqlite3")
    return chromadb.PersistentClient(str(place), settings=_quiet())


def _is_missing(error: Exception) -> bool:
    return type(error).__name__ == "NotFoundError" or "does not exist" in str(error)


def chunks(found: Mapping[str, Any]) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
    """(id, document, metadata) of each chunk of a response."""
    ids = found["ids"]
    documents = found.get("documents") or [None] * len(ids)
    metadatas = found.get("metadatas") or [None] * len(ids)
    return [(id, document or "", data or {}) for id, document, data in zip(ids, documents, metadatas, strict=True)]
