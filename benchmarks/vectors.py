"""Clustered unit vectors that are as hard for an approximate index as real text embeddings are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]

DIMENSIONS = 384
LATENT_DIMENSIONS = 64
CENTRES = 1000
ITEM_NOISE = 1.0
ROUGHNESS = 0.25
QUERY_NOISE = 0.5
PART = 100_000
"""Vectors drawn together: bounds the memory that a million of them need."""


class VectorModel:
    """Cluster centres in a low-dimensional subspace, with noise as long as the centres around them."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        square = self._random.standard_normal((DIMENSIONS, LATENT_DIMENSIONS))
        self._basis: Floats = np.linalg.qr(square)[0].T.astype(np.float32)
        self._scales: Floats = (1.0 / np.sqrt(np.arange(2, LATENT_DIMENSIONS + 2))).astype(np.float32)
        self._centres = self._directions(CENTRES)

    def items(self, count: int) -> Iterator[Floats]:
        """Draw unit vectors around the centres, in parts; some clusters are much larger than others."""
        sizes = self._random.pareto(1.5, CENTRES) + 1.0
        chosen = self._random.choice(CENTRES, count, p=sizes / sizes.sum())
        for start in range(0, count, PART):
            part = chosen[start : start + PART]
            yield unit(self._centres[part] + self._noise(len(part), ITEM_NOISE))

    def near(self, vectors: Floats, count: int) -> Floats:
        """Draw unit vectors near randomly chosen given ones."""
        chosen = self._random.choice(len(vectors), count)
        return unit(vectors[chosen] + self._noise(count, QUERY_NOISE))

    def _noise(self, count: int, length: float) -> Floats:
        """Draw noise of about the given length: most of it in the subspace, some in all directions."""
        lengths = self._random.uniform(0.5 * length, 1.5 * length, (count, 1)).astype(np.float32)
        rough = unit(self._random.standard_normal((count, DIMENSIONS), dtype=np.float32))
        noise: Floats = lengths * (self._directions(count) + np.float32(ROUGHNESS) * rough)
        return noise

    def _directions(self, count: int) -> Floats:
        """Draw unit vectors in the subspace, with some directions more common than others."""
        latent: Floats = self._random.standard_normal((count, LATENT_DIMENSIONS), dtype=np.float32)
        return unit(np.matmul(latent * self._scales, self._basis, dtype=np.float32))


def unit(rows: Floats) -> Floats:
    """Scale every row to length one."""
    scaled: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return scaled
