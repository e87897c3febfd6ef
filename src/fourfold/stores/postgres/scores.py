"""BM25 of rows as the server sends them, by the same code and to the same digits as in the embedded store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fourfold import native
from fourfold.model import Hit, Ranking
from fourfold.stores.keyword_query import KeywordQuery
from fourfold.stores.postgres.packed import Packed, packed
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Statement, array, possible
from fourfold.stores.sqlite import scoring
from fourfold.stores.sqlite.scoring import Documents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scored:
    ids: Ints
    scores: Floats
    coverage: Floats

    def without(self, others: Scored) -> Scored:
        if not len(others.ids):
            return self
        rest = ~np.isin(self.ids, others.ids)
        return Scored(self.ids[rest], self.scores[rest], self.coverage[rest])

    def once(self) -> Scored:
        """Each item once."""
        ids, first = np.unique(self.ids, return_index=True)
        return Scored(ids, self.scores[first], self.coverage[first])

    def best(self, limit: int) -> Ranking:
        order = native.order(self.ids, self.scores)[:limit]
        order = order[self.scores[order] > 0]
        found = self.ids[order].tolist()
        return Ranking(
            hits=tuple(map(Hit, found, self.scores[order].tolist())),
            evidence=dict(zip(found, self.coverage[order].tolist(), strict=True)),
        )


NOTHING = Scored(np.empty(0, np.int64), np.empty(0), np.empty(0))


def joined(parts: Sequence[Scored]) -> Scored:
    ids, scores, coverage = zip(*((part.ids, part.scores, part.coverage) for part in parts), strict=True)
    return Scored(np.concatenate(ids), np.concatenate(scores), np.concatenate(coverage))


def score(ns: Namespace, query: KeywordQuery, found: Packed) -> Scored:
    """`found`: items with their hashes."""
    ids, terms = found.first, np.frombuffer(found.content, np.uint32)
    documents = Documents(ids, np.zeros(len(ids), np.bool_), np.cumsum(found.lengths // 4), terms)
    scored = scoring.score(documents, documents.live, scoring.sought(query), ns.average_length)
    return Scored(ids, scored.scores, scored.coverage)


def match_scores(ns: Namespace, query: KeywordQuery, items: Packed) -> Ranking:
    """BM25 and coverage of these items, whoever found them; zeros where no word matches."""
    scored = score(ns, query, items)
    found = scored.ids.tolist()
    return Ranking(
        tuple(map(Hit, found, scored.scores.tolist())),
        evidence=dict(zip(found, scored.coverage.tolist(), strict=True)),
        unknown=query.unknown_share,
        items=query.documents,
    )


def of_items(ns: Namespace, ids: Sequence[int]) -> Statement:
    sql = "SELECT item, hashes FROM texts WHERE ns = %s AND item = ANY(%s::bigint[])"
    return packed((sql, ns.id, array(possible(ids))), "hashes")


def kth(scores: Floats, limit: int) -> float:
    """What a row needs to be among the best."""
    return float(-np.partition(-scores, limit - 1)[limit - 1]) if len(scores) >= limit else -np.inf
