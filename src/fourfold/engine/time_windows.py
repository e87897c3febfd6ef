"""Windows of time in searches: read from the query, then applied as a filter or as a factor of scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from fourfold.filters import Every, field_at, make_test
from fourfold.filters.conditions import Condition
from fourfold.model import Filters, Item
from fourfold.ranking.factors import TimeMode
from fourfold.retrieval import TimeWindow
from fourfold.text.time_intent import asks_when
from fourfold.text.time_window import time_window

_FIELD: Final = "occurred_at"
"""It stands for `created_at` in items that lack it."""


def happened(item: Item) -> datetime:
    """The time that windows compare."""
    return item.occurred_at or item.created_at


def window_of(text: str, mode: TimeMode, now: datetime, zone: str | None) -> TimeWindow | None:
    """The window that a query names. It is applied if the query asks for what was said or happened then."""
    if mode == "off":
        return None
    found = time_window(text, None, now, None if zone is None else ZoneInfo(zone))
    if found is None:
        return None
    applied = mode if asks_when(text, found, now) else None
    return TimeWindow(found.start, found.end, found.words, applied)


def within(filters: Filters, window: TimeWindow) -> Filters:
    """The filters, and the window as a further condition."""
    field = field_at([_FIELD])
    parts: list[Condition] = [] if filters.condition is None else [filters.condition]
    if window.start is not None:
        parts.append(make_test(field, "gte", window.start))
    if window.end is not None:
        parts.append(make_test(field, "lt", window.end))
    return Filters(where=Every(tuple(parts)))


def without_items(window: TimeWindow) -> TimeWindow:
    """The window of a search that found nothing in it: it then prefers what is near."""
    return replace(window, applied="boost", empty=True)


def is_outside(window: TimeWindow, factors: Mapping[int, float]) -> bool:
    """Whether all candidates lie outside. `factors`: of the window, by item."""
    return window.applied == "boost" and bool(factors) and 1.0 not in factors.values()


def nothing_inside(window: TimeWindow) -> str:
    """The note of a search that found nothing in the window."""
    return f"nothing was found in the time window of {window.words!r}; these are the nearest results outside of it"
