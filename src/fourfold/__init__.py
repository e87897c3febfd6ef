"""Search for the memory of AI agents and for RAG: vectors, BM25, a graph and tags in one explained ranking.

What is listed in `__all__` is the public interface. Names are imported when they are first used, so `import fourfold`
loads no model, no index and no numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fourfold.config import Settings
    from fourfold.embed.base import BaseEmbedder, Embedder
    from fourfold.errors import FourfoldError
    from fourfold.memory import Memory
    from fourfold.model import (
        Edge,
        Explanation,
        Filters,
        Hit,
        Item,
        ItemPatch,
        MetadataTest,
        Neighbor,
        NewItem,
        Node,
        Page,
        Plan,
        Query,
        Ranking,
        RawRecord,
        Result,
        Retriever,
        SearchResponse,
    )
    from fourfold.search.pipeline import HybridSearch
    from fourfold.searching import Why
    from fourfold.sync import SyncMemory

__version__ = "0.1.0"

_HOMES = {
    "BaseEmbedder": "embed.base",
    "Edge": "model",
    "Embedder": "embed.base",
    "Explanation": "model",
    "Filters": "model",
    "FourfoldError": "errors",
    "Hit": "model",
    "HybridSearch": "search.pipeline",
    "Item": "model",
    "ItemPatch": "model",
    "Memory": "memory",
    "MetadataTest": "model",
    "Neighbor": "model",
    "NewItem": "model",
    "Node": "model",
    "Page": "model",
    "Plan": "model",
    "Query": "model",
    "Ranking": "model",
    "RawRecord": "model",
    "Result": "model",
    "Retriever": "model",
    "SearchResponse": "model",
    "Settings": "config",
    "SyncMemory": "sync",
    "Why": "searching",
}

__all__ = [
    "BaseEmbedder",
    "Edge",
    "Embedder",
    "Explanation",
    "Filters",
    "FourfoldError",
    "Hit",
    "HybridSearch",
    "Item",
    "ItemPatch",
    "Memory",
    "MetadataTest",
    "Neighbor",
    "NewItem",
    "Node",
    "Page",
    "Plan",
    "Query",
    "Ranking",
    "RawRecord",
    "Result",
    "Retriever",
    "SearchResponse",
    "Settings",
    "SyncMemory",
    "Why",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fourfold' has no attribute {name!r}")
    return getattr(import_module(f"fourfold.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
