"""Which items stand for the whole store: chosen by id alone, so every store and every process chooses the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAMPLE = 512


def in_sample(ids: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Whether each item is in the sample of a store of `count` items: between half of SAMPLE and all of it."""
    level = max(0, int(np.ceil(np.log2(max(count, 1) / SAMPLE))))
    mixed = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    return mixed & np.uint64((1 << level) - 1) == 0
