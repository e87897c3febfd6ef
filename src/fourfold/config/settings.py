"""Settings: their types, those under the names of the systems that Fourfold replaces, and the table of all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeGuard, cast

from fourfold import limits
from fourfold.arguments import is_nameable
from fourfold.errors import InvalidSetting, InvalidWeights
from fourfold.logs import Format, Level
from fourfold.ranking.factors import TimeMode
from fourfold.ranking.options import OPTIONS, SearchOption
from fourfold.ranking.plan import (
    RELATIONAL_DE,
    RELATIONAL_EN,
    RELATIONAL_WEIGHTS,
    PlanSettings,
    RoutingConfig,
    check_weights,
    complete_pair,
)
from fourfold.retrieval import Recency
from fourfold.text.secrets import SecretMode

# ---------------------------------------------------------------- kinds: valid values, as the environment writes them


@dataclass(frozen=True)
class Kind:
    wanted: str
    parse: Callable[[str], object]
    """Reads an environment variable; raises ValueError for an invalid one."""
    accepts: Callable[[object], bool]
    make: Callable[[Any], object] | None = None
    """Converts an accepted value."""
    secret: bool = False
    """Whether a wrong value may be a secret, which messages must not quote."""


class Setting(NamedTuple):
    kind: Kind
    default: Any
    preset: str | None = None
    """The only preset to which the setting applies."""
    variable: str | None = None
    """An inherited environment variable; FOURFOLD_... takes precedence."""


class Given(NamedTuple):
    value: Any
    origin: str
    """One of: flag, environment NAME, file PATH:LINE, preset NAME, default, rest of NAME."""


def whole(high: int) -> Kind:
    wanted = f"a whole number from 1 to {high}"
    return Kind(wanted, int, lambda value: _is_number(value) and isinstance(value, int) and 1 <= value <= high)


def number(wanted: str, low: float, high: float = math.inf) -> Kind:
    return Kind(wanted, float, lambda value: _is_number(value) and low <= value <= high, float)


def one_of(*names: str) -> Kind:
    return Kind(f"one of {', '.join(names)}", str, lambda value: isinstance(value, str) and value in names)


def of_option(option: SearchOption) -> Kind:
    """The kind of the setting that is the default of an option of a search."""
    if option.accepts is not None:
        accepts = option.accepts
        # YAML reads `off` as false
        return Kind(option.wanted, str, lambda value: value is False or accepts(value), lambda value: value or "off")
    if option.name == "preset":  # tuned ones are known when the settings are loaded
        return Kind(f"one of {', '.join(option.choices)}, or a tuned preset", str, _is_text)
    return one_of(*option.choices) if option.choices else whole(int(option.most or 0))


def _parse_switch(text: str) -> bool:
    on = text.strip().lower() in {"on", "true", "yes", "1"}
    if not on and text.strip().lower() not in {"off", "false", "no", "0"}:
        raise ValueError
    return on


def _parse_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and is_nameable(value)


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(_is_text(word) for word in cast("list[object]", value))


_TOKEN: Final = re.compile(r"[^:\s][^:]*(:[a-z]+)?:[A-Za-z0-9._~+/=-]{16,}", re.ASCII)


def _are_tokens(value: object) -> bool:
    return _are_words(value) and all(_TOKEN.fullmatch(token) for token in cast("list[str]", value))


def _is_zone(value: object) -> bool:
    from zoneinfo import ZoneInfo

    try:
        return isinstance(value, str) and bool(ZoneInfo(value))
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError; a name may be a folder or no name at all
        return False
    except KeyError:
        return False


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


TEXT: Final = Kind("text (in quotes, if it looks like something else)", str, _is_text, secret=True)
SWITCH: Final = Kind("on or off", _parse_switch, lambda value: isinstance(value, bool))
ZONE: Final = Kind("a time zone, such as Europe/Berlin", str, _is_zone)
WORDS: Final = Kind("a list of words", _parse_words, _are_words, tuple)
TOKENS: Final = Kind(
    "a list of NAMESPACE[:SCOPE]:SECRET (16 letters and digits or more)", _parse_words, _are_tokens, tuple, secret=True
)
SHARE: Final = number("a number from 0 to 1", 0, 1)
RATE: Final = number("a number, 0 or more", 0)
SECONDS: Final = number("a number of seconds, at least 0.001", 0.001)


# ---------------------------------------------------------------- settings under inherited names, each in one preset


_PLAN_DEFAULTS: Final = PlanSettings()
_WIKI_WEIGHTS: Final = {"semantic": "retrieval_vector_weight", "keyword": "retrieval_bm25_weight"}
_ROUTING: Final = "query_routing.relational_"


def _weights(section: str, weights: Mapping[str, float]) -> dict[str, Setting]:
    return {f"{section}.{name}": Setting(SHARE, weight, "insights") for name, weight in weights.items()}


INHERITED: Final[Mapping[str, Setting]] = {
    "retrieval_top_k": Setting(of_option(OPTIONS["top_k"]), _PLAN_DEFAULTS.wiki_top_k, "wiki", "RETRIEVAL_TOP_K"),
    **{
        setting: Setting(SHARE, _PLAN_DEFAULTS.wiki_weights[name], "wiki", setting.upper())
        for name, setting in _WIKI_WEIGHTS.items()
    },
    "hybrid_alpha": Setting(SHARE, _PLAN_DEFAULTS.memories_alpha, "memories", "HYBRID_ALPHA"),
    "recency_decay": Setting(RATE, _PLAN_DEFAULTS.memories_recency.decay, "memories", "RECENCY_DECAY"),
    "recency_floor": Setting(SHARE, _PLAN_DEFAULTS.memories_recency.floor, "memories"),
    "recency_strength": Setting(SHARE, _PLAN_DEFAULTS.memories_recency_strength, "memories"),
    **_weights("hybrid_search_weights", _PLAN_DEFAULTS.insights_weights),
    f"{_ROUTING}keywords.de": Setting(WORDS, RELATIONAL_DE, "insights"),
    f"{_ROUTING}keywords.en": Setting(WORDS, RELATIONAL_EN, "insights"),
    **_weights(f"{_ROUTING}weights", RELATIONAL_WEIGHTS),
}


def completed_weights(given: Mapping[str, Given]) -> dict[str, Given]:
    """The weights that follow from those that are set, if a part is."""
    return {**_rest_for_wiki(given), **_beside_graph(given)}


def _rest_for_wiki(given: Mapping[str, Given]) -> dict[str, Given]:
    """One weight alone leaves the rest to the other."""
    names = list(_WIKI_WEIGHTS.values())
    return {
        other: Given(round(1 - given[name].value, 12), f"rest of {name}")
        for name, other in (names, names[::-1])
        if _is_set(given[name]) and not _is_set(given[other])
    }


def _beside_graph(given: Mapping[str, Given]) -> dict[str, Given]:
    """A pair of old weights leaves the graph its own, and shares the rest."""
    pair = {name: given[f"hybrid_search_weights.{name}"] for name in ("semantic", "keyword")}
    graph = given["hybrid_search_weights.graph"]
    weights = {name: each.value for name, each in pair.items()}
    if _is_set(graph) or not all(map(_is_set, pair.values())) or not math.isclose(sum(weights.values()), 1):
        return {}
    completed = complete_pair(weights, graph.value)
    return {f"hybrid_search_weights.{name}": Given(completed[name], each.origin) for name, each in pair.items()}


def _is_set(given: Given) -> bool:
    return not given.origin.startswith("preset ")


def plan_settings(given: Mapping[str, Given]) -> PlanSettings:
    """The settings of presets that these settings stand for."""
    insights = {name: f"hybrid_search_weights.{name}" for name in _PLAN_DEFAULTS.insights_weights}
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


# ---------------------------------------------------------------- all settings


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. Fields that may hold a secret are left out of `repr`."""

    store: str | None = field(default=None, repr=False)
    """A folder or a DSN; None: the user's data folder."""
    index: str | None = field(default=None, repr=False)
    """The address of a distributed index for a PostgreSQL store."""
    namespace: str = "default"
    embedder: str = "builtin"
    openai_base_url: str = field(default="https://api.openai.com/v1", repr=False)
    openai_api_key: str = field(default="", repr=False)
    openai_model: str = "text-embedding-3-small"
    openai_dimensions: int | None = None
    openai_timeout: float = 30.0
    onnx_provider: str = "cpu"
    """The execution provider of models that onnxruntime runs, such as cuda."""
    preset: str = "auto"
    presets_file: str | None = None
    """The file of tuned presets; None: presets.json in the user's configuration folder."""
    top_k: int | None = None
    """None: that of the preset."""
    rerank: str = "off"
    rerank_seconds: float = 1.0
    """Time of a whole search with reranking; the model gets the time that the retrievers leave."""
    rerank_base_url: str = field(default="", repr=False)
    """Address of an endpoint in the format of Cohere and Jina."""
    rerank_api_key: str = field(default="", repr=False)
    rerank_model: str = ""
    rerank_languages: tuple[str, ...] = ()
    """Languages that the model of an endpoint or a folder knows; empty: all."""
    embed_seconds: float = 5.0
    """How long a command that does not wait embeds what it stored; a worker in the background does the rest."""
    time: TimeMode = "boost"
    """The effect of a time in a query."""
    time_zone: str | None = None
    """The zone in which queries name times, such as Europe/Berlin; None: that of this machine."""
    secrets: SecretMode = "mask"
    """How API keys, tokens and passwords in stored text are treated."""
    links: bool = True
    """Whether titles, links and mentions become nodes and edges of the graph."""
    retriever_seconds: float = limits.RETRIEVER_SECONDS
    hook_seconds: float = 5.0
    """The deadline of a hook of an agent, for everything that it does."""
    hook_min_confidence: float = 0.2
    """Confidence from which on a memory is given to an agent with a prompt."""
    hook_tokens: int = 1000
    """Budget of the memories that a hook gives to an agent."""
    log_level: Level = "warning"
    """Log level of the command line and the servers; the library does not configure logging."""
    log_format: Format = "text"
    http_hosts: tuple[str, ...] = ()
    """Host names that a server over HTTP accepts besides its address."""
    http_tokens: tuple[str, ...] = field(default=(), repr=False)
    """`NAMESPACE[+NAMESPACE...][:SCOPE]:SECRET` each; * for every namespace. If there is one, HTTP requires a token."""
    http_requests_per_minute: int | None = None
    """Limit for each token; None: no limit."""
    token: str = field(default="", repr=False)
    """Token for the server, if `store` is an http address."""
    plan: PlanSettings = field(default_factory=PlanSettings)
    """The inherited settings, each in its preset."""


