"""What a read may show: no hidden items, and the time that a query names; and what to say about misspelt filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Final

from fourfold.fields import COLUMNS
from fourfold.filters import Condition, Every, Not, Test, field_at, leaves, make_test
from fourfold.model import Filters, Item
from fourfold.ranking.factors import TimeMode
from fourfold.retrieval import TimeWindow
from fourfold.storage.protocols import Snapshot
from fourfold.text.time_window import asks_when, time_window

if TYPE_CHECKING:
    from fourfold.storage.protocols import Tags
    from fourfold.storage.sql.reading import ItemReader

# ---------------------------------------------------------------- hidden items
#
# Superseded and expired items are not shown, unless a read asks for the past. What is hidden becomes part of the
# filters, which act inside every retriever. A namespace that hides nothing says so in its row, which every read has
# anyway: then the filters stay as they are.

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


# ---------------------------------------------------------------- time windows

_FIELD: Final = "occurred_at"
"""It stands for `created_at` in items that lack it."""


def happened(item: Item) -> datetime:
    """The time that windows compare."""
    return item.occurred_at or item.created_at


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def window_of(text: str, mode: TimeMode, now: datetime, zone: str | None) -> TimeWindow | None:
    """The window that a query names. It is applied if the query asks for what was said or happened then."""
    if mode == "off":
        return None
    window = time_window(text, None, now, None if zone is None else _zone(zone))
    if window is None:
        return None
    applied = mode if asks_when(text, window, now) else None
    return TimeWindow(window.start, window.end, window.words, applied)


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


# ---------------------------------------------------------------- names in a filter that no item has

_SHOWN: Final = 20
_PROBED: Final = 20
"""Names of one filter that are looked up."""
_NAMING_COLUMNS: Final = ("tags", "kind", "language")


def unknown_names(rows: ItemReader, tags: Tags, condition: Condition, *, negated_only: bool = False) -> tuple[str, ...]:
    """A line for each kind, language, tag or metadata key of the condition that no item of the namespace has.

    `negated_only`: only names under a `not`: a misspelt one excludes nothing, and the results do not show it.
    """
    lines: dict[str, None] = {}
    probed = 0
    for test, negated in leaves(condition):
        for probe in _probes(test):
            if probed < _PROBED and (negated or not negated_only):
                probed += 1
                if not rows.list(Filters(where=probe), 1, 0):
                    lines[_line(rows, tags, probe)] = None
    return tuple(lines)


def _probes(test: Test) -> list[Test]:
    """Tests that hold for an item that has one of the names."""
    column = test.field.column
    if column is None:
        return [Test(test.field, "exists")]
    if column.name not in _NAMING_COLUMNS or test.op != "in":
        return []
    return [Test(test.field, "in", (name,)) for name in test.values if name is not None]


def _line(rows: ItemReader, tags: Tags, probe: Test) -> str:
    column = probe.field.column
    if column is None:
        counts = rows.vocabulary("metadata")
        fields = ", ".join(COLUMNS)
        name = probe.field.name.partition(".")[2]
        return f"no item has the metadata key {name!r}; keys: {_listed(counts)}; fields: {fields}"
    name = probe.values[0]
    if column.name == "tags":
        return f"no item has the tag {name!r}; tags: {_listed(tags.counts())}"
    counts = rows.vocabulary("kind" if column.name == "kind" else "language")
    return f"no item has the {column.name} {name!r}; {column.name}s: {_listed(counts)}"


def _listed(counts: Mapping[str, int]) -> str:
    """The most frequent first."""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "none"
