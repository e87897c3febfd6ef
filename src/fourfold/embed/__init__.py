"""Embedders: what turns text into vectors. One file per provider, chosen by the setting `embedder`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fourfold.embed.base import EmbeddingModel, check_vector
from fourfold.embed.builtin import built_in_model
from fourfold.embed.endpoint import OpenAIEmbedder, OpenAISettings
from fourfold.embed.onnx import folder_model
from fourfold.embed.sentence_transformer import is_folder, named_model
from fourfold.embed.session import CPU
from fourfold.errors import InvalidSetting

__all__ = ["EmbeddingModel", "OpenAISettings", "check_vector", "create", "model_folder"]

NONE: Final = "none"
NAMED: Final[Mapping[str, Callable[[OpenAISettings, str], EmbeddingModel]]] = {
    "builtin": lambda openai, provider: built_in_model(provider),
    "openai": lambda openai, provider: OpenAIEmbedder(openai),
}
PLACED: Final[Mapping[str, Callable[[str, str], EmbeddingModel]]] = {
    "onnx:FOLDER": lambda place, provider: folder_model(Path(place), provider),
    "sentence-transformers:NAME_OR_FOLDER": lambda place, provider: named_model(place),
}
"""By the form of the setting: what follows the colon is the user's."""
EMBEDDERS: Final = (*NAMED, *PLACED, NONE)
RENAMED: Final = {"minilm": "builtin"}
REMOVED: Final = ("bge-small", "use-multilingual")


def create(spec: str, *, openai: OpenAISettings, provider: str = CPU) -> EmbeddingModel | None:
    """The embedder that a setting names; None for `none`. Loads nothing yet.

    `provider`: the execution provider of models that onnxruntime runs.
    """
    if spec == NONE:
        return None
    if (name := RENAMED.get(spec, spec)) in NAMED:
        return NAMED[name](openai, provider)
    if spec in REMOVED:
        remedy = "Set embedder to builtin, then renew all vectors: fourfold reembed"
        raise InvalidSetting(f"the embedder {spec} was removed", remedy)
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
