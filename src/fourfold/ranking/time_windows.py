"""Time windows in a ranking: an item inside of the window keeps its score, others lose the more, the farther they are.

    nearness = scale / (scale + distance)        factor = 1 - strength x (1 - nearness)

`scale` is the length of the window, from one day to three months; 30 days for one that is open on a side.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from fourfold.errors import InvalidQuery
from fourfold.retrieval import FusionName, TimeWindow

TimeMode: TypeAlias = Literal["off", "filter", "boost"]
MODES: Final[tuple[TimeMode, ...]] = ("off", "filter", "boost")

STRENGTHS: Final[Mapping[FusionName, float]] = {"auto": 0.7, "weighted": 0.7, "rrf": 0.07}
"""By fusion, as for recency: reciprocal ranks differ little."""
_SHORTEST: Final = timedelta(days=1)
_LONGEST: Final = timedelta(days=92)
_OPEN: Final = timedelta(days=30)
_ZERO: Final = timedelta()


def check_mode(given: str) -> TimeMode:
    for mode in MODES:
        if given == mode:
            return mode
    raise InvalidQuery(f"time is {given!r}", f"It is one of {', '.join(MODES)}")


def distance(window: TimeWindow, moment: datetime) -> timedelta:
    """How far a moment is outside of the window; zero inside. The end of a window lies outside."""
    if window.start is not None and moment < window.start:
        return window.start - moment
    if window.end is not None and moment >= window.end:
        return max(moment - window.end, timedelta(microseconds=1))
    return _ZERO


def window_factor(window: TimeWindow, moment: datetime, fusion: FusionName) -> float:
    outside = distance(window, moment)
    if outside == _ZERO:
        return 1.0
    length = _OPEN if window.start is None or window.end is None else window.end - window.start
    scale = min(max(length, _SHORTEST), _LONGEST)
    nearness = scale / (scale + outside)
    return 1 - STRENGTHS[fusion] * (1 - nearness)
