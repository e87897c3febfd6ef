"""Making vectors: at once for a query, from a queue for what is stored."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from fourfold.embed.base import EmbeddingModel
from fourfold.embed.vectors import SMALLEST, UNIT
from fourfold.errors import EmbedderUnavailable, FourfoldError, SpaceMismatch, StoreUnavailable
from fourfold.limits import MODEL_LOAD_SECONDS
from fourfold.stores.base import Space, Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fourfold.model import Vector

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Told (done, total) as work goes on."""

_BATCH = 32
_PATIENCE_SECONDS = 0.1
_HARMLESS = "a harmless text"
"""An embedder that does not take this one is not to be had."""


def embedded_text(title: str, text: str) -> str:
    """What the model reads of an item."""
    return f"{title}\n{text}" if title and text else title or text


class Vectorizer:
    """One embedder at work for one store. Queries never wait behind the queue: each has a thread of its own."""

    def __init__(self, embedder: EmbeddingModel, store: Store) -> None:
        self.embedder = embedder
        self._store = store
        self._queries = ThreadPoolExecutor(1, "fourfold-query")
        self._batches = ThreadPoolExecutor(1, "fourfold-embed")
        self._closed = False
        self._loading: asyncio.Future[None] | None = None
        self._turn = asyncio.Lock()
        """Who takes items from the queue embeds them before another looks: none is embedded twice."""

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        """Asks the embedder. It may be anybody's code: whatever goes wrong in it is an EmbedderUnavailable."""

        def working() -> T:
            self._check_open()
            return work()

        self._check_open()
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, working)
        except FourfoldError:
            raise
        except Exception as error:
            what = f"the embedder failed ({type(error).__name__}: {error})"
            raise EmbedderUnavailable(what, "Mend it, or choose another with FOURFOLD_EMBEDDER") from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the memory was closed", "Open it again")

    async def _vectors(self, pool: ThreadPoolExecutor, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = await self._in(pool, lambda: self.embedder.embed(texts))
        return unit_rows(rows, len(texts), self.embedder.dimension)

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
            self._loading.add_done_callback(_failed)  # asks for its exception, for when nobody waits any more
        await asyncio.shield(self._loading)

    async def query(self, text: str) -> Vector:
        """The vector of a query. Waits for the model's first load, but not for ever."""
        try:
            await asyncio.wait_for(self.load(), MODEL_LOAD_SECONDS)
        except TimeoutError as error:
            raise EmbedderUnavailable("the model is still loading", "Ask again in a moment") from error
        return (await self._vectors(self._queries, [text]))[0]

    async def embed_items(self, namespace: str, ids: Sequence[int]) -> int:
        """Vectors, now, for those of these items that have none."""
        async with self._turn:
            batch = await self._store.waiting(namespace, len(ids), ids)
            parts = [batch[start : start + _BATCH] for start in range(0, len(batch), _BATCH)]
            return sum([await self._embed(namespace, part) for part in parts])

    async def drain(
        self,
        namespace: str,
        progress: Progress | None = None,
        *,
        patiently: bool = False,
        seconds: float | None = None,
    ) -> int:
        """Vectors for all that wait; how many were made. It can be interrupted anywhere and taken up again.

        One process at a time does this: others leave it to that one, or `patiently` wait until nothing is left.
        `seconds`: no batch begins after this long. The first one always does.
        """
        until = math.inf if seconds is None else time.monotonic() + seconds
        total, done = (await self._store.size(namespace)).pending, 0
        await self.check_space(namespace)
        while True:
            async with self._turn, self._store.lease(namespace) as mine:
                batch = await self._store.waiting(namespace, _BATCH)
                if not batch or not (mine or patiently):
                    return done
                if mine:
                    done += await self._embed(namespace, batch)
            if progress is not None:
                progress(done, max(total, done))
            if time.monotonic() >= until:
                return done
            if not mine:
                await asyncio.sleep(_PATIENCE_SECONDS)

    async def _embed(self, namespace: str, batch: Sequence[tuple[int, str, str]]) -> int:
        """Makes and stores their vectors. A text that the embedder refuses, though it takes others, is put aside."""
        space = await self.space()
        texts = [embedded_text(title, text) for _, title, text in batch]
        try:
            vectors = await self._vectors(self._batches, texts)
        except EmbedderUnavailable:
            await self._vectors(self._batches, [_HARMLESS])  # raises, if the embedder takes nothing at all
            if len(batch) > 1:
                half = len(batch) // 2
                return await self._embed(namespace, batch[:half]) + await self._embed(namespace, batch[half:])
            try:
                vectors = await self._vectors(self._batches, texts)  # what failed may have passed
            except EmbedderUnavailable as error:
                await self._store.refuse(namespace, batch[0], str(error))
                return 0
        made = [(*row, vector) for row, vector in zip(batch, vectors, strict=True)]
        return await self._store.put_vectors(namespace, space, made)

    async def check_space(self, namespace: str) -> None:
        """SpaceMismatch if the namespace's vectors are another model's: none of ours fits."""
        known, fingerprint = await self._store.space(namespace), self.embedder.fingerprint
        if known is not None and known.fingerprint != fingerprint:
            raise SpaceMismatch(
                f"the vectors here come from {known.fingerprint}, the embedder is {fingerprint}",
                "Go back to that embedder, or make all vectors anew: fourfold reembed",
            )

    async def close(self) -> None:
        """Whoever still waits is told; a cancelled future would look like a cancelled caller."""
        self._closed = True
        for pool in (self._queries, self._batches):
            pool.shutdown(wait=False)
        await asyncio.to_thread(self.embedder.close)


def unit_rows(rows: object, count: int, dimension: int | None) -> NDArray[np.float32]:
    """What an embedder gave, as the rows of unit vectors that a store takes; EmbedderUnavailable if it is not that."""
    import numpy as np

    try:
        found = np.asarray(rows, np.float32)
    except (TypeError, ValueError) as error:
        raise _no_vectors(f"something that is no matrix of numbers ({error})") from error
    if found.shape != (count, dimension):
        raise _no_vectors(f"numbers of the shape {found.shape} where {(count, dimension)} was asked for")
    if not np.isfinite(found).all():
        raise _no_vectors("NaN or infinite numbers")
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.where((np.abs(lengths - 1) < UNIT) | (lengths == 0), found, found / np.maximum(lengths, SMALLEST))


def _no_vectors(what: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"the embedder gave {what}", "Mend it, or choose another with FOURFOLD_EMBEDDER")


def _failed(loading: asyncio.Future[None]) -> bool:
    return loading.cancelled() or loading.exception() is not None
