"""The presets, one per seed system and `auto`: the table of the specification as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from fourfold.errors import InvalidQuery
from fourfold.model import RETRIEVERS, FusionName, Recency, RetrieverName


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    retrievers: tuple[RetrieverName, ...]
    weights: Mapping[str, float] | None
    """None: chosen per query; in `memories` beside the weights that alpha fixes."""
    fusion: FusionName = "rrf"
    k: int = 60
    top_k: int = 10
    routing: Literal["off", "reported", "acts"] = "off"
    recency: Recency | None = None
    score_weights: Mapping[str, float] | None = None
    """What replaces `weights` where scaled scores are fused (`weighted`, `auto`) instead of ranks."""
    per_source: int | None = None
    """At most this many results of one file (B12)."""


_TABLE = (
    Preset("auto", RETRIEVERS, None, fusion="auto", routing="reported", per_source=2),
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
    Preset("memories", RETRIEVERS, None, fusion="auto", recency=Recency(decay=0.01, strength=0.2)),
)

PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in _TABLE}


def find_preset(name: str) -> Preset:
    if name not in PRESETS:
        raise InvalidQuery(f"there is no preset {name!r}", f"The presets are {', '.join(PRESETS)}")
    return PRESETS[name]
