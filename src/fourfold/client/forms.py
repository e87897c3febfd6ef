"""Arguments of the methods of Memory as the JSON of the API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from fourfold import validation as rules
from fourfold.embed.vectors import check_vector
from fourfold.filters import where_json
from fourfold.model import GivenFilters, ItemPatch, Json, NewItem

if TYPE_CHECKING:
    from fourfold.model import Vector


def arguments_form(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Json]:
    """The members of a request: what is not given is left out, and an item or a change of one adds its own fields."""
    form: dict[str, Json] = {}
    for parameter, value in given.items():
        name = names.get(parameter, parameter)
        if value is None or value is False or not name:
            continue
        if isinstance(value, NewItem):
            form |= item_form(value)
        elif isinstance(value, ItemPatch):
            form |= _fields(value, (None, ()))
        elif name == "filters":
            form |= _filter_form(value)
        else:
            form[name] = _json(parameter, value)
    return form


def item_form(item: NewItem) -> dict[str, Json]:
    return _fields(item, (None, (), ""))


def _fields(value: NewItem | ItemPatch, empty: Collection[Json]) -> dict[str, Json]:
    """The fields that are set, without the source, which the server stamps."""
    given = {each.name: getattr(value, each.name) for each in fields(value) if each.name != "source"}
    vector = given.pop("vector", None)  # may be an array, which has no truth value
    form = {name: _json(name, part) for name, part in given.items() if part not in empty}
    return form if vector is None else {**form, "vector": _json("vector", vector)}


def _json(name: str, value: Any) -> Json:
    match value:
        case _ if name == "vector":
            return check_vector(cast("Sequence[float] | Vector", value)).tolist()
        case NewItem():
            return item_form(value)
        case datetime():
            return value.isoformat()
        case str() | bytes() | Mapping():
            return cast("Json", value)
        case Collection():
            return [_json("", each) for each in cast("Collection[Any]", value)]
        case _:
            return value


def _filter_form(filters: GivenFilters) -> dict[str, Json]:
    """Every filter as one condition, which the server reads like the library."""
    condition = rules.checked_filters(filters).condition
    return {} if condition is None else {"filters": {"where": where_json(condition)}}
