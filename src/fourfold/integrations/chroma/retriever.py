"""Vector search in Chroma, as a retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import limits
from fourfold.integrations.chroma.collection import Collection, ask, chunks, is_cosine
from fourfold.integrations.chroma.mirror import Mirror
from fourfold.model import NO_FILTERS, Filters
from fourfold.retrieval import Hit, Query, Ranking

if TYPE_CHECKING:
    from fourfold.model import Vector

_SEEN = ["documents", "metadatas"]


class ChromaRetriever:
    """Ranks the chunks of a collection by cosine. Its items are those of the mirror, whose store holds their text."""

    name = "semantic"

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._collection: Collection = mirror.collection
        self._by_distance: bool | None = None

    def search(self, query: Query, limit: int) -> Ranking:
        if query.vector is None:
            return Ranking()
        allowed = self._allowed(query.filters)
        if allowed is not None and not allowed:
            return Ranking()
        found = ask(limits.RETRIEVER_SECONDS, self._ask, query.vector, limit, allowed)
        items = self._mirror.items(chunks(found))
        scores = self._scores(found, query.vector)
        hits = [Hit(items[id], score) for id, score in zip(found["ids"], scores, strict=True) if id in items]
        return Ranking(tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id))))

    def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        keys = {key: item for item in ids if (key := self._mirror.key(item)) is not None}
        if query.vector is None or not keys:
            return Ranking()
        found = ask(limits.RETRIEVER_SECONDS, self._collection.get, ids=list(keys), include=["embeddings"])
        scores = _cosines(found["embeddings"], query.vector) if found["ids"] else []
        return Ranking(tuple(Hit(keys[id], score) for id, score in zip(found["ids"], scores, strict=True)))

    def _allowed(self, filters: Filters) -> list[str] | None:
        """The ids that pass; None if all do."""
        if filters == NO_FILTERS:
            return None
        with self._mirror.store.snapshot(self._mirror.namespace) as snapshot:
            passing = snapshot.rows.ids(filters)
        keys = [key for item in passing if (key := self._mirror.key(item)) is not None]
        return None if len(keys) == len(self._mirror) else keys

    def _ask(self, vector: Vector, limit: int, allowed: list[str] | None) -> Mapping[str, Any]:
        if self._by_distance is None:
            self._by_distance = is_cosine(self._collection)
        wanted = [*_SEEN, "distances" if self._by_distance else "embeddings"]
        found = self._collection.query([vector.tolist()], ids=allowed, n_results=limit, include=wanted)
        return {name: rows[0] for name, rows in found.items() if name in ("ids", *wanted) and rows is not None}

    def _scores(self, found: Mapping[str, Any], vector: Vector) -> list[float]:
        if not found["ids"]:
            return []
        if self._by_distance:
            return [round(1 - distance, 6) for distance in found["distances"]]
        return _cosines(found["embeddings"], vector)


def _cosines(embeddings: Any, vector: Vector) -> list[float]:
    matrix = np.asarray(embeddings, np.float64)
    lengths = np.linalg.norm(matrix, axis=1) * float(np.linalg.norm(vector))
    return [round(float(cosine), 6) for cosine in matrix @ vector / np.where(lengths > 0, lengths, 1)]
