"""From a request to a plan: which retrievers run, with what weights, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import cast, get_args

from fourfold import limits
from fourfold.errors import InvalidQuery
from fourfold.model import RETRIEVERS, FusionName, Plan, Recency, RetrieverName
from fourfold.search.alpha import ALPHA_RANGE, adaptive_alpha, alpha_weights, is_alpha
from fourfold.search.presets import Preset, find_preset
from fourfold.search.routing import QueryType, asks_for_another, route
from fourfold.search.settings import PlanSettings
from fourfold.search.weights import check_weights, complete_for_insights, scaled_to_one


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a caller may say about one search; None leaves it to the preset."""

    text: str
    preset: str = "auto"
    fusion: str | None = None
    weights: Mapping[str, float] | None = None
    alpha: float | None = None
    top_k: int | None = None
    only: Collection[str] | None = None
    k: int | None = None


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What the planner has to know of the store."""

    items: int = 0
    matching_tags: int = 0
    """Distinct tags that the query names."""


def make_plan(request: PlanRequest, settings: PlanSettings, facts: StoreFacts) -> Plan:
    """The plan for a request; InvalidQuery or InvalidWeights say what cannot be done."""
    preset = find_preset(request.preset)
    check_text(request.text)
    _check_alpha(request)
    fusion = _fusion(request, preset, settings)
    query_type, matched = _route(request.text, preset, settings)
    default = _default_weights(request, settings, facts, fusion, query_type)
    weights = _weights(request, preset, settings, default)
    retrievers = _retrievers(request, preset, weights)
    return Plan(
        preset=preset.name,
        retrievers=retrievers,
        fusion=fusion,
        k=_count("k", request.k, preset.k),
        top_k=_count("top_k", request.top_k, _default_top_k(preset, settings), limits.TOP_K),
        weights=None if weights is None else {name: weights[name] for name in retrievers},
        fixed=_fixed(preset, facts, retrievers) if weights is None else None,
        recency=_recency(preset, settings, fusion),
        query_type=query_type,
        matched_keywords=matched,
        if_related=_if_related(request, preset, settings, facts, fusion, retrievers) if not matched else None,
        expand=_expands(request, fusion, retrievers),
    )


# ---------------------------------------------------------------- weights


def _weights(
    request: PlanRequest, preset: Preset, settings: PlanSettings, default: Mapping[str, float] | None
) -> Mapping[str, float] | None:
    """The caller's weights, else the preset's for what `only` keeps; None: `auto` chooses per query."""
    if request.weights is not None:
        return _callers_weights(request.weights, preset, settings)
    if request.only is None:
        return default
    kept = _kept(request.only, preset)
    if len(kept) == 1:
        return {kept[0]: 1.0}
    if default is None or set(kept) == set(preset.retrievers):
        return default
    return scaled_to_one(default, kept)


def _callers_weights(weights: Mapping[str, float], preset: Preset, settings: PlanSettings) -> dict[str, float]:
    if preset.name == "insights":
        return complete_for_insights(weights, settings.insights_weights["graph"])
    return check_weights(weights)


def _default_weights(
    request: PlanRequest, settings: PlanSettings, facts: StoreFacts, fusion: FusionName, query_type: QueryType
) -> Mapping[str, float] | None:
    preset = find_preset(request.preset)
    match preset.name:
        case "insights":
            relational = query_type == "relational"
            return settings.routing.relational_weights if relational else settings.insights_weights
        case "wiki":
            return settings.wiki_weights
        case "memories":
            return _memories_weights(_given_alpha(request, settings), facts, fusion)
        case "auto":
            return None if fusion == "auto" else _equal_weights(request, preset)
        case _:
            by_scores = fusion != "rrf" and preset.score_weights is not None
            return preset.score_weights if by_scores else preset.weights


def _given_alpha(request: PlanRequest, settings: PlanSettings) -> float | None:
    """Explicit wins over environment, environment over adaptive."""
    return settings.memories_alpha if request.alpha is None else request.alpha


def _memories_weights(alpha: float | None, facts: StoreFacts, fusion: FusionName) -> dict[str, float] | None:
    """The pair of the source document; None: `auto` adds keyword and graph to it."""
    if alpha is not None:
        return alpha_weights(alpha)
    return None if fusion == "auto" else _adaptive_weights(facts)


def _adaptive_weights(facts: StoreFacts) -> dict[str, float]:
    return alpha_weights(adaptive_alpha(facts.items), facts.matching_tags)


def _fixed(preset: Preset, facts: StoreFacts, retrievers: Collection[str]) -> dict[str, float] | None:
    """What alpha says of vectors and tags, where `auto` weighs the others."""
    if preset.name != "memories":
        return None
    return {name: weight for name, weight in _adaptive_weights(facts).items() if name in retrievers} or None


def _equal_weights(request: PlanRequest, preset: Preset) -> dict[str, float]:
    names = preset.retrievers if request.only is None else _kept(request.only, preset)
    return {name: 1 / len(names) for name in names}


def _if_related(
    request: PlanRequest,
    preset: Preset,
    settings: PlanSettings,
    facts: StoreFacts,
    fusion: FusionName,
    retrievers: Collection[str],
) -> Mapping[str, float] | None:
    """The weights that a question has if what it names has relations; None where routing has no part in it."""
    if preset.routing == "off" or "graph" not in retrievers or not asks_for_another(request.text):
        return None
    relational = _weights(request, preset, settings, _default_weights(request, settings, facts, fusion, "relational"))
    return {} if relational is None else {name: relational[name] for name in retrievers}


# ---------------------------------------------------------------- retrievers


def _retrievers(request: PlanRequest, preset: Preset, weights: Mapping[str, float] | None) -> tuple[RetrieverName, ...]:
    """Those that have a weight, and that `only` keeps."""
    allowed = RETRIEVERS if request.only is None else _names(request.only)
    if weights is None:
        return tuple(name for name in preset.retrievers if name in allowed)
    planned: tuple[RetrieverName, ...] = tuple(name for name in allowed if weights.get(name, 0.0) > 0)
    if not planned:
        raise InvalidQuery(f"{' or '.join(allowed)} has no weight", "Give it one, or leave `only` out")
    return planned


def _kept(only: Collection[str], preset: Preset) -> tuple[RetrieverName, ...]:
    """The retrievers that `only` names, all of which the preset must have a weight for."""
    names = _names(only)
    foreign = [name for name in names if name not in preset.retrievers]
    if foreign:
        what = f"the preset {preset.name} does not use {', '.join(foreign)}"
        raise InvalidQuery(what, "Use --preset auto, or give weights")
    return names


def _names(only: Collection[str]) -> tuple[RetrieverName, ...]:
    unknown = [name for name in only if name not in RETRIEVERS]
    if unknown or not only:
        what = f"there is no retriever {unknown[0]!r}" if unknown else "`only` names no retriever"
        raise InvalidQuery(what, f"The retrievers are {', '.join(RETRIEVERS)}")
    return tuple(name for name in RETRIEVERS if name in only)


def _expands(request: PlanRequest, fusion: FusionName, retrievers: Iterable[str]) -> bool:
    """Where there is something to go on from; a caller's weight of tags is for those that the query names."""
    able = {"graph", "tags"} if request.weights is None else {"graph"}
    if fusion != "auto" or request.preset not in ("auto", "memories") or able.isdisjoint(retrievers):
        return False
    return request.only is None or not {"semantic", "keyword"}.isdisjoint(request.only)


