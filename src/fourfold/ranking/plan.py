"""Planning a search: its presets and their settings, the retrievers to run, their weights, and the fusion."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, cast, get_args

from fourfold import limits
from fourfold.errors import InvalidQuery, InvalidSetting, InvalidWeights
from fourfold.frozen import value
from fourfold.ranking.factors import DECAY, RECENCY_STRENGTHS, checked_source_weights
from fourfold.ranking.questions import QueryType, asks_for_another, is_ordinary, route
from fourfold.ranking.retrievers import EXPANSIONS, RETRIEVERS, names_of_all
from fourfold.retrieval import FusionName, Plan, Recency, Tuning
from fourfold.text.fold import folded_words

# ---------------------------------------------------------------- weights

TOLERANCE: Final = 1e-9
_FINITE = 1e300
"""Exclusive upper bound; also rejects NaN, and integers too large for a float."""


def check_weights(weights: object) -> dict[str, float]:
    """Return weights for all retrievers, 0 for those left out; raise InvalidWeights if they are not valid."""
    if not isinstance(weights, Mapping):
        raise _invalid(f"weights are {type(weights).__name__}, not names with numbers")
    numbers = cast("Mapping[object, object]", weights)
    if not numbers:
        raise _invalid("weights are empty")
    checked = {_check_name(name): _check_number(name, value) for name, value in numbers.items()}
    _check_sum(checked.values())
    return {name: checked.get(name, 0.0) for name in RETRIEVERS}


def scaled_to_one(weights: Mapping[str, float], names: Iterable[str]) -> dict[str, float]:
    """Return the weights of `names` scaled to sum 1; empty if all are zero."""
    kept = {name: weights[name] for name in names if weights.get(name, 0.0) > 0}
    total = math.fsum(kept.values())
    return {name: weight / total for name, weight in kept.items()}


def complete_pair(weights: object, graph: float) -> dict[str, float]:
    """Add the configured `graph` weight to a pair of just semantic and keyword, which share the rest."""
    checked = check_weights(weights)
    if set(cast("Mapping[str, float]", weights)) != {"semantic", "keyword"}:
        return checked
    completed = {name: weight * (1 - graph) for name, weight in checked.items()}
    return {**completed, "graph": graph}


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
    """The section `query_routing` of the configuration."""

    de: tuple[str, ...] = RELATIONAL_DE
    en: tuple[str, ...] = RELATIONAL_EN
    relational_weights: Mapping[str, float] = field(default_factory=lambda: RELATIONAL_WEIGHTS)


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Settings of the presets, which `config` checks."""

    wiki_top_k: int = PRESETS["wiki"].top_k
    wiki_weights: Mapping[str, float] = field(default_factory=lambda: PRESETS["wiki"].weights or {})
    insights_weights: Mapping[str, float] = field(default_factory=lambda: PRESETS["insights"].weights or {})
    routing: RoutingConfig = field(default_factory=RoutingConfig)
    memories_alpha: float | None = None
    """Set by HYBRID_ALPHA; None: adaptive."""
    memories_recency: Recency = field(default_factory=lambda: Recency(DECAY))
    memories_recency_strength: float | None = None
    """Replaces the default for the fusion (`factors.RECENCY_STRENGTHS`); 1: the score is multiplied by the age."""
    tuned: Mapping[str, Tuning] = field(default_factory=dict[str, Tuning])
    """Tuned presets by name."""

    def recency(self, fusion: FusionName) -> Recency:
        strength = self.memories_recency_strength
        return replace(self.memories_recency, strength=RECENCY_STRENGTHS[fusion] if strength is None else strength)


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


# ---------------------------------------------------------------- rerankers and the cut

OFF: Final = "off"
AUTO: Final = "auto"
BUILT_IN: Final = "ms-marco"
ENDPOINT: Final = "endpoint"
FOLDER_PREFIX: Final = "onnx:"
RERANKERS: Final = f"{OFF}, {AUTO}, {BUILT_IN}, {ENDPOINT} or {FOLDER_PREFIX}FOLDER"
RERANKERS_REMEDY: Final = f"Choose {RERANKERS}"

CUTS: Final = (AUTO, OFF)


def checked_cut(value: object) -> bool:
    """Return whether to leave out results that most likely do not answer; raise InvalidQuery otherwise."""
    if value not in CUTS:
        raise InvalidQuery(f"cut is {value!r}", f"Choose {' or '.join(CUTS)}")
    return value == AUTO


def is_rerank(value: object) -> bool:
    """Whether the value names a reranker, or is `off` or `auto`."""
    if not isinstance(value, str):
        return False
    folder = value.removeprefix(FOLDER_PREFIX)
    return value in (OFF, AUTO, BUILT_IN, ENDPOINT) or "" != folder != value


def checked_rerank(value: object) -> str | None:
    """Return the name of a reranker or `auto`, and None for `off`; raise InvalidQuery for anything else."""
    if not is_rerank(value):
        raise InvalidQuery(f"rerank is {value!r}", RERANKERS_REMEDY)
    return None if value == OFF else str(value)


