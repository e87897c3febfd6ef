"""Vector search of one namespace: a published segment, and the changes since as a tail in memory.

The segment is a column of unit vectors, and above some size FAISS over the same rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.bounded import open_regular
from fourfold.index import segment_files
from fourfold.index.locks import ReadLock
from fourfold.index.log_tail import DEFAULT, Change, IndexTuning, Source, SourceSnapshot, TailedIndex
from fourfold.index.rows import NONE, Rows, VectorScorer, in_sample
from fourfold.index.segment_files import Damaged, Manifest
from fourfold.model import Space
from fourfold.native import bindings
from fourfold.native.bindings import MAX_DIMENSION, Codes, Nearest, OutOfRange, encoded
from fourfold.retrieval import Background, Hits, Ranking

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.index.rows import Flags, Ints, Matrix

    Sums = NDArray[np.uint32]


# ---------------------------------------------------------------- rows with vectors
#
# Rows with their unit vectors, mapped from a file or in memory, and verified as they are read.


@dataclass(frozen=True)
class Vectors(Rows):
    """Rows with their unit vectors. The windows of a long item are adjacent rows, which live and die together."""

    matrix: Matrix
    sums: Sums | None = None
    """Checksums of the rows, if the matrix is mapped."""
    coded: RowCodes | None = None
    """For published rows without FAISS: their codes, shared by all states with the same rows."""

    @staticmethod
    def empty(dimension: int) -> Vectors:
        return Vectors(NONE, np.empty(0, np.bool_), np.empty((0, dimension), np.float32))

    @property
    def dimension(self) -> int:
        return self.matrix.shape[1]

    @cached_property
    def columns(self) -> bindings.VectorColumns:
        return bindings.VectorColumns(self.matrix, self.sums)

    @cached_property
    def firsts(self) -> Ints | None:
        """The row of the first window of each row's item; None if no live item has several."""
        same = (self.ids[1:] == self.ids[:-1]) & self.alive[1:] & self.alive[:-1]
        if not same.any():
            return None
        numbers = np.arange(len(self.ids))
        numbers[1:][same] = 0
        return np.maximum.accumulate(numbers)

    @cached_property
    def heads(self) -> Ints:
        """The live rows that are the first, or the only one, of their items."""
        return self.live if self.firsts is None else self.live[self.firsts[self.live] == self.live]

    def find(self, ids: Ints) -> Ints:
        last = super().find(ids)
        if self.firsts is None:
            return last
        counts = last - self.firsts[last] + 1
        ends = np.cumsum(counts)
        return np.repeat(last + 1 - ends, counts) + np.arange(ends[-1] if len(ends) else 0)

    def rows(self, rows: Ints) -> Matrix:
        """The vectors of these rows. Raises Damaged if their checksums are wrong."""
        vectors = self.matrix if rows is self.live and len(rows) == len(self) else self.matrix[rows]
        if self.sums is not None and not np.array_equal(sums(vectors), self.sums[rows]):
            raise Damaged("vectors have a wrong checksum")
        return vectors

    def codes(self) -> Codes | None:
        """Codes of all rows, if they are worth it."""
        return None if self.coded is None else self.coded.codes(self.matrix, self.sums)


def sums(matrix: Matrix) -> Sums:
    """The checksum of each row."""
    return np.ascontiguousarray(matrix).view(np.uint32).sum(axis=1, dtype=np.uint32)


# ---------------------------------------------------------------- codes


class RowCodes:
    """Codes of all rows of one matrix. Concurrent searches may make them twice, with the same result."""

    def __init__(self, after_scans: int) -> None:
        self._scans_left = after_scans
        self._codes: Codes | None = None

    def codes(self, matrix: Matrix, own_sums: Sums | None) -> Codes | None:
        """None for the first scans. Raises Damaged if the matrix was modified since it was opened."""
        if self._codes is None and matrix.shape[1] <= MAX_DIMENSION:
            self._scans_left -= 1
            if self._scans_left < 0:
                made = _encoded(matrix)
                if own_sums is not None and not np.array_equal(sums(matrix), own_sums):  # after the matrix was read
                    raise Damaged("vectors have a wrong checksum")
                self._codes = made
        return self._codes


def _encoded(matrix: Matrix) -> Codes | None:
    """None if a number is not finite, or too small to be divided by."""
    try:
        return encoded(matrix)
    except OutOfRange:
        return None


_DENSE_SHARE = 0.05
"""A filter that passes a smaller share needs every FAISS list: with a fixed number of lists recall falls to 0.67."""
_MORE_ROWS = 4
"""If the nearest rows belong to too few items, this many times as many are read."""


