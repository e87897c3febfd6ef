"""The German encoder, in the vector space of the built-in model; training/README.md describes its training."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from fourfold import limits
from fourfold.embed.files import checked
from fourfold.embed.minilm import DIMENSION, ENCODERS, REMEDY
from fourfold.embed.onnx_runtime import CPU
from fourfold.embed.session import LocalEmbedder, Recipe
from fourfold.embed.wordpiece import WordPiece

MODEL_SHA256 = "bcf1b381c8318dd93b9c4ce251196c55e910d64df88c522b0f4e7256e98701b7"
VOCABULARY = ENCODERS / "german-vocab.txt"
VOCABULARY_SHA256 = "46c4466a83bbd398a71f25b05a370138a3c9ad52bc8309042b7e7adfe291132e"
FINGERPRINT = f"german/{MODEL_SHA256[:16]}/mean/{limits.MODEL_TOKENS}/{DIMENSION}"

_FOLDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "SS"})


def fold(text: str) -> str:
    """Writes umlauts with two letters, because the tokenizer would remove their dots ("schon", "schön")."""
    return unicodedata.normalize("NFC", text).translate(_FOLDED)


class GermanWordPiece:
    """The tokenizer of the German encoder. Safe to use from several threads at once."""

    def __init__(self, vocabulary: bytes, max_tokens: int) -> None:
        self._pieces = WordPiece(vocabulary, max_tokens)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self._pieces.encode([fold(text) for text in texts])

    def truncates(self, text: str) -> bool:
        return self._pieces.truncates(fold(text))


def german_model(provider: str = CPU) -> LocalEmbedder:
    return LocalEmbedder(lambda: FINGERPRINT, recipe, DIMENSION, provider)


def recipe() -> Recipe:
    model = checked(model_file(), MODEL_SHA256, REMEDY)
    vocabulary = checked(VOCABULARY, VOCABULARY_SHA256, REMEDY)
    return Recipe(model, GermanWordPiece(vocabulary, limits.MODEL_TOKENS), limits.MODEL_TOKENS, "mean")


def model_file() -> Path:
    return ENCODERS / "german.onnx"
