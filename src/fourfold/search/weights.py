"""Weights of a caller or of the configuration: refused with the exact reason, never silently normalised."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, cast

from fourfold.errors import InvalidSetting, InvalidWeights
from fourfold.model import RETRIEVERS

TOLERANCE: Final = 1e-9
_FINITE = 1e300
"""Also refuses NaN, and whole numbers that no float can hold."""
_REMEDY = f"Weights are numbers from 0 to 1 for any of {', '.join(RETRIEVERS)} that sum to 1"


def check_weights(weights: object) -> dict[str, float]:
    """All four weights; a name left out is 0.

    Raises InvalidWeights that says what is wrong: an unknown name, not a finite number, negative, the sum.
    """
    if not isinstance(weights, Mapping):
        raise InvalidWeights(f"weights are {type(weights).__name__}, not names with numbers", _REMEDY)
    given = cast("Mapping[object, object]", weights)
    if not given:
        raise InvalidWeights("weights are empty", _REMEDY)
    checked = {_check_name(name): _check_number(name, value) for name, value in given.items()}
    _check_sum(checked.values())
    return {name: checked.get(name, 0.0) for name in RETRIEVERS}


def complete_for_insights(weights: object, graph: float) -> dict[str, float]:
    """S4.4: the exact pair {semantic, keyword} gets the configured `graph` weight and shares the rest."""
    checked = check_weights(weights)
    if set(cast("Mapping[str, float]", weights)) != {"semantic", "keyword"}:
        return checked
    completed = {name: weight * (1 - graph) for name, weight in checked.items()}
    return {**completed, "graph": graph}


def configured_weights(setting: str, defaults: Mapping[str, float], given: Mapping[str, float]) -> dict[str, float]:
    """Weights of the configuration, filled up per key from `defaults`; InvalidSetting names the setting."""
    merged = {**defaults, **given}
    try:
        check_weights(merged)
    except InvalidWeights as wrong:
        raise InvalidSetting(f"{setting}: {wrong.message}", wrong.remedy) from wrong
    return merged


def scaled_to_one(weights: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """The weights of `names`, scaled to sum 1; empty if they are all zero."""
    kept = {name: weights[name] for name in names if weights.get(name, 0.0) > 0}
    total = math.fsum(kept.values())
    return {name: weight / total for name, weight in kept.items()}


def _check_name(name: object) -> str:
    if not isinstance(name, str) or name not in RETRIEVERS:
        raise InvalidWeights(f"there is no retriever {name!r} to weight", _REMEDY)
    return name


def _check_number(name: object, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidWeights(f"the weight of {name} is {value!r}, not a number", _REMEDY)
    if not abs(value) < _FINITE:
        raise InvalidWeights(f"the weight of {name} is {value!r}, not a finite number", _REMEDY)
    if value < 0:
        raise InvalidWeights(f"the weight of {name} is {value!r}, below 0", _REMEDY)
    return float(value)


def _check_sum(values: Iterable[float]) -> None:
    total = math.fsum(values)
    if abs(total - 1) > TOLERANCE:
        raise InvalidWeights(f"weights sum to {total!r}, not to 1", _REMEDY)
