"""Presets, and the settings that change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from fourfold import limits
from fourfold.errors import InvalidSetting
from fourfold.ranking.recency import DECAY, STRENGTHS, check_recency
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.ranking.weights import ALPHA_RANGE, configured_weights, is_alpha
from fourfold.retrieval import FusionName, Recency, Tuning


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
    """Replaces the default strength for the fusion (`recency.STRENGTHS`); 1: the score is multiplied by the age."""
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
        return replace(self.memories_recency, strength=STRENGTHS[fusion] if strength is None else strength)

    def _complete(self, name: str, setting: str, preset: str) -> None:
        weights = configured_weights(setting, PRESETS[preset].weights or {}, getattr(self, name))
        object.__setattr__(self, name, weights)


def _check_top_k(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limits.TOP_K:
        raise InvalidSetting(f"RETRIEVAL_TOP_K is {value!r}", f"Set it to a whole number from 1 to {limits.TOP_K}")


def _check_alpha(value: float | None) -> None:
    if value is not None and not is_alpha(value):
        raise InvalidSetting(f"HYBRID_ALPHA is {value!r}", ALPHA_RANGE)
