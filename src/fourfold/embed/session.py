"""Local sentence models: texts in, unit vectors out. Nothing heavy is imported before a model loads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fourfold import threads
from fourfold.embed.base import readable
from fourfold.embed.onnx_runtime import CPU, Graph, Pooling, thread_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]

BATCH_TOKENS = 512
"""Tokens of one run, padding included: fewer make each token dearer; more only need more memory."""

TEXTS_AT_ONCE = 1024
"""Texts tokenised together: bounds the memory of an `embed` of any size."""

CHARACTERS_A_TOKEN = 64
"""A text is cut to this many characters per token before it is tokenised, which bounds the cost of a long text."""

NO_TOKENS = [0]
"""Ids of a text without any token, so that every text has a vector."""


class Tokenizer(Protocol):
    """Turns texts into ids of a model's vocabulary. Safe to use from several threads at once."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, cut to what the model reads."""
        ...

    def truncates(self, text: str) -> bool:
        """Whether `encode` cuts the text."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that turns texts into vectors."""

    model: bytes | Path
    """Bytes where they were checked, so that native code sees exactly what was hashed."""
    tokenizer: Tokenizer
    max_tokens: int
    pooling: Pooling
    query_prefix: str = ""
    passage_prefix: str = ""
    """What the model wants before a query, and before a stored text."""
    folder: Path | None = None
    """Of weights that lie beside the model's bytes."""
    ready: Callable[[], None] = lambda: None
    """Waits until those weights are checked; raises EmbedderUnavailable if they are damaged."""


class Session:
    """One loaded model. Safe to use from several threads at once."""

    def __init__(self, recipe: Recipe, provider: str = CPU) -> None:
        self.query_prefix = recipe.query_prefix
        self.passage_prefix = recipe.passage_prefix
        self._tokenizer = recipe.tokenizer
        self._characters = recipe.max_tokens * CHARACTERS_A_TOKEN
        try:
            self._graph = Graph(recipe.model, recipe.pooling, provider, recipe.folder)
        finally:
            recipe.ready()
        self.dimension = self._embed_slice(["a"]).shape[1]

    def embed(self, texts: Sequence[str]) -> Floats:
        import numpy as np

        result = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            end = start + TEXTS_AT_ONCE
            result[start:end] = self._embed_slice(texts[start:end])
        return result

    def truncates(self, text: str) -> bool:
        return len(text) > self._characters or self._tokenizer.truncates(self._readable(text))

    def _embed_slice(self, texts: Sequence[str]) -> Floats:
        import numpy as np

        rows = [ids or NO_TOKENS for ids in self._tokenizer.encode([self._readable(text) for text in texts])]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        made = batches([rows[index] for index in order], pads=self._graph.pads)
        vectors = np.concatenate(self._runs(list(made)))
        result = np.empty_like(vectors)
        result[order] = vectors
        return result

    def _runs(self, made: Sequence[list[list[int]]]) -> list[Floats]:
        """The vectors of every batch. Two run at a time: while the threads of one wait, the other computes."""
        if len(made) == 1 or thread_count() == 1:
            return [self._graph.run(batch) for batch in made]
        vectors: dict[int, Floats] = {}
        left = iter(enumerate(made))

        def work() -> None:
            for place, batch in left:
                vectors[place] = self._graph.run(batch)

        second = threads.start(work, "fourfold-model")
        try:
            work()
        finally:
            deque(left, maxlen=0)  # after an error or Ctrl-C the other thread ends with its batch
        second.result()
        return [vectors[place] for place in range(len(made))]

    def _readable(self, text: str) -> str:
        return readable(text, self._characters)


def batches(rows: Sequence[list[int]], *, pads: bool = True) -> Iterator[list[list[int]]]:
    """Rows, shortest first, in runs of at most BATCH_TOKENS when padded to their longest (and of at least one row).

    Without padding, the rows of a run have one length.
    """
    batch: list[list[int]] = []
    for row in rows:
        if batch and (len(row) * (len(batch) + 1) > BATCH_TOKENS or not (pads or len(row) == len(batch[0]))):
            yield batch
            batch = []
        batch.append(row)
    yield batch


class LocalEmbedder:
    """The Embedder over a local model: hashes and loads once, on first use."""

    def __init__(
        self,
        fingerprint: Callable[[], str],
        recipe: Callable[[], Recipe],
        dimension: int | None = None,
        provider: str = CPU,
        replaces: tuple[str, ...] = (),
    ) -> None:
        """`provider`: the execution provider of onnxruntime. `replaces`: see `replaced` in base.py."""
        self.replaces = replaces
        self._make_fingerprint = fingerprint
        self._make_recipe = recipe
        self._dimension = dimension
        self._provider = provider
        self._fingerprint = ""
        self._session: Session | None = None
        self._loading = threading.Lock()

    @property
    def fingerprint(self) -> str:
        self._fingerprint = self._fingerprint or self._make_fingerprint()
        return self._fingerprint

    @property
    def dimension(self) -> int | None:
        return self._dimension

    def load(self) -> None:
        self._loaded()

    def embed(self, texts: Sequence[str]) -> Floats:
        session = self._loaded()
        return session.embed([session.passage_prefix + text for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        session = self._loaded()
        return session.embed([session.query_prefix + text for text in texts])

    def truncates(self, text: str) -> bool:
        session = self._loaded()
        return session.truncates(session.passage_prefix + text)

    def close(self) -> None:
        with self._loading:
            self._session = None

    def _loaded(self) -> Session:
        with self._loading:
            if self._session is None:
                self._session = Session(self._make_recipe(), self._provider)
                self._dimension = self._session.dimension
            return self._session
