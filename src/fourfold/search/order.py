"""The order of every ranking: best first, ties by id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fourfold import native
from fourfold.model import Hits

if TYPE_CHECKING:
    from fourfold.model import Floats, Ints

_DECIMALS = 9
"""Of scores that are sums: so their order does not depend on that of the addends."""


def in_order(hits: Hits) -> Hits:
    places = native.order(hits.ids, hits.scores)
    return Hits(hits.ids[places], hits.scores[places])


def ranks(scores: Floats) -> Ints:
    """The ranks of a list, best first, from 1: equal neighbours share the best rank of their group (C1)."""
    places = np.arange(1, len(scores) + 1)
    places[1:][scores[1:] == scores[:-1]] = 1
    return np.maximum.accumulate(places)


def ranked(scores: Mapping[int, float], limit: int) -> Hits:
    """The best of these, rounded."""
    ids = np.fromiter(scores, np.int64, len(scores))
    values = np.fromiter(scores.values(), np.float64, len(scores))
    return in_order(Hits(ids, np.round(values, _DECIMALS)))[:limit]


def with_recency(ranked: Hits, factors: Mapping[int, float]) -> Hits:
    """The ranking with each score times its factor (1 where there is none), in its new order."""
    return in_order(Hits(ranked.ids, ranked.scores * [factors.get(id, 1.0) for id in ranked.ids.tolist()]))