# ---------------------------------------------------------------- the plan of one search


@value
class PlanRequest:
    """Options of one search; None means the preset's value."""

    text: str
    preset: str = "auto"
    fusion: str | None = None
    weights: Mapping[str, float] | None = None
    alpha: float | None = None
    top_k: int | None = None
    only: Collection[str] | None = None
    k: int | None = None
    recency: float | None = None
    """Strength, in any preset; None: that of the preset."""
    rerank: str = OFF
    source_weights: Mapping[str, float] | None = None


@value
class StoreFacts:
    """Facts about the store that influence a plan."""

    items: int = 0
    matching_tags: int = 0
    """Number of distinct tags that the query names."""


def make_plan(request: PlanRequest, settings: PlanSettings, facts: StoreFacts) -> Plan:
    """Make the plan for a request; raise InvalidQuery or InvalidWeights if an option is not valid."""
    tuning = settings.tuned.get(request.preset)
    if (preset := PRESETS.get(request.preset if tuning is None else TUNED_PRESET)) is None:
        raise InvalidQuery(
            f"unknown preset {request.preset!r}", f"The presets are {', '.join([*PRESETS, *settings.tuned])}"
        )
    check_text(request.text)
    if request.alpha is not None:
        _check_alpha_of(request, request.alpha)
    planning = _Planning(request, preset, settings, facts, _fusion(request, preset, settings))
    query_type, matched = _route(request.text, preset, settings)
    weights = planning.weights(query_type)
    retrievers = planning.retrievers(weights)
    return Plan(
        preset=preset.name,
        retrievers=retrievers,
        fusion=planning.fusion,
        k=_count("rrf_k", request.k, preset.k),
        top_k=_count(
            "top_k", request.top_k, settings.wiki_top_k if preset.name == "wiki" else preset.top_k, limits.TOP_K
        ),
        weights=None if weights is None else {name: weights[name] for name in retrievers},
        fixed=planning.fixed(retrievers) if weights is None else None,
        recency=_recency(request, preset, settings, planning.fusion),
        query_type=query_type,
        matched_keywords=matched,
        if_related=None if matched else planning.if_related(retrievers),
        expand=_expands(request, planning.fusion, retrievers),
        rerank=None if request.rerank == OFF else checked_rerank(request.rerank),
        tuning=tuning,
        source_weights=None if request.source_weights is None else checked_source_weights(request.source_weights),
    )


@value
class _Planning:
    """Retrievers and weights of one plan."""

    request: PlanRequest
    preset: Preset
    settings: PlanSettings
    facts: StoreFacts
    fusion: FusionName

    def weights(self, query_type: QueryType) -> Mapping[str, float] | None:
        """The caller's weights, else the preset's for the retrievers in `only`; None: `auto` chooses per query."""
        request, default = self.request, self._default_weights(query_type)
        if request.weights is not None:
            if self.preset.name in ("insights", "auto") and (request.only is None or "graph" in request.only):
                return complete_pair(request.weights, self.settings.insights_weights["graph"])
            return check_weights(request.weights)
        if request.only is None:
            return default
        kept = _kept(request.only, self.preset)
        if len(kept) == 1:
            return {kept[0]: 1.0}
        if default is None or set(kept) == set(self.preset.retrievers):
            return default
        return scaled_to_one(default, kept)

    def _default_weights(self, query_type: QueryType) -> Mapping[str, float] | None:
        preset, settings = self.preset, self.settings
        match preset.name:
            case "insights":
                relational = query_type == "relational"
                return settings.routing.relational_weights if relational else settings.insights_weights
            case "wiki":
                return settings.wiki_weights
            case "memories":
                alpha = _alpha(self.request, settings)
                if alpha is not None:
                    return alpha_weights(alpha)
                return None if self.fusion == "auto" else self._adaptive_weights()
            case "auto":
                if self.fusion == "auto":
                    return None
                names = preset.retrievers if self.request.only is None else _kept(self.request.only, preset)
                return {name: 1 / len(names) for name in names}
            case _:
                by_scores = self.fusion != "rrf" and preset.score_weights is not None
                return preset.score_weights if by_scores else preset.weights

    def _adaptive_weights(self) -> dict[str, float]:
        """Weights of vectors and tags for the size of the store."""
        return alpha_weights(adaptive_alpha(self.facts.items), self.facts.matching_tags)

    def fixed(self, retrievers: Collection[str]) -> dict[str, float] | None:
        """Weights of vectors and tags set by alpha while `auto` chooses the others."""
        if self.preset.name != "memories":
            return None
        return {name: weight for name, weight in self._adaptive_weights().items() if name in retrievers} or None

    def if_related(self, retrievers: Collection[str]) -> Mapping[str, float] | None:
        """Weights for a question whose subject has relations; None if routing does not apply."""
        if self.preset.routing == "off" or "graph" not in retrievers or not asks_for_another(self.request.text):
            return None
        relational = self.weights("relational")
        return {} if relational is None else {name: relational[name] for name in retrievers}

    def retrievers(self, weights: Mapping[str, float] | None) -> tuple[str, ...]:
        """The retrievers in `only` that have a weight."""
        only, preset = self.request.only, self.preset
        if only is None and weights is None:
            return preset.retrievers
        allowed = tuple(RETRIEVERS) if only is None else _names(only)
        if weights is None:
            return tuple(name for name in preset.retrievers if name in allowed)
        planned: tuple[str, ...] = tuple(name for name in allowed if weights.get(name, 0.0) > 0)
        if not planned:
            raise InvalidQuery(f"no weight is given for {' or '.join(allowed)}", "Give a weight, or leave `only` out")
        return planned


