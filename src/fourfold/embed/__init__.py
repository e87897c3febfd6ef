"""Embedders: what turns text into vectors. One file per provider, chosen by the setting `embedder`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fourfold.embed.base import EmbeddingModel
from fourfold.embed.bge import bge_model
from fourfold.embed.bilingual import BilingualEmbedder
from fourfold.embed.onnx import folder_model
from fourfold.embed.onnx_runtime import CPU
from fourfold.embed.openai import OpenAIEmbedder, OpenAISettings
from fourfold.embed.sentence_transformer import SentenceTransformerEmbedder, is_folder
from fourfold.embed.use_multilingual import UseMultilingual
from fourfold.embed.vectors import check_vector
from fourfold.errors import InvalidSetting

__all__ = ["EmbeddingModel", "OpenAISettings", "check_vector", "create", "model_folder"]

NONE: Final = "none"
NAMED: Final[Mapping[str, Callable[[OpenAISettings, str], EmbeddingModel]]] = {
    "minilm": lambda openai, provider: BilingualEmbedder(provider),
    "bge-small": lambda openai, provider: bge_model(provider),
    "use-multilingual": lambda openai, provider: UseMultilingual(),
    "openai": lambda openai, provider: OpenAIEmbedder(openai),
}
PLACED: Final[Mapping[str, Callable[[str, str], EmbeddingModel]]] = {
    "onnx:FOLDER": lambda place, provider: folder_model(Path(place), provider),
    "sentence-transformers:NAME_OR_FOLDER": lambda place, provider: SentenceTransformerEmbedder(place),
}
"""By the form of the setting: what follows the colon is the user's."""
EMBEDDERS: Final = (*NAMED, *PLACED, NONE)


def create(spec: str, *, openai: OpenAISettings, provider: str = CPU) -> EmbeddingModel | None:
    """The embedder that a setting names; None for `none`. Loads nothing yet.

    `provider`: the execution provider of models that onnxruntime runs.
    """
    if spec == NONE:
        return None
    if spec in NAMED:
        return NAMED[spec](openai, provider)
    kind, _, place = spec.partition(":")
    for form, make in PLACED.items():
        if place and form.startswith(f"{kind}:"):
            return make(place, provider)
    raise InvalidSetting(f"unknown embedder {spec!r}", f"Choose {', '.join(EMBEDDERS[:-1])} or {NONE}")


def model_folder(spec: str) -> Path | None:
    """The folder that a setting names, as it is written there."""
    kind, _, place = spec.partition(":")
    if place and (kind == "onnx" or (kind == "sentence-transformers" and is_folder(place))):
        return Path(place)
    return None
