"""Filters as a predicate (B5)."""

from __future__ import annotations

import json

from fourfold.model import Filters, Item, Json, MetadataTest
from fourfold.stores.globs import matches
from fourfold.text.fold import fold


def passes(item: Item, filters: Filters) -> bool:
    return (
        _has_tags(item, filters)
        and (filters.created_from is None or item.created_at >= filters.created_from)
        and (filters.created_to is None or item.created_at <= filters.created_to)
        and (filters.kind is None or item.kind == filters.kind)
        and (filters.language is None or item.language == filters.language)
        and (filters.path is None or matches(filters.path, item.path))
        and all(_holds(test, item) for test in filters.metadata)
    )


def _has_tags(item: Item, filters: Filters) -> bool:
    wanted, carried = {fold(tag) for tag in filters.tags}, {fold(tag) for tag in item.tags}
    return not wanted or bool(wanted & carried if filters.any_tag else wanted <= carried)


def _holds(test: MetadataTest, item: Item) -> bool:
    """Compares like with like: numbers with numbers, strings with strings, true with true."""
    if test.key not in item.metadata:
        return False
    (kind, found), (wanted_kind, wanted) = _comparable(item.metadata[test.key]), _comparable(test.value)
    if kind != wanted_kind:
        return False
    if kind == "null":
        return True
    return found == wanted if test.op == "eq" else found < wanted if test.op == "lt" else found >= wanted


def _comparable(data: Json) -> tuple[str, Json]:
    match data:
        case None:
            return "null", None
        case bool():
            return "bool", data
        case int() | float():
            return "number", data
        case str():
            return "text", data
        case _:
            return "json", json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
