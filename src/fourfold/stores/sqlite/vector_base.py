"""The published part of a vector index: a column of unit vectors, and above some size FAISS over the same rows."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
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
_CLOSE = 2
"""Rows lie close if at least one in so many is among them."""
_MANY = 64
"""So many rows that lie together, but for small gaps, are read as they lie: a copy costs more than the products."""
_REMEMBERED_BLOCKS = 64
_DENSE = 0.05
"""A filter that lets through a smaller share needs every list: at a fixed number recall falls to 0.67."""


@dataclass(frozen=True)
class Vectors(Rows):
    """Rows with their unit vectors."""

    matrix: Matrix
    sums: Sums | None = None
    """What the rows' sums must be, where the matrix is mapped."""
    mapped: files.Mapped | None = None
    """The file that the matrix is mapped from."""
    sound: list[tuple[int, int, list[int]]] = field(default_factory=list[tuple[int, int, list[int]]], compare=False)
    """Blocks of rows that were verified, and when the file had last been modified then."""

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
        first, end = int(many[0]), int(many[-1]) + 1
        products = np.vecdot(self.matrix[first:end], query)[many - first]
        self._require_sound(first, end)
        return np.concatenate([np.vecdot(self.rows(few), query), products])

    def _require_sound(self, first: int, end: int) -> None:
        """Raises Damaged if a block of rows that was just read is not what was written.

        Every search reads all rows that FAISS does not know: they are summed when they are first read, and again only
        when their file was modified since.
        """
        if self.sums is None:
            return
        times = [] if self.mapped is None else self.mapped.times()
        if any(begin <= first and end <= until and known == times for begin, until, known in self.sound):
            return
        if not np.array_equal(sums(self.matrix[first:end]), self.sums[first:end]):
            raise Damaged("vectors are not what was written")
        if len(self.sound) >= _REMEMBERED_BLOCKS:
            self.sound.clear()
        self.sound.append((first, end, times))

    def cosines(self, rows: Ints, query: Matrix) -> NDArray[np.float64]:
        """In double precision and rounded, so that equal vectors tie wherever they lie.

        Damaged if the rows are not what was written.
        """
        try:
            return native.cosines(self.matrix, self.sums, rows, query)
        except native.OutOfRange as error:
            raise Damaged("vectors are not what was written") from error


def _together(rows: Ints) -> int:
    """The place from which on the rows ascend and lie so close that reading all between them costs less than a copy."""
    steps = np.diff(rows)
    start = _behind_last(steps < 1)
    if len(rows) > start and rows[-1] - rows[start] < _CLOSE * (len(rows) - start):
        return start
    return _behind_last((steps < 1) | (steps > _GAP))


def _behind_last(breaks: Flags) -> int:
    found = np.flatnonzero(breaks)
    return int(found[-1]) + 1 if len(found) else 0


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
    vectors = columns(folder, manifest, dimension)
    if "faiss" not in manifest.parts:
        files.verify(folder / "vectors", manifest.parts["vectors"])
        if vectors.mapped is not None:
            vectors.sound.append((0, len(vectors), vectors.mapped.times_before))
        return VectorBase(vectors, manifest.seq, manifest, hold=hold)
    content = files.read(folder / "faiss", manifest.parts["faiss"])
    index = import_faiss().deserialize_index(np.frombuffer(content, np.uint8))
    return VectorBase(vectors, manifest.seq, manifest, index, hold)


def columns(folder: Path, manifest: Manifest, dimension: int) -> Vectors:
    """A generation's columns: the vectors mapped, to be checked row by row as they are read; all others in memory."""
    files.require(manifest, "ids", "dead", "vectors", "sums")
    if not manifest.rows:
        return Vectors.empty(dimension)
    ids = _column(folder, manifest, "ids", np.int64)
    dead = _column(folder, manifest, "dead", np.bool_)
    sums = _column(folder, manifest, "sums", np.uint32)
    mapped = files.Mapped([folder / "vectors"])
    matrix = np.memmap(folder / "vectors", np.float32, "r", shape=(manifest.rows, dimension))
    return Vectors(ids, dead, np.asarray(matrix), sums, mapped)


def _column(folder: Path, manifest: Manifest, name: str, kind: Any) -> Any:
    column = np.frombuffer(files.read(folder / name, manifest.parts[name]), kind)
    if len(column) != manifest.rows:
        raise Damaged(f"{name} has {len(column)} rows of {manifest.rows}")
    return column
