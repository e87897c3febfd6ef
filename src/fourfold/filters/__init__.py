"""The filter grammar: conditions on items, written as text or as plain JSON, which every store evaluates."""

from fourfold.filters.conditions import Condition, Every, Field, Not, Some, Test, field_at, key_path, make_test
from fourfold.filters.reading import Where, read_where, where_json

__all__ = [
    "Condition",
    "Every",
    "Field",
    "Not",
    "Some",
    "Test",
    "Where",
    "field_at",
    "key_path",
    "make_test",
    "read_where",
    "where_json",
]
