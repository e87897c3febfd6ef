"""Settings under the names of the systems that Fourfold replaces, each in the preset that replaces one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fourfold.config.kinds import RATE, SHARE, WORDS, Given, Setting, of_option
from fourfold.errors import InvalidSetting, InvalidWeights
from fourfold.ranking.options import OPTIONS
from fourfold.ranking.presets import RELATIONAL_DE, RELATIONAL_EN, RELATIONAL_WEIGHTS, PlanSettings, RoutingConfig
from fourfold.ranking.weights import check_weights
from fourfold.retrieval import Recency

_DEFAULT: Final = PlanSettings()
_WIKI_WEIGHTS: Final = {"semantic": "retrieval_vector_weight", "keyword": "retrieval_bm25_weight"}
_ROUTING: Final = "query_routing.relational_"


def _weights(section: str, weights: Mapping[str, float]) -> dict[str, Setting]:
    return {f"{section}.{name}": Setting(SHARE, weight, "insights") for name, weight in weights.items()}


INHERITED: Final[Mapping[str, Setting]] = {
    "retrieval_top_k": Setting(of_option(OPTIONS["top_k"]), _DEFAULT.wiki_top_k, "wiki", "RETRIEVAL_TOP_K"),
    **{
        setting: Setting(SHARE, _DEFAULT.wiki_weights[name], "wiki", setting.upper())
        for name, setting in _WIKI_WEIGHTS.items()
    },
    "hybrid_alpha": Setting(SHARE, _DEFAULT.memories_alpha, "memories", "HYBRID_ALPHA"),
    "recency_decay": Setting(RATE, _DEFAULT.memories_recency.decay, "memories", "RECENCY_DECAY"),
    "recency_floor": Setting(SHARE, _DEFAULT.memories_recency.floor, "memories"),
    "recency_strength": Setting(SHARE, _DEFAULT.memories_recency_strength, "memories"),
    **_weights("hybrid_search_weights", _DEFAULT.insights_weights),
    f"{_ROUTING}keywords.de": Setting(WORDS, RELATIONAL_DE, "insights"),
    f"{_ROUTING}keywords.en": Setting(WORDS, RELATIONAL_EN, "insights"),
    **_weights(f"{_ROUTING}weights", RELATIONAL_WEIGHTS),
}


def plan_settings(given: Mapping[str, Given]) -> PlanSettings:
    """The settings of presets that these settings stand for."""
    insights = {name: f"hybrid_search_weights.{name}" for name in _DEFAULT.insights_weights}
    relational = {name: f"{_ROUTING}weights.{name}" for name in RELATIONAL_WEIGHTS}
    return PlanSettings(
        wiki_top_k=given["retrieval_top_k"].value,
        wiki_weights=_checked_weights(given, _WIKI_WEIGHTS),
        insights_weights=_checked_weights(given, insights),
        routing=RoutingConfig(
            de=given[f"{_ROUTING}keywords.de"].value,
            en=given[f"{_ROUTING}keywords.en"].value,
            relational_weights=_checked_weights(given, relational),
        ),
        memories_alpha=given["hybrid_alpha"].value,
        memories_recency=Recency(given["recency_decay"].value, given["recency_floor"].value),
        memories_recency_strength=given["recency_strength"].value,
    )


def _checked_weights(given: Mapping[str, Given], settings: Mapping[str, str]) -> dict[str, float]:
    """The weights by retriever; InvalidSetting says where each came from if they do not sum to 1."""
    weights = {retriever: given[name].value for retriever, name in settings.items()}
    try:
        check_weights(weights)
    except InvalidWeights as wrong:
        places = "; ".join(f"{name} {given[name].value} ({given[name].origin})" for name in settings.values())
        raise InvalidSetting(f"{wrong.message}: {places}", "Set all of them, so that they sum to 1") from wrong
    return weights
