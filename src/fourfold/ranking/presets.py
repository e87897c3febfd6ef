"""Presets with their weights, the settings that change them, and tuned presets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, cast

from fourfold import limits
from fourfold.errors import InvalidSetting, InvalidWeights
from fourfold.ranking.factors import DECAY, RECENCY_STRENGTHS, check_recency
from fourfold.ranking.retrievers import RETRIEVERS, names_of_all
from fourfold.retrieval import FusionName, Recency, Tuning

# ---------------------------------------------------------------- weights

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


def complete_pair(weights: object, graph: float) -> dict[str, float]:
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


# ---------------------------------------------------------------- presets


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    uses: tuple[str, ...] | None
    """Names of the retrievers to run; None: all."""
    weights: Mapping[str, float] | None
    """None: chosen per query (in `memories`, except the weights that alpha sets)."""
    fusion: FusionName = "rrf"
    k: int = 60
    top_k: int = 10
    routing: Literal["off", "reported", "acts"] = "off"
    recency: Recency | None = None
    score_weights: Mapping[str, float] | None = None
    """Replaces `weights` if scores are fused (`weighted`, `auto`) instead of ranks."""
    per_source: int | None = None
    """Maximum number of results from one file."""

    @property
    def retrievers(self) -> tuple[str, ...]:
        return tuple(RETRIEVERS) if self.uses is None else self.uses


_TABLE = (
    Preset("auto", None, None, fusion="auto", routing="reported", per_source=2),
    Preset("insights-basic", ("semantic", "keyword"), {"semantic": 0.7, "keyword": 0.3}, top_k=5),
    Preset(
        "insights",
        ("semantic", "keyword", "graph"),
        {"semantic": 0.6, "keyword": 0.2, "graph": 0.2},
        top_k=5,
        routing="acts",
    ),
    Preset("wiki", ("semantic", "keyword"), {"semantic": 0.5, "keyword": 0.5}, top_k=20),
    Preset(
        "files",
        ("semantic", "keyword"),
        {"semantic": 1.0, "keyword": 1.0},
        score_weights={"semantic": 0.6, "keyword": 0.4},
    ),
    Preset("memories", None, None, fusion="auto", recency=Recency(decay=0.01, strength=0.2)),
)

PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in _TABLE}


# ---------------------------------------------------------------- settings

RELATIONAL_DE: Final = (
    "nutzt",
    "verwendet",
    "verbunden",
    "abhängig",
    "Projekt",
    "Technologie",
    "gehört zu",
    "hat",
)
RELATIONAL_EN: Final = ("uses", "connected", "dependent", "project", "technology", "belongs to", "has")
RELATIONAL_WEIGHTS: Final[Mapping[str, float]] = {"semantic": 0.4, "keyword": 0.2, "graph": 0.4}


@dataclass(frozen=True, slots=True)
class RoutingConfig:
    """The section `query_routing` of the configuration; missing weights have their defaults."""

    de: tuple[str, ...] = RELATIONAL_DE
    en: tuple[str, ...] = RELATIONAL_EN
    relational_weights: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        name = "query_routing.relational_weights"
        weights = configured_weights(name, RELATIONAL_WEIGHTS, self.relational_weights)
        object.__setattr__(self, "relational_weights", weights)


_WIKI_WEIGHTS: Final = "RETRIEVAL_VECTOR_WEIGHT and RETRIEVAL_BM25_WEIGHT"


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Settings of the presets. Missing weights are those of the preset; an invalid value raises InvalidSetting."""

    wiki_top_k: int = PRESETS["wiki"].top_k
    wiki_weights: Mapping[str, float] = field(default_factory=dict[str, float])
    insights_weights: Mapping[str, float] = field(default_factory=dict[str, float])
    routing: RoutingConfig = field(default_factory=RoutingConfig)
    memories_alpha: float | None = None
    """Set by HYBRID_ALPHA; None: adaptive."""
    memories_recency: Recency = field(default_factory=lambda: Recency(DECAY))
    memories_recency_strength: float | None = None
    """Replaces the default for the fusion (`factors.RECENCY_STRENGTHS`); 1: the score is multiplied by the age."""
    tuned: Mapping[str, Tuning] = field(default_factory=dict[str, Tuning])
    """Tuned presets by name."""

    def __post_init__(self) -> None:
        self._complete("wiki_weights", _WIKI_WEIGHTS, "wiki")
        self._complete("insights_weights", "hybrid_search_weights", "insights")
        _check_top_k(self.wiki_top_k)
        _check_alpha(self.memories_alpha)
        check_recency(self.recency("auto"))

    def recency(self, fusion: FusionName) -> Recency:
        strength = self.memories_recency_strength
        return replace(self.memories_recency, strength=RECENCY_STRENGTHS[fusion] if strength is None else strength)

    def _complete(self, name: str, setting: str, preset: str) -> None:
        weights = configured_weights(setting, PRESETS[preset].weights or {}, getattr(self, name))
        object.__setattr__(self, name, weights)


def _check_top_k(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limits.TOP_K:
        raise InvalidSetting(f"RETRIEVAL_TOP_K is {value!r}", f"Set it to a whole number from 1 to {limits.TOP_K}")


def _check_alpha(value: float | None) -> None:
    if value is not None and not is_alpha(value):
        raise InvalidSetting(f"HYBRID_ALPHA is {value!r}", ALPHA_RANGE)


# ---------------------------------------------------------------- tuned presets

TUNED_PRESET: Final = "auto"
"""The preset that tunings change."""
LARGEST_BALANCE: Final = 4.0
LARGEST_FACTOR: Final = 8.0


def checked_tuning(tuning: Tuning) -> Tuning:
    """Return the tuning; raise InvalidSetting if a number or its name is not valid."""
    name = tuning.name
    if name in PRESETS or not name.replace("-", "_").isidentifier():
        raise InvalidSetting(
            f"a tuned preset cannot be called {name!r}",
            f"Use letters, digits and hyphens, and none of {', '.join(PRESETS)}",
        )
    if not abs(tuning.balance) <= LARGEST_BALANCE:
        raise InvalidSetting(
            f"the balance of {name} is {tuning.balance!r}", f"Choose -{LARGEST_BALANCE:g} to {LARGEST_BALANCE:g}"
        )
    for part, factor in (("graph", tuning.graph), ("tags", tuning.tags)):
        if not 0 <= factor <= LARGEST_FACTOR:
            raise InvalidSetting(f"the factor of {part} in {name} is {factor!r}", f"Choose 0 to {LARGEST_FACTOR:g}")
    return tuning


def explained(tuning: Tuning) -> list[str]:
    """Return a sentence for each number that changes something."""
    lines: list[str] = []
    if tuning.balance:
        first, second = ("vectors", "words") if tuning.balance > 0 else ("words", "vectors")
        factor = math.exp(abs(tuning.balance))
        lines.append(f"balance {tuning.balance:+g}: {first} weigh {factor:.2f} times more against {second}")
    for part, factor in (("graph", tuning.graph), ("tags", tuning.tags)):
        if factor != 1:
            lines.append(f"{part} {factor:g}: its share is {f'{factor:g} times that of auto' if factor else 'nothing'}")
    return lines or ["nothing differs from auto"]
