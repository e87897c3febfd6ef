"""Embedders: what turns text into vectors. One file per provider, chosen by the setting `embedder`."""

from __future__ import annotations

from pathlib import Path

from fourfold.embed.base import EmbeddingModel
from fourfold.embed.bilingual import BilingualEmbedder
from fourfold.embed.onnx import folder_model
from fourfold.embed.openai import OpenAIEmbedder, OpenAISettings
from fourfold.embed.vectors import check_vector
from fourfold.errors import InvalidSetting

__all__ = ["EmbeddingModel", "OpenAISettings", "check_vector", "create"]


def create(spec: str, *, openai: OpenAISettings) -> EmbeddingModel | None:
    """The embedder that a setting names; None for `none`. Loads nothing yet."""
    provider, _, folder = spec.partition(":")
    if provider == "onnx" and folder:
        return folder_model(Path(folder))
    if spec == "minilm":
        return BilingualEmbedder()
    if spec == "openai":
        return OpenAIEmbedder(openai)
    if spec == "none":
        return None
    raise InvalidSetting(f"there is no embedder {spec!r}", "Choose minilm, openai, none or onnx:FOLDER")
