"""The filter grammar: one tree of conditions, written as text or as plain JSON, evaluated by every store."""

from fourfold.filters.conditions import Condition, Every, Field, Not, Some, Test
from fourfold.filters.reading import Where, read_where, where_json

__all__ = ["Condition", "Every", "Field", "Not", "Some", "Test", "Where", "read_where", "where_json"]
