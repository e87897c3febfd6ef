"""The fields of `Filters` as one condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fourfold.filters.conditions import Condition, Every, Field, field_at, key_path, make_test
from fourfold.filters.reading import read_where

if TYPE_CHECKING:
    from fourfold.model import Filters


def condition_of(filters: Filters) -> Condition | None:
    """All that the filters ask for; None if that is nothing."""
    parts = tuple(_parts(filters))
    return parts[0] if len(parts) == 1 else Every(parts) if parts else None


def _parts(filters: Filters) -> Iterator[Condition]:
    if filters.tags and filters.any_tag:
        yield make_test(field_at(["tags"]), "in", filters.tags)
    elif filters.tags:
        yield from (make_test(field_at(["tags"]), "eq", tag) for tag in dict.fromkeys(filters.tags))
    if filters.created_from is not None:
        yield make_test(field_at(["created_at"]), "gte", filters.created_from)
    if filters.created_to is not None:
        yield make_test(field_at(["created_at"]), "lte", filters.created_to)
    for name, wanted in (("kind", filters.kind), ("language", filters.language), ("path", filters.path)):
        if wanted is not None:
            yield make_test(field_at([name]), "eq", wanted)
    for test in filters.metadata:
        yield make_test(Field(None, key_path(test.key)), test.op, test.value)
    if filters.where is not None and (condition := read_where(filters.where)) is not None:
        yield condition