# ---------------------------------------------------------------- the rest of the request


def check_text(text: str) -> None:
    """S1.5, B4: a query has something in it, and at most 32 KB."""
    if not text.strip():
        raise InvalidQuery("the query is empty", "Ask for at least one word")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.QUERY_BYTES:
        raise InvalidQuery(f"the query has {size} bytes", f"At most {limits.QUERY_BYTES} are accepted")


def _check_alpha(request: PlanRequest) -> None:
    if request.alpha is None:
        return
    if request.preset != "memories":
        raise InvalidQuery(f"alpha has no meaning in the preset {request.preset}", "Use it with --preset memories")
    if not is_alpha(request.alpha):
        raise InvalidQuery(f"alpha is {request.alpha!r}", ALPHA_RANGE)


def _fusion(request: PlanRequest, preset: Preset, settings: PlanSettings) -> FusionName:
    """An alpha that is given means the formula it comes from: reciprocal ranks of vectors and tags."""
    if request.fusion is None:
        by_alpha = preset.name == "memories" and _given_alpha(request, settings) is not None
        return "rrf" if by_alpha else preset.fusion
    if request.fusion not in get_args(FusionName):
        raise InvalidQuery(
            f"there is no fusion {request.fusion!r}", f"The fusions are {', '.join(get_args(FusionName))}"
        )
    return cast("FusionName", request.fusion)


def _route(text: str, preset: Preset, settings: PlanSettings) -> tuple[QueryType, tuple[str, ...]]:
    return ("standard", ()) if preset.routing == "off" else route(text, settings.routing)


def _recency(preset: Preset, settings: PlanSettings, fusion: FusionName) -> Recency | None:
    recency = settings.recency(fusion)
    return None if preset.recency is None or recency.decay == 0 or recency.strength == 0 else recency


def _default_top_k(preset: Preset, settings: PlanSettings) -> int:
    return settings.wiki_top_k if preset.name == "wiki" else preset.top_k


def _count(name: str, value: object, default: int, most: int | None = None) -> int:
    """A whole number from 1 to `most`."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or (most is not None and value > most):
        span = f"from 1 to {most}" if most is not None else "from 1 upwards"
        raise InvalidQuery(f"{name} is {value!r}", f"It is a whole number {span}")
    return value