def _alpha(request: PlanRequest, settings: PlanSettings) -> float | None:
    """The alpha of the request, else of the environment; None: adaptive."""
    return settings.memories_alpha if request.alpha is None else request.alpha


def _kept(only: Collection[str], preset: Preset) -> tuple[str, ...]:
    """The retrievers in `only`, all of which the preset must use."""
    names = _names(only)
    foreign = [name for name in names if name not in preset.retrievers]
    if foreign:
        what = f"the preset {preset.name} does not use {', '.join(foreign)}"
        raise InvalidQuery(what, "Use --preset auto, or give weights")
    return names


def _names(only: Collection[str]) -> tuple[str, ...]:
    unknown = [name for name in only if name not in RETRIEVERS]
    if unknown or not only:
        what = f"unknown retriever {unknown[0]!r}" if unknown else "`only` names no retriever"
        raise InvalidQuery(what, f"The retrievers are {names_of_all()}")
    return tuple(name for name in RETRIEVERS if name in only)


def _expands(request: PlanRequest, fusion: FusionName, retrievers: Iterable[str]) -> bool:
    """Whether graph or tags search from the best hits; a caller's weight for tags covers tags in the query only."""
    if fusion != "auto" or request.preset not in ("auto", "memories"):
        return False
    if request.only is not None and {"semantic", "keyword"}.isdisjoint(request.only):
        return False
    able = [name for name in EXPANSIONS if request.weights is None or RETRIEVERS[name].expands_weighted]
    return not set(able).isdisjoint(retrievers)


# ---------------------------------------------------------------- the rest of the request


def check_text(text: str) -> None:
    """Raise InvalidQuery for an empty query, or one of more than 32 KB."""
    if not text.strip():
        raise InvalidQuery("the query is empty", "Give at least one word")
    if len(text) <= limits.QUERY_BYTES // 4:  # no character has more bytes
        return
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.QUERY_BYTES:
        raise InvalidQuery(f"the query has {size} bytes", f"Shorten it to at most {limits.QUERY_BYTES} bytes")


def _check_alpha_of(request: PlanRequest, alpha: object) -> None:
    if request.preset != "memories":
        raise InvalidQuery(f"the preset {request.preset} does not use alpha", "Use it with --preset memories")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
        raise InvalidQuery(f"alpha is {alpha!r}", "Set alpha to a number from 0 (tags only) to 1 (vectors only)")


def _fusion(request: PlanRequest, preset: Preset, settings: PlanSettings) -> FusionName:
    """The fusion of the request, else of the preset; an explicit alpha implies `rrf` of vectors and tags."""
    if request.fusion is None:
        by_alpha = preset.name == "memories" and _alpha(request, settings) is not None
        return "rrf" if by_alpha else preset.fusion
    if request.fusion not in get_args(FusionName):
        raise InvalidQuery(f"unknown fusion {request.fusion!r}", f"The fusions are {', '.join(get_args(FusionName))}")
    return cast("FusionName", request.fusion)


def _route(text: str, preset: Preset, settings: PlanSettings) -> tuple[QueryType, tuple[str, ...]]:
    if preset.routing == "off":
        return "standard", ()
    routed = route(text, settings.routing)
    return ("standard", ()) if routed[1] and is_ordinary(folded_words(text), routed[1]) else routed


def _recency(request: PlanRequest, preset: Preset, settings: PlanSettings, fusion: FusionName) -> Recency | None:
    strength = request.recency
    if strength is None:
        recency = None if preset.recency is None else settings.recency(fusion)
    elif isinstance(strength, bool) or not 0 <= strength <= 1:
        raise InvalidQuery(f"recency is {strength!r}", "Give a number from 0 (age does not matter) to 1")
    else:
        recency = replace(settings.memories_recency, strength=float(strength))
    return None if recency is None or recency.decay == 0 or recency.strength == 0 else recency


def _count(name: str, value: object, default: int, most: int | None = None) -> int:
    """Check that a value is a whole number from 1 to `most`."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or (most is not None and value > most):
        span = f"from 1 to {most}" if most is not None else "from 1 upwards"
        raise InvalidQuery(f"{name} is {value!r}", f"Give a whole number {span}")
    return value


def routed(plan: Plan) -> Plan:
    """Return the plan of a query that asks for a stored relation of what it names."""
    if plan.if_related is None:
        return plan
    return replace(plan, query_type="relational", weights=plan.if_related or plan.weights)
