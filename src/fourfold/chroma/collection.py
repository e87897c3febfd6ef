"""What is asked of a collection, and how one is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fourfold import addresses
from fourfold.errors import FourfoldError, InvalidQuery, MissingExtra, NotFound, StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path

_PAGE = 5000


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
    while page := collection.get(limit=_PAGE, offset=len(found), include=[])["ids"]:
        found += page
        if len(page) < _PAGE:
            break
    return found


def is_cosine(collection: object) -> bool:
    """Whether its distances are 1 - cosine."""
    configuration: dict[str, Any] = getattr(collection, "configuration_json", None) or {}
    metadata: dict[str, Any] = getattr(collection, "metadata", None) or {}
    spaces: list[Any] = [(configuration.get(index) or {}).get("space") for index in ("hnsw", "spann")]
    return "cosine" in (metadata.get("hnsw:space"), *spaces)


def open_collection(place: str | Path, name: str) -> Collection:
    """`place`: the folder of an embedded Chroma, or the http(s) address of a server. The collection has to exist."""
    try:
        import chromadb
        from chromadb.config import Settings
    except ImportError as error:
        raise MissingExtra("chromadb is not installed", "pip install 'fourfold[chroma]'") from error
    quiet = Settings(anonymized_telemetry=False)
    try:
        client = _server(chromadb, str(place), quiet) if "://" in str(place) else _embedded(chromadb, place, quiet)
        return client.get_collection(name, embedding_function=None)
    except FourfoldError:
        raise
    except Exception as error:
        if _is_missing(error):
            raise NotFound(f"there is no collection {name}", "Check its name") from error
        raise StoreUnavailable(
            f"Chroma cannot be reached ({type(error).__name__}: {error})", "Is it running?"
        ) from error


def _server(chromadb: Any, address: str, settings: Any) -> Any:
    url = addresses.parse(address)
    ((host, port), *others) = url.hosts
    if url.scheme not in ("http", "https") or not host or others or url.user is not None:
        raise InvalidQuery(f"{url.shown} is not the address of a Chroma server", "Write http://HOST:PORT")
    secure = url.scheme == "https"
    return chromadb.HttpClient(host, int(port or (443 if secure else 8000)), ssl=secure, settings=settings)


def _embedded(chromadb: Any, place: str | Path, settings: Any) -> Any:
    from pathlib import Path

    if not (Path(place) / "chroma.sqlite3").is_file():  # opening would make one
        raise NotFound(f"there is no Chroma in {place}", "Give the folder with chroma.sqlite3")
    return chromadb.PersistentClient(str(place), settings=settings)


def _is_missing(error: Exception) -> bool:
    return type(error).__name__ == "NotFoundError" or "does not exist" in str(error)


def chunks(found: Mapping[str, Any]) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
    """(id, document, metadata) of an answer."""
    ids = found["ids"]
    documents = found.get("documents") or [None] * len(ids)
    metadatas = found.get("metadatas") or [None] * len(ids)
    return [(id, document or "", data or {}) for id, document, data in zip(ids, documents, metadatas, strict=True)]
