"""Making vectors: at once for a query, from a queue for what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from fourfold.embed.base import Embedder
from fourfold.errors import EmbedderUnavailable
from fourfold.limits import MODEL_LOAD_SECONDS
from fourfold.model import Item
from fourfold.stores.base import Space, Store

if TYPE_CHECKING:
    from fourfold.model import Vector

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Told (done, total) as work goes on."""

_BATCH = 32


def embedded_text(title: str, text: str) -> str:
    """What the model reads of an item."""
    return f"{title}\n{text}" if title and text else title or text


class Vectorizer:
    """One embedder at work for one store. Queries never wait behind the queue: each has a thread of its own."""

    def __init__(self, embedder: Embedder, store: Store) -> None:
        self.embedder = embedder
        self._store = store
        self._queries = ThreadPoolExecutor(1, "fourfold-query")
        self._batches = ThreadPoolExecutor(1, "fourfold-embed")
        self._loading: asyncio.Future[None] | None = None

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    async def space(self) -> Space:
        """Loads the model if need be."""
        await self.load()
        dimension = self.embedder.dimension
        if dimension is None:
            raise EmbedderUnavailable("the embedder does not say its dimension", "Set openai_dimensions")
        return Space(self.embedder.fingerprint, dimension)

    async def load(self) -> None:
        if self._loading is None or (self._loading.done() and _failed(self._loading)):
            self._loading = asyncio.ensure_future(self._in(self._queries, self.embedder.load))
        await asyncio.shield(self._loading)

    async def query(self, text: str) -> Vector:
        """The vector of a query. Waits for the model's first load, but not for ever."""
        try:
            await asyncio.wait_for(self.load(), MODEL_LOAD_SECONDS)
        except TimeoutError as error:
            raise EmbedderUnavailable("the model is still loading", "Ask again in a moment") from error
        rows = await self._in(self._queries, lambda: self.embedder.embed([text]))
        return rows[0]

    async def embed_items(self, namespace: str, items: Sequence[Item]) -> int:
        """Vectors for these items, now."""
        return await self._embed(namespace, [(item.id, item.title, item.text) for item in items])

    async def drain(self, namespace: str, progress: Progress | None = None) -> int:
        """Vectors for all that wait; how many were made. It can be interrupted anywhere and taken up again."""
        total, done = (await self._store.size(namespace)).pending, 0
        while batch := await self._store.waiting(namespace, 4 * _BATCH):
            for start in range(0, len(batch), _BATCH):
                stored = await self._embed(namespace, batch[start : start + _BATCH])
                done += stored
                if progress is not None:
                    progress(done, max(total, done))
            await asyncio.sleep(0)
        return done

    async def _embed(self, namespace: str, batch: Sequence[tuple[int, str, str]]) -> int:
        space = await self.space()
        texts = [embedded_text(title, text) for _, title, text in batch]
        vectors = await self._in(self._batches, lambda: self.embedder.embed(texts))
        made = [(*row, vector) for row, vector in zip(batch, vectors, strict=True)]
        return await self._store.put_vectors(namespace, space, made)

    async def close(self) -> None:
        for pool in (self._queries, self._batches):
            pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self.embedder.close)


def _failed(loading: asyncio.Future[None]) -> bool:
    return loading.cancelled() or loading.exception() is not None
