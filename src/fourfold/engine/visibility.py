"""Which items a read may show: not those that are superseded or have expired, unless it asks for the past.

What is hidden becomes part of the filters, which act inside every retriever. A namespace that hides nothing says so in
its row, which every read has anyway: then the filters stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fourfold.filters import Condition, Every, Not, Test, field_at, make_test
from fourfold.filters.conditions import leaves
from fourfold.model import Filters, Item
from fourfold.storage.protocols import Snapshot

_EXPIRY: Final = field_at(["expires_at"])
_END: Final = field_at(["superseded_at"])
_BEGIN: Final = field_at(["valid_from"])


@dataclass(frozen=True, slots=True)
class View:
    """The moment that a read is about."""

    history: bool = False
    """Superseded items are shown, too."""
    as_of: datetime | None = None
    """The time whose values are shown."""


CURRENT: Final = View()


def visible(snapshot: Snapshot, filters: Filters, now: datetime, view: View = CURRENT) -> Filters:
    """Return the filters with what has to stay hidden; the same ones if nothing has to."""
    hidden = snapshot.hidden
    if view.as_of is None and not hidden.superseded and not hidden.expiring:
        return filters
    parts = tuple(_conditions(snapshot, filters, now, view))
    if not parts:
        return filters
    return Filters(where=Every(parts if filters.condition is None else (filters.condition, *parts)))


def _conditions(snapshot: Snapshot, filters: Filters, now: datetime, view: View) -> Iterator[Condition]:
    if view.as_of is not None:
        yield make_test(_BEGIN, "lte", view.as_of)
        yield Not(Test(_END, "lte", (view.as_of,)))
        yield Not(Test(_EXPIRY, "lte", (view.as_of,)))
        return
    hidden = snapshot.hidden
    if hidden.superseded and not view.history and not _asks_for_history(filters):
        yield Not(Test(_END, "exists"))
    # the latest expiry that has passed, not the present time: stores cache what a filter selects
    if hidden.expiring and (expired := snapshot.rows.last_expiry(now)) is not None:
        yield Not(Test(_EXPIRY, "lte", (expired,)))


def _asks_for_history(filters: Filters) -> bool:
    condition = filters.condition
    return condition is not None and any(test.field == _END for test, _ in leaves(condition))


def why_hidden(item: Item, now: datetime) -> list[str]:
    """Why a search does not show an item, whatever the query is."""
    lines: list[str] = []
    if item.superseded_at is not None:
        lines.append(f"superseded on {item.superseded_at:%Y-%m-%d %H:%M} UTC: history shows what replaced it")
    if item.expires_at is not None and item.expires_at <= now:
        lines.append(f"expired on {item.expires_at:%Y-%m-%d %H:%M} UTC")
    return lines
