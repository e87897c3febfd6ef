"""The retrieval service of seed 2: a collection that exists, searched by vectors and words at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fourfold.chroma.collection import Collection
from fourfold.chroma.mirror import Mirror
from fourfold.chroma.retriever import ChromaRetriever
from fourfold.config import Settings
from fourfold.embed.base import Embedder, EmbeddingModel
from fourfold.errors import FourfoldError, StoreUnavailable
from fourfold.memory import Memory
from fourfold.model import Retriever, SearchResponse
from fourfold.retrievers.graph import GraphRetriever
from fourfold.retrievers.keyword import KeywordRetriever
from fourfold.retrievers.tags import TagRetriever
from fourfold.stores.base import Store


class ChromaSearch:
    """Vectors from a Chroma collection; texts, words, tags and links from a store that follows it.

        collection = chromadb.PersistentClient("chroma").get_collection("articles")
        async with await ChromaSearch.open(collection, "store") as wiki:
            response = await wiki.search("who repairs the tower clock?")

    The collection is only read. The embedder has to be the one that its vectors come from.
    """

    def __init__(self, memory: Memory, mirror: Mirror) -> None:
        self.memory = memory
        self._mirror = mirror

    @classmethod
    async def open(
        cls,
        collection: Collection,
        store: str | Path | Store | None = None,
        *,
        namespace: str | None = None,
        embedder: str | Embedder | EmbeddingModel | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """`namespace`: of the store, for this collection alone; chroma:NAME if left out."""
        settings = settings or Settings(preset="wiki")
        name = namespace or f"chroma:{collection.name}"
        mirrors: list[Mirror] = []

        def retrievers(opened: Store) -> Sequence[Retriever]:
            mirrors.append(Mirror(collection, opened, name, links=settings.links))
            beside = (KeywordRetriever(opened), GraphRetriever(opened), TagRetriever(opened))
            return [ChromaRetriever(mirrors[0]), *beside]

        options: dict[str, Any] = {"namespace": name, "embedder": embedder, "settings": settings, "background": False}
        memory = await Memory.open(store, retrievers=retrievers, **options)
        return cls(memory, mirrors[0])

    async def search(self, text: str, **options: Any) -> SearchResponse:
        """Takes what Memory.search takes. A collection that cannot be reached leaves the search to the others."""
        notes: list[str] = []
        try:
            await self._mirror.catch_up()
        except FourfoldError:
            raise
        except Exception as error:
            reason = str(error) or type(error).__name__
            if not len(self._mirror):
                raise StoreUnavailable(f"Chroma cannot be reached ({reason})", "Is it running?") from error
            notes.append(f"the keyword index cannot follow the collection: {reason}")
        response = await self.memory.search(text, **options)
        return replace(response, notes=(*response.notes, *notes)) if notes else response

    async def follow(self, *, verify: bool = False) -> int:
        """Brings the texts up to date with the collection; how many were stored or removed. `verify`: compares all."""
        return await self._mirror.follow(verify=verify)

    async def close(self) -> None:
        """The collection stays open: it was not opened here."""
        await self.memory.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
