"""Cosines with every vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.embed.vectors import check_dimension
from fourfold.model import Background, Filters, Hit, Ranking
from fourfold.stores.memory.filters import passes
from fourfold.stores.memory.state import Namespace
from fourfold.stores.sampling import in_sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.model import Vector


def nearest(ns: Namespace, vector: Vector, limit: int, filters: Filters) -> Ranking:
    if ns.space is not None:
        check_dimension(len(vector), ns.space.dimension)
    allowed = [id for id, stored in ns.items.items() if passes(stored.item, filters)]
    found = similarities(ns, vector, allowed).hits
    hits = sorted(found, key=lambda hit: (-hit.score, hit.id))[:limit]
    return Ranking(tuple(hits), _background(ns, vector), pending(ns))


def similarities(ns: Namespace, vector: Vector, ids: Sequence[int]) -> Ranking:
    """Rounded, so that equal vectors tie whatever order the products were summed in."""
    known = [id for id in ids if id in ns.items and ns.items[id].vector is not None]
    cosines = np.round(_cosines(ns, known, vector), 6).tolist()
    return Ranking(tuple(map(Hit, known, cosines)))


def pending(ns: Namespace) -> int:
    return sum(stored.vector is None for stored in ns.items.values())


def _cosines(ns: Namespace, ids: Sequence[int], vector: Vector) -> NDArray[np.float64]:
    query = np.asarray(vector, np.float64)
    found = [np.asarray(ns.items[id].vector, np.float64) @ query for id in ids]
    return np.array(found, np.float64)


def _background(ns: Namespace, vector: Vector) -> Background | None:
    """What the best hits stand out from: the cosines of a sample that every store chooses alike."""
    ids = [id for id, stored in ns.items.items() if stored.vector is not None]
    chosen = np.array(ids, np.int64)[in_sample(np.array(ids, np.int64), len(ids))].tolist()
    if not chosen:
        return None
    return Background(float(_cosines(ns, chosen, vector).mean()))
