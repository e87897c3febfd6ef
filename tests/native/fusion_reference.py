"""The arithmetic of `auto` fusion in Python, with which the kernel is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fourfold.ranking.auto import BELOW_AVERAGE
from fourfold.ranking.fusion import Fusion, Part, fuse, grid_of
from fourfold.ranking.retrievers import LIST_SCALES
from fourfold.retrieval import Background, Hits

if TYPE_CHECKING:
    from fourfold.retrieval import Floats


def fused_in_python(
    lists: Mapping[str, Hits],
    unlisted: Mapping[str, Hits],
    weights: Mapping[str, float],
    average: Background | None,
    reported: Mapping[str, float],
) -> Fusion:
    """The arithmetic of `fuse_scaled`."""
    raw = {name: _joined(hits, unlisted[name]) if name in unlisted else hits for name, hits in lists.items()}
    grid = grid_of(weights)
    parts = [_part(name, len(lists[name].ids), raw[name], average, weight, grid) for name, weight in weights.items()]
    return fuse(parts, reported)


def _joined(hits: Hits, more: Hits) -> Hits:
    """Join listed and unlisted hits; a listed score takes precedence."""
    if not set(hits.ids.tolist()).isdisjoint(more.ids.tolist()):
        new = ~np.isin(more.ids, hits.ids)
        more = Hits(more.ids[new], more.scores[new])
    return Hits(np.concatenate([hits.ids, more.ids]), np.concatenate([hits.scores, more.scores]))


def _part(name: str, listed: int, raw: Hits, average: Background | None, weight: float, grid: float) -> Part:
    scale = LIST_SCALES[name]
    if scale == "cosine":
        return Part(name, weight, listed, raw, _cosine_values(raw.scores, average, weight, grid))
    positive = raw.scores > 0
    if not positive.all():
        listed = int(np.count_nonzero(positive[:listed]))
        raw = Hits(raw.ids[positive], raw.scores[positive])
    scaled = _relations(raw.scores, weight) if scale == "absolute" else _shares_of_best(raw.scores, weight)
    return Part(name, weight, listed, raw, (scaled + grid) - grid)


def _relations(scores: Floats, weight: float) -> Floats:
    """Use graph scores as they are, at most 1: a distant relation stays weak even if it is the best one."""
    return weight * np.minimum(scores, 1.0)


def _shares_of_best(scores: Floats, weight: float) -> Floats:
    return scores * (weight / scores.max()) if len(scores) else scores


def _cosine_values(scores: Floats, background: Background | None, weight: float, grid: float) -> Floats:
    """Scale cosines from the store's average to the query's best; lower ones share the bottom of the scale.

    If no cosine is above the average (a narrow filter), the worst cosine replaces the average.
    """
    best, worst = float(scores.max()), float(scores.min())
    if best == worst:
        return np.full(len(scores), (weight + grid) - grid)
    average = background.mean if background is not None and -1 < background.mean < best else worst
    above = weight * (1 - BELOW_AVERAGE) / (best - average)
    below = weight * BELOW_AVERAGE / max(1 + average, 1e-9)
    base = weight * BELOW_AVERAGE + grid
    return ((scores - average) * np.where(scores >= average, above, below) + base) - grid