@dataclass(frozen=True)
class VectorSegment:
    """Immutable. A newer publication is a new object."""

    vectors: Vectors
    seq: int
    manifest: Manifest | None = None
    faiss: Any = None
    """A FAISS index over the first rows, or None."""
    lock: ReadLock | None = None
    damage: str = ""
    """Why the published files cannot be used; the segment is then empty."""

    @staticmethod
    def empty(dimension: int, damage: str = "") -> VectorSegment:
        return VectorSegment(Vectors.empty(dimension), 0, damage=damage)

    @staticmethod
    def load(folder: Path, store: str, space: Space, tuning: IndexTuning = DEFAULT) -> VectorSegment:
        """Opens and verifies the published files. Without usable ones the segment is empty."""

        def opening(generation: Path, manifest: Manifest) -> VectorSegment:
            return _opened(generation, manifest, space.dimension, tuning)

        try:
            return segment_files.load(folder, store, space.fingerprint, opening) or VectorSegment.empty(space.dimension)
        except Damaged as error:
            return VectorSegment.empty(space.dimension, str(error))

    @property
    def covered(self) -> int:
        """Number of rows that FAISS holds: always the first ones."""
        return 0 if self.faiss is None else self.faiss.ntotal

    def propose(self, query: Matrix, count: int, wanted: Flags | None) -> Ints:
        """The wanted rows (all, if None) that FAISS ranks best, and all wanted rows that it lacks."""
        covered, passing = self.covered, None if wanted is None else wanted[: self.covered]
        number = covered if passing is None else int(np.count_nonzero(passing))
        lists = probes(self.faiss.nlist) if number >= _DENSE_SHARE * covered else self.faiss.nlist
        proposed = self._ask_faiss(query, count, lists, passing)
        if len(proposed) < min(count, number):  # the nearest lists hold too few rows
            proposed = self._ask_faiss(query, count, self.faiss.nlist, passing)
        if covered == len(self.vectors):
            return proposed
        later = np.arange(covered, len(self.vectors)) if wanted is None else np.flatnonzero(wanted[covered:]) + covered
        return np.concatenate([proposed, later])

    def _ask_faiss(self, query: Matrix, count: int, lists: int, passing: Flags | None) -> Ints:
        proposed = self.faiss.search(query[None, :], count, params=search_parameters(lists, passing))[1][0]
        return proposed if proposed[-1] >= 0 else proposed[proposed >= 0]


def _opened(folder: Path, manifest: Manifest, dimension: int, tuning: IndexTuning) -> VectorSegment:
    lock = ReadLock(folder)
    vectors = columns(folder, manifest, dimension)
    if "faiss" not in manifest.parts:
        segment_files.verify(folder / "vectors", manifest.parts["vectors"])
        vectors = replace(vectors, coded=RowCodes(tuning.coded_after_scans))
        return VectorSegment(vectors, manifest.seq, manifest, lock=lock)
    content = segment_files.read(folder / "faiss", manifest.parts["faiss"])
    index = import_faiss().deserialize_index(np.frombuffer(content, np.uint8))
    return VectorSegment(vectors, manifest.seq, manifest, index, lock)


def columns(folder: Path, manifest: Manifest, dimension: int) -> Vectors:
    """The columns of a generation: vectors are mapped, and verified row by row as they are read; others in memory."""
    segment_files.require(manifest, "ids", "dead", "vectors", "sums")
    if not manifest.rows:
        return Vectors.empty(dimension)
    ids = _column(folder, manifest, "ids", np.int64)
    dead = _column(folder, manifest, "dead", np.bool_)
    sums = _column(folder, manifest, "sums", np.uint32)
    with open_regular(folder / "vectors") as file:
        matrix = np.memmap(file, np.float32, "r", shape=(manifest.rows, dimension))
    return Vectors(ids, dead, np.asarray(matrix), sums)


def _column(folder: Path, manifest: Manifest, name: str, kind: Any) -> Any:
    column = np.frombuffer(segment_files.read(folder / name, manifest.parts[name]), kind)
    if len(column) != manifest.rows:
        raise Damaged(f"{name} has {len(column)} rows of {manifest.rows}")
    return column


# ---------------------------------------------------------------- segment and tail


