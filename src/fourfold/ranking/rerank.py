"""Reranking: a model that reads query and text together orders the best candidates, and that is added to the fusion.

The model's list is one more part of the score, so it moves candidates and never replaces the ranking. The candidate at
its rank r gets

    SHARE x the best fused score / r

Ranks instead of scores: models score on different scales, and one model's scale differs from query to query.
docs/quality-rerank.md has the gain, and that of other formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fourfold.ranking.fusion import Fusion, Part, fuse, grid_for, ranked, ranks

RERANK: Final = "rerank"
"""The source of the model's part of a score, and its name in `degraded`, notes and timings."""
SHARE: Final = 0.3
"""The most that the model adds to a score, as a share of the best fused score."""
FEWEST: Final = 2
"""With fewer scored candidates there is nothing to order."""


def with_rerank(fusion: Fusion, scores: Mapping[int, float]) -> Fusion:
    """Add the part of a model that gave these items these scores.

    The other parts are rounded to a coarser grid, on which the larger sums, also with the bonus of a file name, are
    exact.
    """
    highest = max(fusion.scores.values(), default=0.0)
    if len(scores) < FEWEST or highest <= 0:
        return fusion
    raw = ranked(scores, len(scores))
    weight, grid = SHARE * highest, grid_for(2 * highest)
    parts = [part._replace(values=(part.values + grid) - grid) for part in fusion.parts]
    values = (weight / ranks(raw.scores) + grid) - grid
    return fuse([*parts, Part(RERANK, weight, len(raw), raw, values)], fusion.weights)
