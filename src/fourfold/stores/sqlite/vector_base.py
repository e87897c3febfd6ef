"""The published part of a vector index: a column of unit vectors, and above some size FAISS over the same rows."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.stores.sqlite import files
from fourfold.stores.sqlite.files import Damaged, Manifest
from fourfold.stores.sqlite.rows import NONE, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.stores.sqlite.rows import Flags, Ints

    Matrix = NDArray[np.float32]

EXACT_ROWS = 20_000
"""Up to here one matrix product is as fast as an approximate index, and exact."""

_VERIFIED_BYTES = 32 * 1024 * 1024
"""A longer column of vectors would take too long to read at every start. It is plain numbers, which no code trusts."""
_QUERY_BITS = 4
_DENSE = 0.05
"""A filter that lets through a smaller share needs every list: at a fixed number recall falls to 0.67."""


@dataclass(frozen=True)
class Vectors(Rows):
    """Rows with their unit vectors."""

    matrix: Matrix

    @staticmethod
    def empty(dimension: int) -> Vectors:
        return Vectors(NONE, np.empty(0, np.bool_), np.empty((0, dimension), np.float32))

    def near(self, rows: Ints, query: Matrix) -> Matrix:
        """Cosines in single precision: the last digit depends on the order in which the products were summed."""
        return (self.matrix if rows is self.live and len(rows) == len(self) else self.matrix[rows]) @ query

    def cosines(self, rows: Ints, query: Matrix) -> NDArray[np.float64]:
        """In double precision and rounded, so that equal vectors tie wherever they lie."""
        return np.round(self.matrix[rows].astype(np.float64) @ query.astype(np.float64), 6)


@dataclass(frozen=True)
class VectorBase:
    """Immutable; a newer publication is another object."""

    vectors: Vectors
    seq: int
    manifest: Manifest | None = None
    faiss: Any = None
    """An index over the first rows, or None."""

    @staticmethod
    def nothing(dimension: int) -> VectorBase:
        return VectorBase(Vectors.empty(dimension), 0)

    @staticmethod
    def load(folder: Path, store: str, space: str, dimension: int) -> VectorBase:
        """What is published, verified; an empty base where nothing usable is: the tail then holds everything."""
        try:
            manifest = files.read_manifest(folder)
            if manifest is None or (manifest.space, manifest.store, manifest.format) != (space, store, files.FORMAT):
                return VectorBase.nothing(dimension)
            return _opened(folder / f"g{manifest.generation}", manifest, dimension)
        except (Damaged, OSError):
            return VectorBase.nothing(dimension)

    @property
    def covered(self) -> int:
        """Rows that FAISS knows."""
        return 0 if self.faiss is None else self.faiss.ntotal

    def propose(self, query: Matrix, count: int, wanted: Flags) -> Ints:
        """The rows that FAISS ranks best among the wanted ones, and all wanted rows that it does not know."""
        faiss = import_faiss()
        covered = self.covered
        passing = wanted[:covered]
        share = np.count_nonzero(passing) / covered
        nlist = self.faiss.nlist
        selector = faiss.IDSelectorBitmap(np.packbits(passing, bitorder="little")) if share < 1 else None
        parameters = faiss.IVFRaBitQSearchParameters(
            nprobe=nlist if share < _DENSE else probes(nlist), qb=_QUERY_BITS, sel=selector
        )
        found = self.faiss.search(query[None, :], count, params=parameters)[1][0]
        return np.concatenate([found[found >= 0], np.flatnonzero(wanted[covered:]) + covered])


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
    for name, part in manifest.parts.items():
        if name != "vectors" or part.size <= _VERIFIED_BYTES:
            files.verify(folder / name, part)
    count = manifest.rows
    if (folder / "vectors").stat().st_size < count * dimension * 4:
        raise Damaged("vectors are missing")
    vectors = columns(folder, count, dimension)
    index = import_faiss().read_index(str(folder / "faiss")) if "faiss" in manifest.parts else None
    return VectorBase(vectors, manifest.seq, manifest, index)


def columns(folder: Path, rows: int, dimension: int) -> Vectors:
    """A generation's columns, mapped."""
    if not rows:
        return Vectors.empty(dimension)
    return Vectors(
        np.asarray(np.memmap(folder / "ids", np.int64, "r", shape=(rows,))),
        np.asarray(np.memmap(folder / "dead", np.bool_, "r", shape=(rows,))),
        np.asarray(np.memmap(folder / "vectors", np.float32, "r", shape=(rows, dimension))),
    )
