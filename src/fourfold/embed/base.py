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


class RoutedModel(EmbeddingModel, Protocol):
    """A model with several encoders in one vector space; the text decides which one reads it."""

    @property
    def earlier_fingerprints(self) -> tuple[str, ...]:
        """Fingerprints of the same space before an encoder was added; only texts that `renews` names can gain."""
        ...

    @property
    def truncating_fingerprints(self) -> tuple[str, ...]:
        """Fingerprints of the same space before long texts had windows: their vectors represent only the beginning."""
        ...

    @property
    def encoders(self) -> tuple[str, ...]:
        """Their names; the first one reads every language that no other has."""
        ...

    def query_encoders(self, text: str) -> tuple[str, ...]:
        """The encoder of a query, or all of them if its language is uncertain."""
        ...

    def encoder_of(self, text: str) -> str:
        """The encoder of a stored text."""
        ...

    def revision(self, encoder: str) -> str:
        """Names the weights of an encoder: equal revisions mean equal vectors."""
        ...

    def embed_as(self, encoder: str, texts: Sequence[str]) -> NDArray[np.float32]: ...

    def renews(self, text: str) -> bool:
        """Whether an added encoder reads the stored text."""
        ...


def routed(model: EmbeddingModel) -> RoutedModel | None:
    return cast("RoutedModel", model) if hasattr(type(model), "embed_as") else None


def embed_routed(model: RoutedModel, texts: Sequence[str]) -> NDArray[np.float32]:
    """One row per text, each by its encoder."""
    import numpy as np

    chosen = [model.encoder_of(text) for text in texts]
    rows = np.empty((len(texts), model.dimension or 0), np.float32)
    for name in sorted(set(chosen)):
        places = [place for place, encoder in enumerate(chosen) if encoder == name]
        rows[places] = model.embed_as(name, [texts[place] for place in places])
    return rows


def shares_space(model: EmbeddingModel, fingerprint: str) -> bool:
    """Whether vectors with this fingerprint can be compared with those of the model."""
    several = routed(model)
    if fingerprint == model.fingerprint or several is None:
        return fingerprint == model.fingerprint
    return fingerprint in (*several.earlier_fingerprints, *several.truncating_fingerprints)


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