@dataclass(frozen=True)
class VectorState:
    """The vectors of a namespace as of change `seq`."""

    segment: VectorSegment
    published: Vectors
    """The segment's rows; those that died since are marked as dead."""
    tail: Vectors
    seq: int
    tuning: IndexTuning = DEFAULT

    @cached_property
    def count(self) -> int:
        """Number of items."""
        return len(self.published.heads) + len(self.tail.heads)

    @cached_property
    def windows(self) -> int:
        """Number of vectors per item, rounded up."""
        return max(1, -(-(len(self.published.live) + len(self.tail.live)) // max(self.count, 1)))

    @cached_property
    def middle(self) -> NDArray[np.float64] | None:
        """The mean of a sample, with the first window of long items: the background of the best hits."""
        parts = [
            vectors.rows(vectors.heads[in_sample(vectors.ids[vectors.heads], self.count)])
            for vectors in (self.published, self.tail)
        ]
        sample = np.concatenate(parts)
        return sample.mean(axis=0, dtype=np.float64) if len(sample) else None

    def scorer(self, query: Matrix, *, alone: bool = True) -> VectorScorer:
        """`alone`: whether the query has no other vector."""
        return VectorScorer(query, (self.published.part, self.tail.part), alone=alone and self.windows == 1)


class VectorIndex(TailedIndex[VectorState]):
    CHANGES = Change.VECTOR
    KIND = "vectors"

    def __init__(self, folder: Path, store: str, space: Space, source: Source, tuning: IndexTuning) -> None:
        super().__init__(source, tuning)
        self._folder = folder
        self._store = store
        self.space = space

    def published(self) -> VectorState:
        return self._state_of(VectorSegment.load(self._folder, self._store, self.space, self.tuning))

    def _empty(self, damage: str = "") -> VectorState:
        return self._state_of(VectorSegment.empty(self.space.dimension, damage))

    def _state_of(self, segment: VectorSegment) -> VectorState:
        tail = Vectors.empty(segment.vectors.dimension)
        return VectorState(segment, segment.vectors, tail, segment.seq, self.tuning)

    def _updated(self, source: SourceSnapshot, state: VectorState, changed: Sequence[int], last: int) -> VectorState:
        if not changed:
            return replace(state, seq=last)
        ids = np.array(changed, np.int64)
        fresh_ids, fresh = source.vectors(changed, self.space.dimension)
        tail = state.tail.without(state.tail.find(ids))
        tail = Vectors(
            np.concatenate([tail.ids, fresh_ids]),
            np.concatenate([tail.dead, np.zeros(len(fresh_ids), np.bool_)]),
            np.concatenate([tail.matrix, fresh]),
        )
        return replace(state, published=state.published.without(state.published.find(ids)), tail=tail, seq=last)


# ---------------------------------------------------------------- searching a state


def search(state: VectorState, scorer: VectorScorer, limit: int, allowed: Ints | None) -> Ranking:
    """The `limit` nearest of the allowed items (all, if None). Of the windows of an item, the nearest counts."""
    return begin(state, scorer, limit, allowed, beside=False)()


def begin(
    state: VectorState, scorer: VectorScorer, limit: int, allowed: Ints | None, *, beside: bool
) -> Callable[[], Ranking]:
    """Prepares a search; the returned function gives its result.

    `beside`: in the thread of the kernel meanwhile, if there are rows enough.
    """
    first = _nearest_rows(state, scorer, limit * state.windows, allowed)
    if beside and first.count >= state.tuning.thread_rows:
        first.start()
    middle = state.middle
    background = None if middle is None else Background(float(middle @ scorer.query.astype(np.float64)))

    def finish() -> Ranking:
        rows, hits_of_rows = limit * state.windows, _found(first)
        if state.windows == 1:
            return Ranking(hits_of_rows, background)
        while len(hits := _each_once(hits_of_rows)) < limit and len(hits_of_rows) == rows:
            rows *= _MORE_ROWS
            hits_of_rows = _found(_nearest_rows(state, scorer, rows, allowed))
        return Ranking(hits[:limit], background)

    return finish


def _nearest_rows(state: VectorState, scorer: VectorScorer, count: int, allowed: Ints | None) -> Nearest:
    """A search for the items of the `count` nearest rows of the allowed items; one may occur several times."""
    published, tail = state.published, state.tail
    rows, tail_rows = _candidates(state, scorer.query, count, allowed), tail.permitted(allowed)
    codes = published.codes() if len(rows) > state.tuning.coded_factor * count else None
    every = codes is not None and len(rows) == len(published)
    return Nearest(scorer.kernel, codes, None if every else rows, tail_rows, count)


def _found(job: Nearest) -> Hits:
    try:
        return Hits(*job.result())
    except bindings.OutOfRange as error:
        raise Damaged("vectors have a wrong checksum") from error


def _each_once(hits: Hits) -> Hits:
    """The first hit of each item."""
    first = np.sort(np.unique(hits.ids, return_index=True)[1])
    return Hits(hits.ids[first], hits.scores[first])


def _scored(parts: Iterable[tuple[Vectors, Ints]], query: Matrix) -> Hits:
    """Cosines in double precision, rounded, so that equal vectors tie. Raises Damaged if checksums are wrong."""
    try:
        scores_of_parts = [
            (vectors.ids[rows], bindings.cosines(vectors.columns, rows, query)) for vectors, rows in parts if len(rows)
        ]
    except bindings.OutOfRange as error:
        raise Damaged("vectors have a wrong checksum") from error
    if len(scores_of_parts) == 1:  # usually everything is published
        return Hits(*scores_of_parts[0])
    ids, cosines = zip((NONE, np.empty(0)), *scores_of_parts, strict=True)
    return Hits(np.concatenate(ids), np.concatenate(cosines))


def score(state: VectorState, query: Matrix, ids: Sequence[int]) -> Ranking:
    """Cosines of those of these items that have vectors."""
    wanted = np.array(ids, np.int64)
    scored = _scored(((each, each.find(wanted)) for each in (state.published, state.tail)), query)
    if state.windows > 1:
        best = bindings.order(scored.ids, scored.scores)
        scored = _each_once(Hits(scored.ids[best], scored.scores[best]))
    return Ranking(scored)


def _candidates(state: VectorState, query: Matrix, limit: int, allowed: Ints | None) -> Ints:
    """Published rows that need an exact product: all of them, or those that FAISS proposes."""
    vectors = state.published
    if state.segment.faiss is None or (allowed is not None and len(allowed) <= state.tuning.scan_rows):
        return vectors.permitted(allowed)
    everything = allowed is None and vectors.all_live
    return state.segment.propose(query, limit, None if everything else vectors.mask(allowed))


# ---------------------------------------------------------------- FAISS
#
# IVF with 2-bit RaBitQ codes. It proposes rows; their exact cosines come from the columns.

_QUERY_BITS = 4
_MAX_LISTS = 4096
_MIN_PROBES = 16
_TRAINING_ROWS_PER_LIST = 64
_BATCH_ROWS = 10_000


def search_parameters(lists: int, passing: Flags | None) -> Any:
    """For a search of this many lists; `passing`: flags of the rows that may be found, None for all."""
    if passing is None:
        return _for_all(lists)
    selector = import_faiss().IDSelectorBitmap(np.packbits(passing, bitorder="little"))
    return import_faiss().IVFRaBitQSearchParameters(nprobe=lists, qb=_QUERY_BITS, sel=selector)


@cache
def _for_all(lists: int) -> Any:
    """Cached, because creating them is slow; for searches without a filter."""
    return import_faiss().IVFRaBitQSearchParameters(nprobe=lists, qb=_QUERY_BITS)


def lists(rows: int, tuning: IndexTuning = DEFAULT) -> int:
    """The number of inverted lists: a power of two near 1.6 times the square root of the rows (512 at 100,000)."""
    return min(max(2 ** round(math.log2(1.6 * math.sqrt(rows))), tuning.min_faiss_lists), _MAX_LISTS)


def probes(nlist: int) -> int:
    """The number of lists to search: a quarter of up to 256, an eighth of more. Recall@10 stays above 0.98."""
    return max(nlist // 4, min(nlist, _MIN_PROBES)) if nlist <= 256 else nlist // 8


def train(matrix: Matrix, live: Ints, tuning: IndexTuning) -> Any:
    """A FAISS index over all rows, trained on a random sample of the live ones."""
    faiss = import_faiss()
    rows, dimension = matrix.shape
    nlist = lists(rows, tuning)
    sample = np.random.default_rng(0).permutation(live)[: nlist * _TRAINING_ROWS_PER_LIST]
    faiss.omp_set_num_threads(os.cpu_count() or 1)
    index = faiss.index_factory(dimension, f"IVF{nlist},RaBitQ2", faiss.METRIC_INNER_PRODUCT)
    index.train(matrix[np.sort(sample)])
    for start in range(0, rows, _BATCH_ROWS):
        index.add(matrix[start : start + _BATCH_ROWS])
    faiss.omp_set_num_threads(1)
    return index


def import_faiss() -> Any:
    """FAISS with one thread for each search: searches run concurrently, and sharing one among threads is slower."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import faiss

    return faiss
