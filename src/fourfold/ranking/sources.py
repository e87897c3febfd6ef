"""Weights of sources: the score of an item is multiplied by the weight of the interface through which it came in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast, get_args

from fourfold.errors import InvalidWeights
from fourfold.model import Source

UNKNOWN: Final = "unknown"
"""Stands for items that were stored before sources were recorded."""
NAMES: Final[tuple[str, ...]] = (*get_args(Source), UNKNOWN)


def checked_source_weights(given: object) -> dict[str, float] | None:
    """Return the weights below 1, None if there are none; raise InvalidWeights if one is not valid."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise _invalid(f"source_weights are {type(given).__name__}, not names with numbers")
    weights = {_name(name): _number(name, value) for name, value in cast("Mapping[object, object]", given).items()}
    return {name: weight for name, weight in weights.items() if weight != 1} or None


def source_weight(weights: Mapping[str, float], source: Source | None) -> float:
    return weights.get(source or UNKNOWN, 1.0)


def _name(name: object) -> str:
    if not isinstance(name, str) or name not in NAMES:
        raise _invalid(f"unknown source {name!r} in source_weights")
    return name


def _number(name: object, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _invalid(f"the weight of the source {name} is {value!r}")
    return abs(float(value))  # of -0.0, too


def _invalid(what: str) -> InvalidWeights:
    return InvalidWeights(what, f"Give numbers from 0 to 1 for any of {', '.join(NAMES)}; others have the weight 1")
