"""The built-in encoders in one vector space: German texts by the German encoder, all others by MiniLM.

Which one is a pure function of the text. The German encoder loads with the first text or query that needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from fourfold import limits
from fourfold.embed import german, minilm
from fourfold.embed.base import embed_routed
from fourfold.embed.onnx_runtime import CPU
from fourfold.text.language import german_query, is_mostly_german

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fourfold.embed.session import LocalEmbedder

    Floats: TypeAlias = NDArray[np.float32]

ENGLISH: Final = "english"
GERMAN: Final = "german"
_MINILM: Final = "minilm/all-MiniLM-L6-v2-int8@8199be6f699a395f"
_SHAPE: Final = f"mean/{limits.MODEL_TOKENS}/{minilm.DIMENSION}"
FINGERPRINT: Final = f"{_MINILM}+german@{german.MODEL_SHA256[:16]}/windows/{_SHAPE}"
WITHOUT_WINDOWS: Final = f"{_MINILM}+german@aebb4e051ac26500/{_SHAPE}"
_REVISIONS: Final = {ENGLISH: minilm.MODEL_SHA256, GERMAN: german.MODEL_SHA256}


def encoder_of(text: str) -> str:
    """The encoder of a stored text."""
    return GERMAN if is_mostly_german(text) else ENGLISH


class BilingualEmbedder:
    """The EmbeddingModel over both encoders. Safe to use from several threads at once."""

    earlier_fingerprints = (minilm.FINGERPRINT, WITHOUT_WINDOWS)
    """Fingerprints of versions that embedded German texts with MiniLM, or with an earlier German encoder."""

    truncating_fingerprints = (minilm.FINGERPRINT, WITHOUT_WINDOWS)
    """Fingerprints of versions that embedded only the beginning of a long text."""

    encoders = (ENGLISH, GERMAN)

    def __init__(self, provider: str = CPU) -> None:
        """`provider`: the execution provider of onnxruntime."""
        self._encoders: dict[str, LocalEmbedder] = {
            ENGLISH: minilm.built_in_model(provider),
            GERMAN: german.german_model(provider),
        }

    @property
    def fingerprint(self) -> str:
        return FINGERPRINT

    @property
    def dimension(self) -> int | None:
        return minilm.DIMENSION

    def load(self) -> None:
        """Loads MiniLM only."""
        self._encoders[ENGLISH].load()

    def embed(self, texts: Sequence[str]) -> Floats:
        return embed_routed(self, texts)

    def encoder_of(self, text: str) -> str:
        return encoder_of(text)

    def revision(self, encoder: str) -> str:
        return _REVISIONS[encoder]

    def embed_as(self, encoder: str, texts: Sequence[str]) -> Floats:
        return self._encoders[encoder].embed(texts)

    def query_encoders(self, text: str) -> tuple[str, ...]:
        is_german = german_query(text)
        return self.encoders if is_german is None else (GERMAN if is_german else ENGLISH,)

    def renews(self, text: str) -> bool:
        return encoder_of(text) == GERMAN

    def truncates(self, text: str) -> bool:
        return self._encoders[encoder_of(text)].truncates(text)

    def close(self) -> None:
        for encoder in self._encoders.values():
            encoder.close()
