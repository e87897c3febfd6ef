"""Rerankers: models that read the query and a text together, chosen by the option `rerank`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fourfold.embed.session import CPU
from fourfold.errors import InvalidQuery
from fourfold.ranking.plan import BUILT_IN, ENDPOINT, FOLDER_PREFIX, RERANKERS_REMEDY
from fourfold.rerank.base import Budget, Reranker

__all__ = ["Budget", "RerankSettings", "Reranker", "create"]


@dataclass(frozen=True, slots=True)
class RerankSettings:
    base_url: str = field(default="", repr=False)
    """Of an endpoint in the format of Cohere and Jina; `/rerank` is added to it."""
    api_key: str = field(default="", repr=False)
    model: str = ""
    languages: tuple[str, ...] = ()
    """That the model knows; empty: what the provider says."""
    onnx_provider: str = CPU


def create(name: str, settings: RerankSettings) -> Reranker:
    """The reranker of a name. Loads nothing yet."""
    languages = frozenset(settings.languages) or None
    if name == BUILT_IN:
        from fourfold.rerank.onnx import built_in_model

        return built_in_model(settings.onnx_provider)
    if name == ENDPOINT:
        from fourfold.rerank.endpoint import EndpointReranker

        return EndpointReranker(settings.base_url, settings.api_key, settings.model, languages)
    if name.startswith(FOLDER_PREFIX):
        from fourfold.rerank.onnx import folder_model

        return folder_model(Path(name.removeprefix(FOLDER_PREFIX)), languages, settings.onnx_provider)
    raise InvalidQuery(f"unknown reranker {name!r}", RERANKERS_REMEDY)
