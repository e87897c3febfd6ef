"""Qdrant Edge: Qdrant's engine inside this process, with its own BM25 and its own hybrid query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corpus import DIMENSIONS, PASSAGE_WORDS, Corpus, Item
from engine import BATCH, DEPTH, RANK_CONSTANT, TOP, Engine, Vector, batches, tuned

EF_LADDER = (200, 256, 384, 512, 800)
WORDS = "words"
MEANING = "meaning"


class QdrantEngine(Engine):
    """HNSW over the vectors, a sparse index with idf over the words, both in memory, fused by Qdrant's own RRF."""

    label = "Qdrant Edge"
    packages = ("qdrant-edge-py",)
    client_kinds = ("threads",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shard: Any = None
        self._embedder: Any = None
        self._ef = EF_LADDER[0]

    def build(self, corpus: Corpus) -> None:
        """Store points with both kinds of vector, and let the optimizer index them."""
        from qdrant_edge import EdgeShard, UpdateOperation

        self._embedder = word_embedder()
        self._shard = EdgeShard.create(str(self._folder), shard_config())
        rows = zip(range(corpus.item_count), corpus.items(), corpus.vectors(), strict=True)
        for batch in batches(rows, BATCH):
            points = [self._point(number, item, vector) for number, item, vector in batch]
            self._shard.update(UpdateOperation.upsert_points(points))
        self._shard.optimize()
        self._shard.flush()
        self.close()

    def _point(self, number: int, item: Item, vector: Vector) -> Any:
        from qdrant_edge import Point

        words = self._embedder.embed_document(f"{item.title}\n{item.text}")
        payload = {"key": item.key, "title": item.title, "text": item.text, "tags": list(item.tags)}
        return Point(number, {MEANING: vector.tolist(), WORDS: words}, payload)

    def tune(self, corpus: Corpus) -> str:
        """Raise ef until the recall is high enough."""
        self.open()

        def search(ef: int, vector: Vector) -> list[str]:
            self._ef = ef
            return self.vector("", vector)

        self._ef, recall = tuned(corpus, EF_LADDER, search)
        self._note().write_text(json.dumps(self._ef), encoding="utf-8")
        self.close()
        return (
            f"HNSW dot m=16 ef_construct=100 ef={self._ef}, recall {recall:.3f} when tuned; BM25 sparse with idf; RRF"
        )

    def _note(self) -> Path:
        return self._folder.with_suffix(".ef")

    def open(self) -> None:
        """Load the shard with the tuned setting."""
        from qdrant_edge import EdgeShard

        self._embedder = word_embedder()
        self._shard = EdgeShard.load(str(self._folder))
        if self._note().exists():
            self._ef = json.loads(self._note().read_text(encoding="utf-8"))

    def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Run Qdrant's own hybrid query."""
        from qdrant_edge import Fusion, Prefetch, QueryRequest

        wishes = [self._near(vector), self._like(text)]
        prefetches = [Prefetch(limit=DEPTH, **wish) for wish in wishes]
        request = QueryRequest(
            limit=TOP, prefetches=prefetches, query=Fusion.Rrf(k=RANK_CONSTANT + 1), with_payload=True
        )
        return [point.payload["key"] for point in self._shard.query(request)]

    def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        return self._best(self._like(text))

    def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        return self._best(self._near(vector))

    def close(self) -> None:
        """Close the shard."""
        self._shard.close()

    def _near(self, vector: Vector) -> dict[str, Any]:
        from qdrant_edge import Query, SearchParams

        return {"query": Query.Nearest(vector.tolist(), using=MEANING), "params": SearchParams(hnsw_ef=self._ef)}

    def _like(self, text: str) -> dict[str, Any]:
        from qdrant_edge import Query

        return {"query": Query.Nearest(self._embedder.embed_query(text), using=WORDS)}

    def _best(self, wish: dict[str, Any]) -> list[str]:
        """Rank as deep as the others do, then read the whole best ten."""
        from qdrant_edge import QueryRequest

        numbers = [point.id for point in self._shard.query(QueryRequest(limit=DEPTH, **wish))[:TOP]]
        rows = {row.id: row for row in self._shard.retrieve(numbers, True, False)}
        return [rows[number].payload["key"] for number in numbers]


def shard_config() -> Any:
    """Qdrant's defaults for what is kept in memory."""
    from qdrant_edge import (
        Distance,
        EdgeConfig,
        EdgeSparseVectorParams,
        EdgeVectorParams,
        HnswIndexConfig,
        Modifier,
    )

    return EdgeConfig(
        vectors={MEANING: EdgeVectorParams(size=DIMENSIONS, distance=Distance.Dot)},
        sparse_vectors={WORDS: EdgeSparseVectorParams(modifier=Modifier.Idf)},
        hnsw_config=HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=10_000),
    )


def word_embedder() -> Any:
    """Qdrant's BM25 with English stop words and stems, told how long the passages are."""
    from qdrant_edge import Bm25, Bm25Config

    return Bm25(Bm25Config(language="english", avg_len=float(PASSAGE_WORDS)))
