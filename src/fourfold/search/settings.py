"""What the configuration may set for planning, each value in the preset of its seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fourfold import limits
from fourfold.errors import InvalidSetting
from fourfold.model import FusionName, Recency
from fourfold.search.alpha import ALPHA_RANGE, is_alpha
from fourfold.search.presets import PRESETS
from fourfold.search.recency import DECAY, STRENGTHS, check_recency
from fourfold.search.routing import RoutingConfig
from fourfold.search.weights import configured_weights

_WIKI_WEIGHTS: Final = "RETRIEVAL_VECTOR_WEIGHT and RETRIEVAL_BM25_WEIGHT"


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Weights are filled up key by key from the preset. A wrong value is refused here, when it is loaded."""

    wiki_top_k: int = PRESETS["wiki"].top_k
    wiki_weights: Mapping[str, float] = field(default_factory=dict[str, float])
    insights_weights: Mapping[str, float] = field(default_factory=dict[str, float])
    routing: RoutingConfig = field(default_factory=RoutingConfig)
    memories_alpha: float | None = None
    """HYBRID_ALPHA; None: adaptive."""
    memories_recency: Recency = field(default_factory=lambda: Recency(DECAY))
    memories_recency_strength: float | None = None
    """Replaces the strength that belongs to the fusion (`recency.STRENGTHS`); 1 is the source document's formula."""

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
        raise InvalidSetting(f"RETRIEVAL_TOP_K is {value!r}", f"It is a whole number from 1 to {limits.TOP_K}")


def _check_alpha(value: float | None) -> None:
    if value is not None and not is_alpha(value):
        raise InvalidSetting(f"HYBRID_ALPHA is {value!r}", ALPHA_RANGE)
