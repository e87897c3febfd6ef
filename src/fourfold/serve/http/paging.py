"""Cursors: opaque strings that say where the next page begins.

A page of items begins after the last item of the previous one (by time and id), so items that are stored between
two pages neither repeat nor hide others. Other lists, which are short or sorted by counts, are paged by position.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fourfold.errors import InvalidQuery
from fourfold.filters import Every, read_where
from fourfold.limits import PAGE_SIZE
from fourfold.model import NO_FILTERS, Filters, Item
from fourfold.wire import time_json

if TYPE_CHECKING:
    from fourfold.memory import Memory


def _encode(values: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode().rstrip("=")


def _decode(cursor: str) -> Any:
    try:
        return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, RecursionError) as error:
        raise _invalid() from error


def _invalid() -> InvalidQuery:
    return InvalidQuery("the cursor is not valid", "Send the next_cursor of an answer, unchanged, or none")


def offset_of(cursor: str | None) -> int:
    match None if cursor is None else _decode(cursor):
        case None:
            return 0
        case [int() as offset] if 0 <= offset < 2**53 and not isinstance(offset, bool):
            return offset
        case _:
            raise _invalid()


def next_offset(offset: int, count: int, *, more: bool) -> str | None:
    return _encode([offset + count]) if more else None


def after_item(item: Item) -> str:
    return _encode([time_json(item.created_at), item.id])


def from_cursor(filters: Filters, cursor: str | None) -> Filters:
    """The filters, narrowed to the items after the cursor in the order of `list`: newest first, then by id."""
    match None if cursor is None else _decode(cursor):
        case None:
            return filters
        case [str() as at, int() as last] if _is_time(at):
            earlier = {"or": [{"created_at": {"lt": at}}, {"created_at": {"eq": at}, "id": {"lt": last}}]}
        case _:
            raise _invalid()
    conditions = [read_where(given) for given in (earlier, filters.where) if given is not None]
    return replace(filters, where=Every(tuple(each for each in conditions if each is not None)))


def every_item(memory: Memory) -> Iterator[Item]:
    """Items of a namespace, newest first, a page at a time."""
    cursor: str | None = None
    while page := memory.list(from_cursor(NO_FILTERS, cursor), limit=PAGE_SIZE):
        yield from page
        cursor = after_item(page[-1])


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
