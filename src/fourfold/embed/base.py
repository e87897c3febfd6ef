"""Embedders: the small protocol for callers, and the one that the engine uses; checks of vectors from outside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from fourfold import limits
from fourfold.errors import InvalidVector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Numbers: TypeAlias = Sequence[float] | NDArray[Any]


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


# ---------------------------------------------------------------- vectors

LARGEST = 1e18
SMALLEST = 1e-18
"""Beyond these, squares leave the range of float32, and a similarity would be NaN."""

UNIT = 1e-6
"""A vector whose length differs from 1 by less is stored unchanged, so that export and import preserve every bit."""


def check_vector(values: Numbers, dimension: int | None = None) -> Floats:
    """The values as a float32 unit vector, or InvalidVector. Without a `dimension`, any up to the limit."""
    import numpy as np

    row = as_row(values)
    check_dimension(row.size, dimension)
    vector = row.astype(np.float64, copy=False)
    if row.dtype == np.float32:
        square = float(vector.dot(vector))  # not too large for float64
    else:
        with np.errstate(over="ignore"):  # infinity is refused below
            square = float(vector.dot(vector))
    length = math.sqrt(square) if square >= 0 else math.nan
    if abs(length - 1.0) < UNIT:  # then no number is too large, and one is large enough
        return vector.astype(np.float32)
    check_size(float(np.abs(vector).max()))
    return (vector / length).astype(np.float32)


def check_vectors(vectors: Sequence[Numbers]) -> list[Floats]:
    """The same of several; those that are unit vectors of one dimension already are looked at together."""
    import numpy as np

    shapes = {(each.shape, each.dtype) if isinstance(each, np.ndarray) else None for each in vectors}
    shape, kind = next(iter(shapes), None) or ((), None)
    if len(shapes) != 1 or kind != np.float32 or len(shape) != 1 or not 0 < shape[0] <= limits.VECTOR_DIMENSIONS:
        return [check_vector(each) for each in vectors]
    matrix = np.concatenate(vectors).reshape(len(vectors), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.vecdot(matrix, matrix, dtype=np.float64))
    is_unit = (np.abs(lengths - 1.0) < UNIT).tolist()
    return [row if unit else check_vector(row) for row, unit in zip(matrix, is_unit, strict=True)]


def as_row(values: Numbers) -> NDArray[Any]:
    """A flat array of numbers, whatever the caller sent."""
    import numpy as np

    try:
        count = len(values)
        row = np.asarray(values) if count <= limits.VECTOR_DIMENSIONS else None
    except (ValueError, TypeError, OverflowError) as error:
        raise not_numbers() from error
    if row is None:
        raise InvalidVector(f"the embedding has {count} dimensions", f"At most {limits.VECTOR_DIMENSIONS} are taken")
    if row.ndim != 1 or (count and row.dtype.kind not in "fiu"):
        raise not_numbers()
    return row


def not_numbers() -> InvalidVector:
    return InvalidVector("an embedding is a flat list of numbers", "Send it as [0.1, -0.2, ...]")


def check_dimension(dimension: int, wanted: int | None) -> None:
    if dimension == 0:
        raise InvalidVector("the embedding is empty", "Send one number a dimension, or leave it out")
    if wanted is not None and dimension != wanted:
        raise wrong_dimension(dimension, wanted)


def wrong_dimension(dimension: int, wanted: int) -> InvalidVector:
    message = f"the embedding has {dimension} dimensions where {wanted} are expected"
    return InvalidVector(message, "Embed with the model that the namespace was built with, or leave it out")


def check_size(peak: float) -> None:
    """`peak` is the largest magnitude; NaN and infinity come through it too."""
    if not peak <= LARGEST:
        raise InvalidVector("the embedding has NaN, infinite or absurdly large numbers", "Check what made it")
    if peak < SMALLEST:
        raise InvalidVector("the embedding is all zero", "A zero vector has no direction; leave it out")
