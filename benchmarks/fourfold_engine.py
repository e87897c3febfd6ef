"""Fourfold in the comparison: the only place here that knows its interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpus import Corpus
from engine import BATCH, TOP, Engine, Vector, batches


class FourfoldEngine(Engine):
    """Fourfold with vectors that are given, so that no engine spends time on embedding."""

    label = "Fourfold"
    packages = ("fourfold",)
    client_kinds = ("tasks", "processes")

    def __init__(self, folder: Path) -> None:
        self.store: str | Path = folder
        self._memory: Any = None

    async def build(self, corpus: Corpus) -> None:
        """Add items and edges in batches and build all indexes."""
        await self.open()
        await self._add_items(corpus)
        edges = ((edge.source, edge.relation, edge.target, edge.weight) for edge in corpus.edges())
        for batch in batches(edges, BATCH):
            await self._memory.add_edges(batch)
        await self._memory.index()
        await self.close()

    async def tune(self, corpus: Corpus) -> str:
        """Keep the default settings."""
        return "default settings, with graph and tags"

    async def _add_items(self, corpus: Corpus) -> None:
        from fourfold import NewItem

        new_items = (
            NewItem(text=item.text, title=item.title, key=item.key, tags=item.tags, vector=vector)
            for item, vector in zip(corpus.items(), corpus.vectors(), strict=True)
        )
        for batch in batches(new_items, BATCH):
            await self._memory.add_many(batch)

    async def open(self) -> None:
        """Open the memory folder without an embedding model."""
        from fourfold import Memory

        self._memory = await Memory.open(self.store, embedder="none")

    async def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Search with all four signals: vector, words, graph and tags."""
        return keys(await self._memory.search(text, vector=vector, top_k=TOP))

    async def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        return keys(await self._memory.search(text, only=("keyword",), top_k=TOP))

    async def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        return keys(await self._memory.search(text, vector=vector, only=("semantic",), top_k=TOP))

    async def close(self) -> None:
        """Close the memory."""
        await self._memory.close()


def keys(response: Any) -> list[str]:
    """Return the keys of a response's results; an answer that lacks a signal must not count as a quick one."""
    if response.degraded:
        raise RuntimeError(f"Fourfold answered without: {response.degraded}")
    return [result.key for result in response.results]