_DEFAULTS: Final = Settings()


def _own(**kinds: Kind) -> dict[str, Setting]:
    return {name: Setting(kind, getattr(_DEFAULTS, name)) for name, kind in kinds.items()}


SETTINGS: Final[Mapping[str, Setting]] = {
    **_own(store=TEXT, index=TEXT, namespace=TEXT, embedder=TEXT, openai_base_url=TEXT, openai_api_key=TEXT),
    **_own(openai_model=TEXT, openai_dimensions=whole(limits.VECTOR_DIMENSIONS), openai_timeout=SECONDS),
    **_own(onnx_provider=TEXT),
    **_own(log_level=one_of("debug", "info", "warning", "error"), log_format=one_of("text", "json")),
    **_own(http_hosts=WORDS, http_tokens=TOKENS, http_requests_per_minute=whole(1_000_000), token=TEXT),
    **_own(**{option.name: of_option(option) for option in OPTIONS.values() if option.setting}),
    **_own(presets_file=TEXT),
    **_own(rerank_seconds=SECONDS, rerank_base_url=TEXT, rerank_api_key=TEXT, rerank_model=TEXT),
    **_own(rerank_languages=WORDS),
    **_own(time_zone=ZONE, secrets=one_of("mask", "refuse", "allow")),
    **_own(links=SWITCH, retriever_seconds=SECONDS, embed_seconds=RATE),
    **_own(hook_seconds=SECONDS, hook_min_confidence=SHARE, hook_tokens=whole(limits.ANSWER_TOKENS)),
    **INHERITED,
}
"""All settings by full name, such as `query_routing.relational_weights.graph`."""
