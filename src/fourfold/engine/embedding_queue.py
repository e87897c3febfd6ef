"""Makes vectors: at once for a query, from a queue for stored items."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from fourfold import threads
from fourfold.embed.base import SMALLEST, UNIT, EmbeddingModel, embed_queries, embeds_in, replaced
from fourfold.embed.windows import Span, Windows, read_as
from fourfold.errors import EmbedderUnavailable, FourfoldError, SpaceMismatch, StoreUnavailable
from fourfold.limits import MODEL_LOAD_SECONDS
from fourfold.model import Space, Vector
from fourfold.storage.protocols import Store
from fourfold.storage.values import PendingText

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


T = TypeVar("T")
Reading: TypeAlias = tuple[PendingText, list[str], tuple[Span, ...]]
"""An item that waits, the texts to embed for it, and their spans if these are several."""
Progress = Callable[[int, int], None]
"""Called with (done, total) while work proceeds."""

_RECENT_QUERIES = 16
_BATCH_ITEMS = 32
_BATCH_WINDOWS = 64
"""Long items are embedded and stored in smaller batches: a window takes as long as an item."""
_LEASE_RETRY_SECONDS = 0.1
_PROBE = "a harmless text"
"""An embedder that rejects this text is unavailable."""


RENEW = "fourfold embed renews them"


def require_space(space: Space | None, model: EmbeddingModel) -> bool:
    """Whether a namespace's vectors, if any, are the model's; False for those of an earlier version.

    Raises SpaceMismatch if they come from another model.
    """
    if space is not None and not embeds_in(model, space.fingerprint):
        raise SpaceMismatch(
            f"the vectors here come from {space.fingerprint}, the embedder is {model.fingerprint}",
            "Return to that embedder, or renew all vectors: fourfold reembed",
        )
    return space is None or space.fingerprint == model.fingerprint


class EmbeddingQueue:
    """One embedder for one store. A query never waits for the queue: the embedder is called for both at a time."""

    def __init__(self, embedder: EmbeddingModel, store: Store) -> None:
        self.embedder = embedder
        self._store = store
        self._closing = threads.Flag()
        """Set when the memory closes, which ends every wait."""
        self._loaded = False
        self._loading: threads.Task[None] | None = None
        self._changing = threading.Lock()
        self._queries: dict[str, Vector] = {}
        """Vectors of recent queries, the latest last: a search with other weights asks the same question again."""
        self._querying = threading.Lock()
        self._embedding = threading.Lock()
        """Each serialises its calls: an embedder runs at most one query and one batch at a time."""
        self._taking = threading.Lock()
        """Held from taking items from the queue until their vectors are stored: no item is embedded twice."""

    # ------------------------------------------------------------ the embedder

    def _ask(self, call: Callable[[], T]) -> T:
        """Calls the embedder, which may be the user's code: every failure is an EmbedderUnavailable."""
        self._check_open()
        try:
            return call()
        except FourfoldError:
            raise
        except Exception as error:
            what = f"the embedder failed ({type(error).__name__}: {error})"
            raise EmbedderUnavailable(what, "Fix it, or choose another with FOURFOLD_EMBEDDER") from error

    def _check_open(self) -> None:
        if self._closing.is_set:
            raise StoreUnavailable("the memory was closed", "Open it again")

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._embedding:
            rows = self._ask(lambda: self.embedder.embed(texts))
        return unit_rows(rows, len(texts), self.embedder.dimension)

    def load(self, seconds: float | None = None) -> None:
        """Loads the model once, in a thread: a caller may give up waiting without stopping the load."""
        self._check_open()
        if self._loaded:
            return
        with self._changing:
            if self._loading is None or (self._loading.done.is_set and not self._loaded):
                self._loading = threads.start(partial(self._ask, self._load), "fourfold-load")
            loading = self._loading
        threads.wait_for_any(loading.done, self._closing, seconds=seconds)
        self._check_open()
        if not loading.done.is_set:
            raise EmbedderUnavailable("the model is still loading", "Try again in a moment")
        loading.result()

    def _load(self) -> None:
        self.embedder.load()
        self._loaded = True

    def space(self) -> Space:
        """Loads the model if necessary."""
        self.load()
        dimension = self.embedder.dimension
        if dimension is None:
            raise EmbedderUnavailable("the embedder does not report its dimension", "Set openai_dimensions")
        return Space(self.embedder.fingerprint, dimension)

    def query(self, text: str) -> Vector:
        """The vector of a query. Waits up to MODEL_LOAD_SECONDS for the model's first load."""
        self.load(MODEL_LOAD_SECONDS)
        with self._querying:
            vector = self._queries.pop(text, None)
            if vector is None:
                rows = self._ask(lambda: embed_queries(self.embedder, [text]))
                vector = unit_rows(rows, 1, self.embedder.dimension)[0]
            self._queries[text] = vector
            if len(self._queries) > _RECENT_QUERIES:
                del self._queries[next(iter(self._queries))]
        return vector

    # ------------------------------------------------------------ the queue

    def embed_items(self, namespace: str, ids: Sequence[int]) -> int:
        """Makes the vectors of those of these items that have none, now."""
        with self._taking:
            self.drop_earlier(namespace)
            with self._store.snapshot(namespace) as snapshot:
                batch = snapshot.pending(len(ids), ids)
            starts = range(0, len(batch), _BATCH_ITEMS)
            return sum(self._embed(namespace, batch[start : start + _BATCH_ITEMS]) for start in starts)

    def drain(
        self,
        namespace: str,
        progress: Progress | None = None,
        *,
        patient: bool = False,
        seconds: float | None = None,
    ) -> int:
        """Makes the vectors of all pending items; returns how many. It can be interrupted anywhere and repeated.

        One process at a time does this: others leave it to that one, or are `patient` until nothing is pending.
        `seconds`: no batch begins after this long. The first one always does.
        """
        until = math.inf if seconds is None else time.monotonic() + seconds
        self.drop_earlier(namespace)
        done, total = 0, None
        while True:
            with self._taking, self._store.maintenance.lease(namespace) as mine:
                with self._store.snapshot(namespace) as snapshot:
                    total = snapshot.size.pending if total is None else total
                    batch = snapshot.pending(_BATCH_ITEMS)
                if not batch or not (mine or patient):
                    return done
                if mine:
                    done += self._embed(namespace, batch)
            if progress is not None:
                progress(done, max(total, done))
            if time.monotonic() >= until:
                return done
            if not mine:
                self._closing.wait(_LEASE_RETRY_SECONDS)
            self._check_open()

    def _embed(self, namespace: str, batch: Sequence[PendingText]) -> int:
        """Makes and stores their vectors, some windows at a time."""
        truncates = self.embedder.truncates
        done, some, windows = 0, list[Reading](), 0
        for row in batch:
            texts, spans = self._ask(partial(read_as, *row[1:], truncates))
            if some and windows + len(texts) > _BATCH_WINDOWS:
                done += self._embed_readings(namespace, some)
                some, windows = [], 0
            some.append((row, texts, spans))
            windows += len(texts)
        return done + (self._embed_readings(namespace, some) if some else 0)

    def _embed_readings(self, namespace: str, batch: Sequence[Reading]) -> int:
        """Makes and stores vectors. A text that the embedder rejects, though it accepts others, is set aside."""
        space = self.space()
        texts = [text for _, texts, _ in batch for text in texts]
        begun = time.monotonic()
        try:
            vectors = self._vectors(texts)
        except EmbedderUnavailable:
            self._vectors([_PROBE])  # raises if the embedder accepts nothing at all
            if len(batch) > 1:
                half = len(batch) // 2
                return self._embed_readings(namespace, batch[:half]) + self._embed_readings(namespace, batch[half:])
            try:
                vectors = self._vectors(texts)  # the failure may have been temporary
            except EmbedderUnavailable as error:
                with self._store.transaction(namespace) as tx:
                    tx.vectors.reject(batch[0][0], str(error))
                return 0
        ends = list(accumulate(len(texts) for _, texts, _ in batch))
        parts = [vectors[end - len(texts) : end] for end, (_, texts, _) in zip(ends, batch, strict=True)]
        made = [
            (*row, Windows(part, spans) if spans else part[0])
            for part, (row, _, spans) in zip(parts, batch, strict=True)
        ]
        with self._store.transaction(namespace) as tx:
            return tx.vectors.put(space, made, time.monotonic() - begun)

    def queues(self) -> list[str]:
        """Namespaces in which items wait for a vector, or have one of an earlier version of the embedder."""
        return self._store.maintenance.queues(replaced(self.embedder))

    def fits(self, namespace: str) -> bool:
        """Whether the namespace's vectors, if any, are the embedder's; False for those of an earlier version.

        Raises SpaceMismatch if they come from another model.
        """
        with self._store.snapshot(namespace) as snapshot:
            return require_space(snapshot.space, self.embedder)

    def drop_earlier(self, namespace: str) -> None:
        """Drops vectors of an earlier version, once the model is loaded. Their items wait for new ones.

        An earlier version that has the store open stores no vectors any more, and its searches are refused.
        """
        if not self.fits(namespace):
            space = self.space()
            with self._store.transaction(namespace) as tx:
                tx.vectors.reset_space(space)

    def stop(self) -> None:
        """Makes running and later calls end with StoreUnavailable."""
        self._closing.set()

    def close(self) -> None:
        self.stop()
        self.embedder.close()


def unit_rows(rows: object, count: int, dimension: int | None) -> NDArray[np.float32]:
    """The embedder's answer as unit vectors; EmbedderUnavailable if it is anything else than `count` vectors."""
    import numpy as np

    try:
        matrix = np.asarray(rows, np.float32)
    except (TypeError, ValueError) as error:
        raise _no_vectors(f"something that is not a matrix of numbers ({error})") from error
    if matrix.shape != (count, dimension):
        raise _no_vectors(f"numbers of the shape {matrix.shape} instead of {(count, dimension)}")
    if not np.isfinite(matrix).all():
        raise _no_vectors("NaN or infinite numbers")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.where((np.abs(lengths - 1) < UNIT) | (lengths == 0), matrix, matrix / np.maximum(lengths, SMALLEST))


def _no_vectors(what: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"the embedder returned {what}", "Fix it, or choose another with FOURFOLD_EMBEDDER")
