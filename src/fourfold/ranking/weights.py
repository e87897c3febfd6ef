"""Weights of retrievers: invalid ones are rejected with the exact reason, never silently normalised."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, cast

from fourfold.errors import InvalidSetting, InvalidWeights
from fourfold.ranking.retrievers import RETRIEVERS, names_of_all

TOLERANCE: Final = 1e-9
_FINITE = 1e300
"""Exclusive upper bound; also rejects NaN, and integers too large for a float."""


def check_weights(weights: object) -> dict[str, float]:
    """Return weights for all retrievers, 0 for those left out; raise InvalidWeights if they are not valid."""
    if not isinstance(weights, Mapping):
        raise _invalid(f"weights are {type(weights).__name__}, not names with numbers")
    given = cast("Mapping[object, object]", weights)
    if not given:
        raise _invalid("weights are empty")
    checked = {_check_name(name): _check_number(name, value) for name, value in given.items()}
    _check_sum(checked.values())
    return {name: checked.get(name, 0.0) for name in RETRIEVERS}


def complete_for_insights(weights: object, graph: float) -> dict[str, float]:
    """Add the configured `graph` weight to a pair of just semantic and keyword, which share the rest."""
    checked = check_weights(weights)
    if set(cast("Mapping[str, float]", weights)) != {"semantic", "keyword"}:
        return checked
    completed = {name: weight * (1 - graph) for name, weight in checked.items()}
    return {**completed, "graph": graph}


def configured_weights(setting: str, defaults: Mapping[str, float], given: Mapping[str, float]) -> dict[str, float]:
    """Fill up configured weights from `defaults`; raise InvalidSetting with the setting's name if they are invalid."""
    merged = {**defaults, **given}
    try:
        check_weights(merged)
    except InvalidWeights as wrong:
        raise InvalidSetting(f"{setting}: {wrong.message}", wrong.remedy) from wrong
    return merged


def _invalid(what: str) -> InvalidWeights:
    return InvalidWeights(what, f"Weights are numbers from 0 to 1 for any of {names_of_all()} that sum to 1")


def _check_name(name: object) -> str:
    if not isinstance(name, str) or name not in RETRIEVERS:
        raise _invalid(f"unknown retriever {name!r} in the weights")
    return name


def _check_number(name: object, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(f"the weight of {name} is {value!r}, not a number")
    if not abs(value) < _FINITE:
        raise _invalid(f"the weight of {name} is {value!r}, not a finite number")
    if value < 0:
        raise _invalid(f"the weight of {name} is {value!r}, below 0")
    return float(value)


def _check_sum(values: Iterable[float]) -> None:
    total = math.fsum(values)
    if abs(total - 1) > TOLERANCE:
        raise _invalid(f"weights sum to {total!r}, not to 1")


# ---------------------------------------------------------------- alpha: 1 is vectors only, 0 is tags only

SMALL_STORE_ITEMS: Final = 500
LARGE_STORE_ITEMS: Final = 5000
MANY_TAGS: Final = 3
TAG_BOOST: Final = 1.5

ALPHA_RANGE: Final = "Set alpha to a number from 0 (tags only) to 1 (vectors only)"


def adaptive_alpha(items: int) -> float:
    """Return a larger alpha for a larger store: the more items share a tag, the weaker it is as evidence."""
    if items < SMALL_STORE_ITEMS:
        return 0.5
    return 0.7 if items <= LARGE_STORE_ITEMS else 0.8


def alpha_weights(alpha: float, matching_tags: int = 0) -> dict[str, float]:
    """Return the weights for an alpha; tags are boosted if the query names three or more of them.

    The boost is for adaptive alphas; leave `matching_tags` at 0 for an explicit one.
    """
    if matching_tags < MANY_TAGS:
        return {"semantic": float(alpha), "tags": 1.0 - alpha}
    tags = min(1.0, TAG_BOOST * (1 - alpha))
    return {"semantic": 1 - tags, "tags": tags}


def is_alpha(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
