"""How FAISS is set up: IVF with 2-bit RaBitQ codes. It proposes rows; their exact cosines come from the columns."""

from __future__ import annotations

import math
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.index.tuning import DEFAULT, IndexTuning

if TYPE_CHECKING:
    from fourfold.index.rows import Flags, Ints, Matrix

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
