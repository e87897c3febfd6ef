"""The built-in model: all-MiniLM-L6-v2 with int8 multiplication, made by training/export.py. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

from fourfold import limits
from fourfold.embed.files import checked
from fourfold.embed.onnx_runtime import CPU
from fourfold.embed.session import LocalEmbedder, Recipe
from fourfold.embed.wordpiece import WordPiece

ENCODERS = Path(__file__).with_name("encoders")
MODEL_SHA256 = "e0a57ed145dad96b71c5e22805d5e9066c9c7f64dea28f64fe0f3b5546a6c991"
VOCABULARY = Path(__file__).with_name("wordpiece-vocab.txt")
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
DIMENSION = 384
FINGERPRINT = f"minilm/all-MiniLM-L6-v2-int8@8199be6f699a395f/mean/{limits.MODEL_TOKENS}/{DIMENSION}"
"""Names the space, not the file: vectors of older versions, which multiplied in float, remain valid. The cosine of the
vectors of both for one text is 0.998 and more; that of two texts with nearly the same words is lower."""

REMEDY = "Run `pip install --force-reinstall fourfold`"


def built_in_model(provider: str = CPU) -> LocalEmbedder:
    return LocalEmbedder(lambda: FINGERPRINT, recipe, DIMENSION, provider)


def recipe() -> Recipe:
    model = checked(model_file(), MODEL_SHA256, REMEDY)
    vocabulary = checked(VOCABULARY, VOCABULARY_SHA256, REMEDY)
    return Recipe(model, WordPiece(vocabulary, limits.MODEL_TOKENS), limits.MODEL_TOKENS, "mean")


def model_file() -> Path:
    return ENCODERS / "english.onnx"
