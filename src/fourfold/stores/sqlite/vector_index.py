"""Vector search of one namespace: a published index, and the changes since as a tail in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import numpy as np

from fourfold import native
from fourfold.model import Background, Hits, Ranking
from fourfold.stores.base import Space
from fourfold.stores.sampling import in_sample
from fourfold.stores.sqlite import items
from fourfold.stores.sqlite.following import Follower
from fourfold.stores.sqlite.items import Change
from fourfold.stores.sqlite.vector_base import VectorBase, Vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.stores.sqlite.rows import Ints
    from fourfold.stores.sqlite.vector_base import Matrix

_ROUGH = 1e-5
"""More than single precision and rounding together can be wrong by."""
_FEW = 4
_SCAN_ROWS = 5000
"""So few rows pass a filter: one product with them all is the fastest way."""


@dataclass(frozen=True)
class VectorState:
    """What the namespace's vectors were at change `seq`."""

    base: VectorBase
    published: Vectors
    """The base's rows, without those that died since."""
    tail: Vectors
    seq: int

    @cached_property
    def count(self) -> int:
        return len(self.published.live) + len(self.tail.live)

    @cached_property
    def middle(self) -> NDArray[np.float64] | None:
        """The mean of some hundred vectors, chosen by their ids alone: what the query's best hits stand out from."""
        parts = [
            vectors.rows(vectors.live[in_sample(vectors.ids[vectors.live], self.count)])
            for vectors in (self.published, self.tail)
        ]
        sample = np.concatenate(parts)
        return sample.mean(axis=0, dtype=np.float64) if len(sample) else None


class VectorIndex(Follower[VectorState]):
    WHAT = Change.VECTOR
    KIND = "vectors"

    def __init__(self, folder: Path, ns: int, store: str, space: Space) -> None:
        super().__init__(ns)
        self._folder = folder
        self._store = store
        self.space = space

    def published(self) -> VectorState:
        return _untouched(VectorBase.load(self._folder, self._store, self.space))

    def _nothing(self, damage: str = "") -> VectorState:
        return _untouched(VectorBase.nothing(self.space.dimension, damage))

    def _with(self, db: apsw.Connection, state: VectorState, changed: Sequence[int], last: int) -> VectorState:
        if not changed:
            return replace(state, seq=last)
        ids = np.array(changed, np.int64)
        fresh_ids, fresh = items.vectors(db, changed, self.space.dimension)
        tail = state.tail.without(state.tail.find(ids))
        tail = Vectors(
            np.concatenate([tail.ids, fresh_ids]),
            np.concatenate([tail.dead, np.zeros(len(fresh_ids), np.bool_)]),
            np.concatenate([tail.matrix, fresh]),
        )
        return VectorState(state.base, state.published.without(state.published.find(ids)), tail, last)


def _untouched(base: VectorBase) -> VectorState:
    return VectorState(base, base.vectors, Vectors.empty(base.vectors.dimension), base.seq)


# ---------------------------------------------------------------- searching a state


def search(state: VectorState, query: Matrix, limit: int, allowed: Ints | None) -> Ranking:
    """The `limit` nearest of the allowed items (all, if None)."""
    parts = [(state.published, _candidates(state, query, limit, allowed)), (state.tail, state.tail.permitted(allowed))]
    if sum(len(rows) for _, rows in parts) > _FEW * limit:
        parts = _roughly(parts, query, limit)
    found = _scored(parts, query)
    best = native.order(found.ids, found.scores)[:limit]
    return Ranking(Hits(found.ids[best], found.scores[best]), _background(state, query))


def _scored(parts: Sequence[tuple[Vectors, Ints]], query: Matrix) -> Hits:
    if not len(parts[-1][1]):  # mostly: everything is published
        parts = parts[:-1]
    ids = [vectors.ids[rows] for vectors, rows in parts]
    cosines = [vectors.cosines(rows, query) for vectors, rows in parts]
    return Hits(ids[0], cosines[0]) if len(parts) == 1 else Hits(np.concatenate(ids), np.concatenate(cosines))


def _roughly(parts: list[tuple[Vectors, Ints]], query: Matrix, limit: int) -> list[tuple[Vectors, Ints]]:
    """Of many rows, those that single precision does not rule out."""
    near = [vectors.near(rows, query) for vectors, rows in parts]
    floor = _floor(np.concatenate(near), limit)
    return [(vectors, rows[cosines >= floor]) for (vectors, rows), cosines in zip(parts, near, strict=True)]


def _floor(near: Matrix, limit: int) -> float:
    """What a rough cosine must reach for its item to have a chance."""
    if len(near) <= limit:
        return -np.inf
    return float(-np.partition(-near, limit - 1)[limit - 1]) - _ROUGH


def score(state: VectorState, query: Matrix, ids: Sequence[int]) -> Ranking:
    """Cosines of these items, as far as they have vectors."""
    wanted = np.array(ids, np.int64)
    parts = [(vectors, vectors.find(wanted)) for vectors in (state.published, state.tail)]
    return Ranking(_scored(parts, query))


def _background(state: VectorState, query: Matrix) -> Background | None:
    return None if state.middle is None else Background(float(state.middle @ query.astype(np.float64)))


def _candidates(state: VectorState, query: Matrix, limit: int, allowed: Ints | None) -> Ints:
    """Rows of the published part worth an exact product: all of them, or what FAISS proposes."""
    vectors = state.published
    if state.base.faiss is None or (allowed is not None and len(allowed) <= _SCAN_ROWS):
        return vectors.permitted(allowed)
    everything = allowed is None and len(vectors.live) == len(vectors)
    return state.base.propose(query, limit, None if everything else vectors.mask(allowed))
