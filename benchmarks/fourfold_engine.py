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
    client_kinds = ("threads", "processes")

    def __init__(self, folder: Path) -> None:
        self.store: str | Path = folder
        self._memory: Any = None

    def build(self, corpus: Corpus) -> None:
        """Add items and edges in batches and build all indexes."""
        self.open()
        self.add_items(corpus)
        self.add_edges(corpus)
        self.index()
        self.close()

    def index(self) -> None:
        """Build what is missing of the indexes."""
        self._memory.index()

    def tune(self, corpus: Corpus) -> str:
        """Keep the default settings."""
        return "default settings, with graph and tags"

    def add_edges(self, corpus: Corpus) -> None:
        """Add all edges in batches."""
        edges = ((edge.source, edge.relation, edge.target, edge.weight) for edge in corpus.edges())
        for batch in batches(edges, BATCH):
            self._memory.add_edges(batch)

    def add_items(self, corpus: Corpus) -> None:
        """Add all items in batches."""
        from fourfold import NewItem

        new_items = (
            NewItem(text=item.text, title=item.title, key=item.key, tags=item.tags, vector=vector)
            for item, vector in zip(corpus.items(), corpus.vectors(), strict=True)
        )
        for batch in batches(new_items, BATCH):
            self._memory.add_many(batch)

    def open(self) -> None:
        """Open the memory folder without an embedding model."""
        from fourfold import Memory

        self._memory = Memory.open(self.store, embedder="none")

    def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Search with all four signals: vector, words, graph and tags."""
        return keys(self._memory.search(text, vector=vector, top_k=TOP))

    def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        return keys(self._memory.search(text, only=("keyword",), top_k=TOP))

    def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        return keys(self._memory.search(text, vector=vector, only=("semantic",), top_k=TOP))

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()


def keys(response: Any) -> list[str]:
    """Return the keys of a response's results; an answer that lacks a signal must not count as a quick one."""
    if response.degraded:
        raise RuntimeError(f"Fourfold answered without: {response.degraded}")
    return [result.key for result in response.results]
