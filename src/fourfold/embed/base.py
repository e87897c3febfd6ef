"""What the engine asks of an embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into unit vectors of one space.

    `embed` may block (it runs in a worker thread) and may be called from several threads. It returns one row a text,
    float32, L2-normalised, finite; anything else the provider sends is an EmbedderUnavailable. It loads its model on
    first use.
    """

    @property
    def fingerprint(self) -> str:
        """Provider, model, revision, dimension and prefix: equal fingerprints mean one vector space (B8).

        Known without loading; a local model whose file cannot be read raises EmbedderUnavailable.
        """
        ...

    @property
    def dimension(self) -> int | None:
        """None while unknown (an endpoint that has not answered yet)."""
        ...

    def load(self) -> None:
        """Gets ready; idempotent. Raises EmbedderUnavailable with the remedy."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...

    def truncates(self, text: str) -> bool:
        """Whether the model reads only the beginning of this text."""
        ...

    def close(self) -> None: ...


def readable(text: str, characters: int) -> str:
    """The beginning of a text; lone surrogates, which no tokenizer and no endpoint takes, become question marks."""
    return text[:characters].encode("utf-8", "replace").decode("utf-8")
