"""The published part of a vector index: a column of unit vectors, and above some size FAISS over the same rows."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import native
from fourfold.stores.base import Space
from fourfold.stores.sqlite import files
from fourfold.stores.sqlite.files import Damaged, Manifest
from fourfold.stores.sqlite.lease import Hold
from fourfold.stores.sqlite.rows import NONE, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.stores.sqlite.rows import Flags, Ints

    Matrix = NDArray[np.float32]
    Sums = NDArray[np.uint32]

EXACT_ROWS = 20_000
"""Up to here one matrix product is as fast as an approximate index, and exact."""

_QUERY_BITS = 4
_GAP = 4
_MANY = 1000
"""So many rows that lie together, but for small gaps, are read as they lie: a copy costs more than the products."""
_DENSE = 0.05
"""A filter that lets through a smaller share needs every list: at a fixed number recall falls to 0.67."""


@dataclass(frozen=True)
class Vectors(Rows):
    """Rows with their unit vectors."""

    matrix: Matrix
    sums: Sums | None = None
    """What the rows' sums must be, where the matrix was too long to be verified when it was opened."""
    sound: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]], compare=False)
    """Blocks of rows that were verified since."""

    @staticmethod
    def empty(dimension: int) -> Vectors:
        return Vectors(NONE, np.empty(0, np.bool_), np.empty((0, dimension), np.float32))

    @property
    def dimension(self) -> int:
        return self.matrix.shape[1]

    def rows(self, rows: Ints) -> Matrix:
        """The vectors of these rows. Damaged if they are not what was written."""
        found = self.matrix if rows is self.live and len(rows) == len(self) else self.matrix[rows]
        if self.sums is not None and not np.array_equal(sums(found), self.sums[rows]):
            raise Damaged("vectors are not what was written")
        return found

    def near(self, rows: Ints, query: Matrix) -> Matrix:
        """Cosines in single precision: the last digit depends on the order in which the products were summed.

        Row by row, not as a matrix product: BLAS would share that among threads which mostly wait for each other, at
        nearly twice the processor time, while the other retrievers need it too.
        """
        start = _together(rows)
        few, many = rows[:start], rows[start:]
        if len(many) < _MANY:
            return np.vecdot(self.rows(rows), query)
        block = self._block(int(many[0]), int(many[-1]) + 1)
        return np.concatenate([np.vecdot(self.rows(few), query), np.vecdot(block, query)[many - many[0]]])

    def _block(self, first: int, end: int) -> Matrix:
        """Rows that lie together, as they lie there: FAISS does not know them, so that every search reads them all.

        Damaged if they were not what was written when they were first read.
        """
        block = self.matrix[first:end]
        if self.sums is not None and (first, end) not in self.sound:
            if not np.array_equal(sums(block), self.sums[first:end]):
                raise Damaged("vectors are not what was written")
            self.sound.add((first, end))
        return block

    def cosines(self, rows: Ints, query: Matrix) -> NDArray[np.float64]:
        """In double precision and rounded, so that equal vectors tie wherever they lie.

        Damaged if the rows are not what was written.
        """
        try:
            return native.cosines(self.matrix, self.sums, rows, query)
        except native.OutOfRange as error:
            raise Damaged("vectors are not what was written") from error


def _together(rows: Ints) -> int:
    """From which place on the rows ascend with hardly a gap."""
    steps = np.diff(rows)
    breaks = np.flatnonzero((steps < 1) | (steps > _GAP))
    return int(breaks[-1]) + 1 if len(breaks) else 0


def sums(matrix: Matrix) -> Sums:
    """One number for the bits of each row."""
    return np.ascontiguousarray(matrix).view(np.uint32).sum(axis=1, dtype=np.uint32)


