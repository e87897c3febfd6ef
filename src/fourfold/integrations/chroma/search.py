"""Searches an existing Chroma collection by vectors and words at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fourfold.config import Settings
from fourfold.embed.base import Embedder, EmbeddingModel
from fourfold.errors import FourfoldError, StoreUnavailable
from fourfold.integrations.chroma.collection import Collection
from fourfold.integrations.chroma.mirror import Mirror
from fourfold.integrations.chroma.retriever import ChromaRetriever
from fourfold.memory import Memory
from fourfold.retrieval import Retriever, SearchResponse
from fourfold.storage.protocols import Store


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
            mirrors.append(Mirror(collection, opened, name, links=settings.links))
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
