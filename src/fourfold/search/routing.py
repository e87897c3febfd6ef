"""Query routing (S4.3): relational words, whole and in any case, mark a question about relations."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from fourfold.search.weights import configured_weights

QueryType: TypeAlias = Literal["standard", "relational"]

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

_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class RoutingConfig:
    """`query_routing` of the configuration; what is left out is the seed's, weights key by key."""

    de: tuple[str, ...] = RELATIONAL_DE
    en: tuple[str, ...] = RELATIONAL_EN
    relational_weights: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        name = "query_routing.relational_weights"
        weights = configured_weights(name, RELATIONAL_WEIGHTS, self.relational_weights)
        object.__setattr__(self, "relational_weights", weights)


def route(text: str, config: RoutingConfig) -> tuple[QueryType, tuple[str, ...]]:
    """The type of the query, and the configured words that made it relational."""
    words = _as_words(text)
    matched = tuple(keyword for keyword, needle in _needles(config.de + config.en) if needle in words)
    return ("relational" if matched else "standard"), matched


@lru_cache(maxsize=16)
def _needles(keywords: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    needles = ((keyword, _as_words(keyword)) for keyword in dict.fromkeys(keywords))
    return tuple((keyword, needle) for keyword, needle in needles if needle.strip())


def _as_words(text: str) -> str:
    """Folded words with a space around each, so that `in` compares whole words and phrases."""
    folded = unicodedata.normalize("NFC", text).casefold().translate(_UMLAUTS)
    return f" {' '.join(_WORD.findall(folded))} "
