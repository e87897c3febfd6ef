"""Recency: of two answers that are about equally good, the newer one ranks first.

    age = max(floor, e^(-decay x days))        factor = 1 - strength x (1 - age)

The score is multiplied by the factor. With strength 1 the factor is the age itself, and age dominates the order:
scores of good and poor answers often differ by less than the ages 0.3 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from fourfold.errors import InvalidSetting
from fourfold.retrieval import FusionName, Recency

DECAY: Final = 0.01
"""Per day: half after about 70 days."""
STRENGTHS: Final[Mapping[FusionName, float]] = {"auto": 0.2, "weighted": 0.2, "rrf": 0.02}
"""Default strength by fusion. Reciprocal ranks differ little: rank 2 scores 1.6 % less than rank 1."""
EVERGREEN: Final = "evergreen"
"""Tag of items that do not age."""
_DAY_SECONDS: Final = 86400.0


def recency_factor(recency: Recency | None, updated_at: datetime, now: datetime, tags: Iterable[str] = ()) -> float:
    """Return a factor in 1 - strength x (1 - floor) .. 1; a date in the future counts as now."""
    if recency is None or recency.decay == 0:
        return 1.0
    days = (now - updated_at).total_seconds() / _DAY_SECONDS
    if days <= 0 or any(tag.casefold() == EVERGREEN for tag in tags):
        return 1.0
    age = max(recency.floor, math.exp(-recency.decay * days))
    return 1 - recency.strength * (1 - age) if recency.strength < 1 else age


def check_recency(recency: Recency) -> None:
    if not (_is_number(recency.decay) and recency.decay >= 0):
        raise InvalidSetting(
            f"RECENCY_DECAY is {recency.decay!r}", "Set it to 0 (off) or a larger number, such as 0.01"
        )
    if not (_is_number(recency.floor) and 0 <= recency.floor <= 1):
        raise InvalidSetting(f"the floor of recency is {recency.floor!r}", "Set it to a number from 0 to 1")
    if not (_is_number(recency.strength) and 0 <= recency.strength <= 1):
        raise InvalidSetting(f"the strength of recency is {recency.strength!r}", "Set it to a number from 0 to 1")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
