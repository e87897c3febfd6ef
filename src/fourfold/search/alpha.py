"""The one alpha of the preset `memories` (S5.3, S5.4): 1 is vectors only, 0 is tags only."""

from __future__ import annotations

from typing import Final

SMALL_STORE: Final = 500
LARGE_STORE: Final = 5000
MANY_TAGS: Final = 3
TAG_BOOST: Final = 1.5

ALPHA_RANGE: Final = "Alpha is a number from 0 (tags only) to 1 (vectors only)"


def adaptive_alpha(items: int) -> float:
    """The more items share a tag, the less a tag says: trust vectors more as the store grows."""
    if items < SMALL_STORE:
        return 0.5
    return 0.7 if items <= LARGE_STORE else 0.8


def alpha_weights(alpha: float, matching_tags: int = 0) -> dict[str, float]:
    """Weights for an alpha; a query that names three or more tags asks for tags, which then count half as much again.

    The boost is for adaptive alphas: for an explicit one leave `matching_tags` at 0.
    """
    if matching_tags < MANY_TAGS:
        return {"semantic": float(alpha), "tags": 1.0 - alpha}
    tags = min(1.0, TAG_BOOST * (1 - alpha))
    return {"semantic": 1 - tags, "tags": tags}


def is_alpha(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
