"""Search for the memory of AI agents and for RAG: vectors, BM25, a graph and tags in one explained ranking.

What is listed in `__all__` is the public interface. Names are imported when they are first used, so `import fourfold`
loads no model, no index and no numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fourfold.aio import AsyncMemory
    from fourfold.client import RemoteMemory, connect
    from fourfold.config import Settings
    from fourfold.embed.base import BaseEmbedder, Embedder
    from fourfold.engine.pipeline import HybridSearch
    from fourfold.engine.search import Why
    from fourfold.errors import FourfoldError
    from fourfold.hits import Hit
    from fourfold.memory import Memory
    from fourfold.model import (
        Edge,
        Filters,
        Item,
        ItemPatch,
        MetadataTest,
        Neighbor,
        NewItem,
        Node,
        Page,
        Proposal,
        RawRecord,
    )
    from fourfold.retrieval import Explanation, Plan, Query, Ranking, Result, Retriever, SearchResponse

__version__ = "1.0.0rc1"

_PUBLIC = {
    "aio": "AsyncMemory", "client": "RemoteMemory connect", "config": "Settings", "embed.base": "BaseEmbedder Embedder",
    "engine.pipeline": "HybridSearch", "engine.search": "Why", "errors": "FourfoldError", "hits": "Hit",
    "memory": "Memory",
    "model": "Edge Filters Item ItemPatch MetadataTest Neighbor NewItem Node Page Proposal RawRecord",
    "retrieval": "Explanation Plan Query Ranking Result Retriever SearchResponse",
}  # fmt: skip
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = [
    "AsyncMemory", "BaseEmbedder", "Edge", "Embedder", "Explanation", "Filters", "FourfoldError", "Hit", "HybridSearch",
    "Item", "ItemPatch", "Memory", "MetadataTest", "Neighbor", "NewItem", "Node", "Page", "Plan", "Proposal", "Query",
    "Ranking", "RawRecord", "RemoteMemory", "Result", "Retriever", "SearchResponse", "Settings", "Why", "connect",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fourfold' has no attribute {name!r}")
    return getattr(import_module(f"fourfold.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
