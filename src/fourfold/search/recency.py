"""Recency (S5.5): what has not changed for long counts less, but never less than the floor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from fourfold.errors import InvalidSetting
from fourfold.model import Recency

DECAY: Final = 0.01
"""Half after about 70 days."""
EVERGREEN: Final = "evergreen"
"""An item with this tag does not age."""
_DAY: Final = 86400.0


def recency_factor(recency: Recency | None, updated_at: datetime, now: datetime, tags: Iterable[str] = ()) -> float:
    """max(floor, exp(-decay x days)), with fractions of days; a date in the future is as good as now."""
    if recency is None or recency.decay == 0:
        return 1.0
    days = (now - updated_at).total_seconds() / _DAY
    if days <= 0 or any(tag.casefold() == EVERGREEN for tag in tags):
        return 1.0
    return max(recency.floor, math.exp(-recency.decay * days))


def check_recency(recency: Recency) -> None:
    if not (_is_number(recency.decay) and recency.decay >= 0):
        raise InvalidSetting(f"RECENCY_DECAY is {recency.decay!r}", "It is a number from 0 (off) upwards, such as 0.01")
    if not (_is_number(recency.floor) and 0 <= recency.floor <= 1):
        raise InvalidSetting(f"the floor of recency is {recency.floor!r}", "It is a number from 0 to 1")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
