"""Embedders: the small protocol for callers, and the one that the engine uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """An embedding model of your own: a name, a dimension, and one vector per text. `Memory.open` takes it.

    `embed` may block: it runs in worker threads, one for queries and one for stored items. Its rows need not be
    normalised. After an exception, or rows of another shape, items wait for their vectors, and searches answer without
    vectors and say so. Derive from `BaseEmbedder` to load the model later, or to name its vector space.
    """

    @property
    def name(self) -> str:
        """The name of the model with its version; a changed name means a new vector space, which needs `reembed`."""
        ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]] | NDArray[Any]:
        """One row per text."""
        ...


class EmbeddingModel(Protocol):
    """The model as the engine uses it; `BaseEmbedder` implements all of it.

    `embed` may block (it runs in a worker thread) and may be called from several threads. It loads the model on first
    use. Exceptions and wrong results become an EmbedderUnavailable.
    """

    @property
    def fingerprint(self) -> str:
        """Provider, model, revision, dimension and prefix: equal fingerprints mean one vector space.

        Known without loading; a local model whose file cannot be read raises EmbedderUnavailable.
        """
        ...

    @property
    def dimension(self) -> int | None:
        """None while unknown (an endpoint that has not answered yet)."""
        ...

    def load(self) -> None:
        """Loads the model; idempotent. Raises EmbedderUnavailable with the remedy."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...

    def truncates(self, text: str) -> bool:
        """Whether the model reads only the beginning of this text. A stored text is then embedded in windows."""
        ...

    def close(self) -> None: ...


class AsymmetricModel(EmbeddingModel, Protocol):
    """A model that reads queries in another way than stored texts, for example with a prefix."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


def asymmetric(model: EmbeddingModel) -> AsymmetricModel | None:
    return cast("AsymmetricModel", model) if hasattr(type(model), "embed_queries") else None


def embed_queries(model: EmbeddingModel, texts: Sequence[str]) -> NDArray[np.float32]:
    """One row per query."""
    both = asymmetric(model)
    return model.embed(texts) if both is None else both.embed_queries(texts)


def replaced(model: EmbeddingModel) -> tuple[str, ...]:
    """How the fingerprints of earlier versions begin, whose vectors the model renews without being asked.

    They are an attribute `replaces` of the model.
    """
    return getattr(model, "replaces", ())


def embeds_in(model: EmbeddingModel, fingerprint: str) -> bool:
    """Whether vectors with this fingerprint are those of the model, or of an earlier version."""
    return fingerprint == model.fingerprint or fingerprint.startswith(replaced(model))


class BaseEmbedder:
    """Completes an embedder: derive from it, set `name` and `dimension`, write `embed`, override what you need."""

    name: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]] | NDArray[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no `embed`")

    @property
    def fingerprint(self) -> str:
        """Names the vector space: equal fingerprints mean comparable vectors."""
        return f"{self.name}/{self.dimension}"

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Sequence[float]] | NDArray[Any]:
        """Queries, if the model reads them in another way than stored texts, for example with a prefix."""
        return self.embed(texts)

    def load(self) -> None:
        """Loads the model before the first `embed`."""

    def truncates(self, text: str) -> bool:
        """Whether the model reads only the beginning of this text.

        Long items then get a vector for each part, and searches with a longer query say so.
        """
        return False

    def close(self) -> None:
        """Releases the model."""


class _Completed(BaseEmbedder):
    def __init__(self, embedder: Embedder) -> None:
        self.name = embedder.name
        self.dimension = embedder.dimension
        self.embed = embedder.embed


def completed(embedder: Embedder | EmbeddingModel) -> EmbeddingModel:
    """Completes an embedder to an EmbeddingModel. The engine converts and checks its rows."""
    return cast(
        "EmbeddingModel", embedder if hasattr(type(embedder), "load") else _Completed(cast("Embedder", embedder))
    )


def readable(text: str, characters: int) -> str:
    """The beginning of a text; lone surrogates, which tokenizers and endpoints reject, become question marks."""
    return text[:characters].encode("utf-8", "replace").decode("utf-8")