@dataclass(frozen=True)
class VectorBase:
    """Immutable; a newer publication is another object."""

    vectors: Vectors
    seq: int
    manifest: Manifest | None = None
    faiss: Any = None
    """An index over the first rows, or None."""

    hold: Hold | None = None
    damage: str = ""
    """Why what is published could not be used; nothing is here then."""

    @staticmethod
    def nothing(dimension: int, damage: str = "") -> VectorBase:
        return VectorBase(Vectors.empty(dimension), 0, damage=damage)

    @staticmethod
    def load(folder: Path, store: str, space: Space) -> VectorBase:
        """What is published, verified; an empty base where nothing usable is: the tail then holds everything."""

        def opening(generation: Path, manifest: Manifest) -> VectorBase:
            return _opened(generation, manifest, space.dimension)

        try:
            return files.load(folder, store, space.fingerprint, opening) or VectorBase.nothing(space.dimension)
        except Damaged as error:
            return VectorBase.nothing(space.dimension, str(error))

    @property
    def covered(self) -> int:
        """Rows that FAISS knows."""
        return 0 if self.faiss is None else self.faiss.ntotal

    def propose(self, query: Matrix, count: int, wanted: Flags | None) -> Ints:
        """The rows that FAISS ranks best among the wanted ones (all, if None), and all that it does not know."""
        covered, passing = self.covered, None if wanted is None else wanted[: self.covered]
        number = covered if passing is None else int(np.count_nonzero(passing))
        few = probes(self.faiss.nlist) if number >= _DENSE * covered else self.faiss.nlist
        found = self._searched(query, count, few, passing)
        if len(found) < min(count, number):  # what is nearest lies in lists that hold little
            found = self._searched(query, count, self.faiss.nlist, passing)
        if covered == len(self.vectors):
            return found
        later = np.arange(covered, len(self.vectors)) if wanted is None else np.flatnonzero(wanted[covered:]) + covered
        return np.concatenate([found, later])

    def _searched(self, query: Matrix, count: int, lists: int, passing: Flags | None) -> Ints:
        found = self.faiss.search(query[None, :], count, params=_parameters(lists, passing))[1][0]
        return found if found[-1] >= 0 else found[found >= 0]


def _parameters(lists: int, passing: Flags | None) -> Any:
    if passing is None:
        return _for_all(lists)
    selector = import_faiss().IDSelectorBitmap(np.packbits(passing, bitorder="little"))
    return import_faiss().IVFRaBitQSearchParameters(nprobe=lists, qb=_QUERY_BITS, sel=selector)


@cache
def _for_all(lists: int) -> Any:
    """The same for all searches without a filter: making them takes as long as some of what follows."""
    return import_faiss().IVFRaBitQSearchParameters(nprobe=lists, qb=_QUERY_BITS)


def lists(rows: int) -> int:
    """How many inverted lists: a power of two near 1.6 times the root of the rows (512 at 100,000)."""
    return 2 ** min(max(round(math.log2(1.6 * math.sqrt(rows))), 6), 12)


def probes(nlist: int) -> int:
    """A quarter of few lists, an eighth of many: recall@10 stays above 0.98."""
    return nlist // 4 if nlist <= 256 else nlist // 8


def train(vectors: Vectors) -> Any:
    """A FAISS index over all rows, trained on a random sample of the live ones."""
    faiss = import_faiss()
    rows, dimension = vectors.matrix.shape
    nlist = lists(rows)
    sample = np.random.default_rng(0).permutation(vectors.live)[: nlist * 64]
    faiss.omp_set_num_threads(os.cpu_count() or 1)
    index = faiss.index_factory(dimension, f"IVF{nlist},RaBitQ2", faiss.METRIC_INNER_PRODUCT)
    index.train(vectors.matrix[np.sort(sample)])
    for start in range(0, rows, 10_000):
        index.add(vectors.matrix[start : start + 10_000])
    faiss.omp_set_num_threads(1)
    return index


def import_faiss() -> Any:
    """FAISS with one thread a search: searches run side by side, and hand-overs cost more than they bring."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import faiss

    return faiss


def _opened(folder: Path, manifest: Manifest, dimension: int) -> VectorBase:
    hold = Hold(folder)
    files.require(manifest, "ids", "dead", "vectors", "sums")
    proposed = "faiss" in manifest.parts
    for name, part in manifest.parts.items():
        if name != "vectors" or not proposed:  # which is long, and of which a search reads some hundred rows
            files.verify(folder / name, part)
    if (folder / "vectors").stat().st_size < manifest.rows * dimension * 4:
        raise Damaged("vectors are missing")
    vectors = columns(folder, manifest.rows, dimension)
    index = None
    if proposed:
        vectors = replace(vectors, sums=_column(folder, "sums", np.uint32, manifest.rows))
        index = import_faiss().read_index(str(folder / "faiss"))
    return VectorBase(vectors, manifest.seq, manifest, index, hold)


def columns(folder: Path, rows: int, dimension: int) -> Vectors:
    """A generation's columns, mapped."""
    if not rows:
        return Vectors.empty(dimension)
    matrix = _column(folder, "vectors", np.float32, rows * dimension).reshape(rows, dimension)
    return Vectors(_column(folder, "ids", np.int64, rows), _column(folder, "dead", np.bool_, rows), matrix)


def _column(folder: Path, name: str, kind: Any, count: int) -> Any:
    return np.asarray(np.memmap(folder / name, kind, "r", shape=(count,)))
