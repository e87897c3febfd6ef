"""Arguments as the JSON of the API."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING, cast

from fourfold import validation as rules
from fourfold.embed.vectors import check_vector
from fourfold.filters import where_json
from fourfold.model import GivenFilters, ItemPatch, Json, NewItem

if TYPE_CHECKING:
    from fourfold.model import Vector


def without_defaults(body: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in body.items() if value is not None and value is not False}


def asked(given: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments of a search."""
    form: dict[str, Json] = {}
    for name, value in given.items():
        match name, value:
            case "vector", _:
                form[name] = vector_form(value)
            case "filters", _:
                form[name] = filter_form(value)
            case "text", _:
                form["query"] = value
            case _, datetime():
                form[name] = value.isoformat()
            case _, str() | Mapping():
                form[name] = value
            case _, Collection():
                form[name] = list(cast("Collection[Json]", value))
            case _:
                form[name] = value
    return without_defaults(form)


def vector_form(vector: Sequence[float] | Vector | None) -> list[float] | None:
    return None if vector is None else check_vector(vector).tolist()


def fields(value: NewItem | ItemPatch) -> dict[str, Json]:
    """Without the source, which the server stamps."""
    names = [field.name for field in dataclasses.fields(value) if field.name != "source"]
    return {name: getattr(value, name) for name in names}


def patch_form(patch: ItemPatch) -> dict[str, Json]:
    return {name: value for name, value in fields(patch).items() if value not in (None, ())}


def item_form(item: NewItem) -> dict[str, Json]:
    values = fields(item)
    vector = values.pop("vector")  # may be an array, which has no truth value
    form = {name: value for name, value in values.items() if value not in (None, (), "")}
    form = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in form.items()}
    return form if vector is None else {**form, "vector": vector_form(vector)}


def filter_form(filters: GivenFilters | None) -> dict[str, Json] | None:
    """Every filter as one condition, which the server reads like the library."""
    condition = rules.checked_filters(filters).condition
    return None if condition is None else {"where": where_json(condition)}


def where_query(filters: GivenFilters | None) -> dict[str, str]:
    form = filter_form(filters)
    return {} if form is None else {"where": dumps(form["where"])}
