"""Settings: flag, then environment, then file, then preset, then default; every value knows where it came from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard, cast

from fourfold import addresses, limits
from fourfold.arguments import is_nameable
from fourfold.errors import InvalidSetting, InvalidWeights
from fourfold.model import Recency
from fourfold.search.presets import PRESETS
from fourfold.search.routing import RELATIONAL_DE, RELATIONAL_EN, RELATIONAL_WEIGHTS, RoutingConfig
from fourfold.search.settings import PlanSettings
from fourfold.search.weights import check_weights

if TYPE_CHECKING:
    from fourfold.logs import Format, Level


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set. The fields that may hold a secret stay out of `repr`."""

    store: str | None = field(default=None, repr=False)
    """A folder or a DSN; None: the user's data folder."""
    namespace: str = "default"
    embedder: str = "minilm"
    openai_base_url: str = field(default="https://api.openai.com/v1", repr=False)
    openai_api_key: str = field(default="", repr=False)
    openai_model: str = "text-embedding-3-small"
    openai_dimensions: int | None = None
    openai_timeout: float = 30.0
    preset: str = "auto"
    top_k: int | None = None
    """None: the preset's."""
    embed_seconds: float = 5.0
    """How long a command that does not wait embeds what it stored, before a worker in the background does the rest."""
    links: bool = True
    """Titles, links and mentions become nodes and edges by themselves (B11)."""
    retriever_seconds: float = limits.RETRIEVER_SECONDS
    log_level: Level = "warning"
    """Of the command line and the servers; the library leaves the configuration of logs to its user."""
    log_format: Format = "text"
    http_hosts: tuple[str, ...] = ()
    """Names, beside its address, by which a server over HTTP may be asked."""
    http_tokens: tuple[str, ...] = field(default=(), repr=False)
    """NAMESPACE[+NAMESPACE...]:SECRET each; * for every namespace. With one or more, HTTP needs a token."""
    plan: PlanSettings = field(default_factory=PlanSettings)
    """What the seeds' own names set, each in the preset of its seed."""


class Given(NamedTuple):
    value: Any
    origin: str
    """flag, environment NAME, file PATH:LINE, preset NAME, default."""


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    given: Mapping[str, Given] = field(repr=False)
    """Every setting under its full name, such as `query_routing.relational_weights.graph`."""

    @property
    def origins(self) -> dict[str, str]:
        return {name: given.origin for name, given in self.given.items()}

    def shown(self) -> dict[str, Given]:
        """What may be printed: a secret as "set", and what stands for a value that is not set."""
        return {name: Given(_shown(name, given.value), given.origin) for name, given in self.given.items()}


def default_store() -> Path:
    from platformdirs import user_data_path

    return user_data_path("fourfold", appauthor=False)


def default_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("fourfold", appauthor=False) / "fourfold.yaml"


def load(flags: Mapping[str, object], environ: Mapping[str, str], config_file: Path | None) -> Loaded:
    """Raises InvalidSetting that names the place: the flag, the variable, or the line of the file."""
    written = _read_file(config_file)
    given = {name: _given(name, flags, environ, written) for name in SETTINGS}
    own = {item.name: given[item.name].value for item in fields(Settings) if item.name in given}
    return Loaded(Settings(**own, plan=_plan(given)), given | {"top_k": _effective_top_k(given)})


# ---------------------------------------------------------------- what a value may be


@dataclass(frozen=True)
class Kind:
    wanted: str
    parse: Callable[[str], object]
    """Reads an environment variable; a ValueError means that it is not what is wanted."""
    accepts: Callable[[object], bool]
    make: Callable[[Any], object] | None = None
    secret: bool = False
    """Whether a wrong value may be one: it is not quoted then."""


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


_TOKEN = re.compile(r"[^:\s][^:]*:[A-Za-z0-9._~+/=-]{16,}", re.ASCII)


def _are_tokens(value: object) -> bool:
    return _are_words(value) and all(_TOKEN.fullmatch(token) for token in cast("list[str]", value))


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(high: int) -> Kind:
    wanted = f"a whole number from 1 to {high}"
    return Kind(wanted, int, lambda value: _is_number(value) and isinstance(value, int) and 1 <= value <= high)


def _number(wanted: str, low: float, high: float = math.inf) -> Kind:
    return Kind(wanted, float, lambda value: _is_number(value) and low <= value <= high, float)


def _one_of(*names: str) -> Kind:
    return Kind(f"one of {', '.join(names)}", str, lambda value: isinstance(value, str) and value in names)


_TEXT = Kind("text (in quotes, if it looks like something else)", str, _is_text, secret=True)
_PRESET = _one_of(*PRESETS)
_LEVEL = _one_of("debug", "info", "warning", "error")
_FORMAT = _one_of("text", "json")
_SWITCH = Kind("on or off", _parse_switch, lambda value: isinstance(value, bool))
_WORDS = Kind("a list of words", _parse_words, _are_words, tuple)
_TOKENS = Kind(
    "a list of NAMESPACE:SECRET (16 letters and digits or more)",
    _parse_words,
    _are_tokens,
    tuple,
    secret=True,
)
_TOP_K = _whole(limits.TOP_K)
_SHARE = _number("a number from 0 to 1", 0, 1)
_RATE = _number("a number, 0 or more", 0)
_SECONDS = _number("a number of seconds, at least 0.001", 0.001)


# ---------------------------------------------------------------- what can be set


class Setting(NamedTuple):
    kind: Kind
    default: Any
    preset: str | None = None
    """The only preset in which it acts."""
    variable: str | None = None
    """The seed's own environment variable; FOURFOLD_... wins over it."""


_DEFAULT = Settings()
_PLAN = _DEFAULT.plan


def _own(**kinds: Kind) -> dict[str, Setting]:
    return {name: Setting(kind, getattr(_DEFAULT, name)) for name, kind in kinds.items()}


def _shares(section: str, weights: Mapping[str, float]) -> dict[str, Setting]:
    return {f"{section}.{name}": Setting(_SHARE, weight, "insights") for name, weight in weights.items()}


SETTINGS: Final[Mapping[str, Setting]] = {
    **_own(store=_TEXT, namespace=_TEXT, embedder=_TEXT, openai_base_url=_TEXT, openai_api_key=_TEXT),
    **_own(openai_model=_TEXT, openai_dimensions=_whole(limits.VECTOR_DIMENSIONS), openai_timeout=_SECONDS),
    **_own(log_level=_LEVEL, log_format=_FORMAT, http_hosts=_WORDS, http_tokens=_TOKENS),
    **_own(preset=_PRESET, top_k=_TOP_K, links=_SWITCH, retriever_seconds=_SECONDS, embed_seconds=_RATE),
    "retrieval_top_k": Setting(_TOP_K, _PLAN.wiki_top_k, "wiki", "RETRIEVAL_TOP_K"),
    "retrieval_vector_weight": Setting(_SHARE, _PLAN.wiki_weights["semantic"], "wiki", "RETRIEVAL_VECTOR_WEIGHT"),
    "retrieval_bm25_weight": Setting(_SHARE, _PLAN.wiki_weights["keyword"], "wiki", "RETRIEVAL_BM25_WEIGHT"),
    "hybrid_alpha": Setting(_SHARE, _PLAN.memories_alpha, "memories", "HYBRID_ALPHA"),
    "recency_decay": Setting(_RATE, _PLAN.memories_recency.decay, "memories", "RECENCY_DECAY"),
    "recency_floor": Setting(_SHARE, _PLAN.memories_recency.floor, "memories"),
    "recency_strength": Setting(_SHARE, _PLAN.memories_recency_strength, "memories"),
    **_shares("hybrid_search_weights", _PLAN.insights_weights),
    "query_routing.relational_keywords.de": Setting(_WORDS, RELATIONAL_DE, "insights"),
    "query_routing.relational_keywords.en": Setting(_WORDS, RELATIONAL_EN, "insights"),
    **_shares("query_routing.relational_weights", RELATIONAL_WEIGHTS),
}
_CORRECT = "Correct it, or remove it; `fourfold config` shows every setting"
_SECTIONS = {name[: dot.start()] for name in SETTINGS for dot in re.finditer(r"\.", name)}


def _plan(given: Mapping[str, Given]) -> PlanSettings:
    routing = "query_routing.relational_"
    insights = ("semantic", "keyword", "graph")
    return PlanSettings(
        wiki_top_k=given["retrieval_top_k"].value,
        wiki_weights=_weights(given, semantic="retrieval_vector_weight", keyword="retrieval_bm25_weight"),
        insights_weights=_weights(given, **{name: f"hybrid_search_weights.{name}" for name in insights}),
        routing=RoutingConfig(
            de=given[f"{routing}keywords.de"].value,
            en=given[f"{routing}keywords.en"].value,
            relational_weights=_weights(given, **{name: f"{routing}weights.{name}" for name in insights}),
        ),
        memories_alpha=given["hybrid_alpha"].value,
        memories_recency=Recency(given["recency_decay"].value, given["recency_floor"].value),
        memories_recency_strength=given["recency_strength"].value,
    )


def _weights(given: Mapping[str, Given], **settings: str) -> dict[str, float]:
    """The weights by retriever; InvalidSetting says where each came from if they do not sum to 1."""
    weights = {retriever: given[name].value for retriever, name in settings.items()}
    try:
        check_weights(weights)
    except InvalidWeights as wrong:
        places = "; ".join(f"{name} {given[name].value} ({given[name].origin})" for name in settings.values())
        raise InvalidSetting(f"{wrong.message}: {places}", "Set all of them, so that they sum to 1") from wrong
    return weights


def _effective_top_k(given: Mapping[str, Given]) -> Given:
    preset = given["preset"].value
    if given["top_k"].value is not None:
        return given["top_k"]
    return given["retrieval_top_k"] if preset == "wiki" else Given(PRESETS[preset].top_k, f"preset {preset}")


def _shown(name: str, value: Any) -> Any:
    match name, value:
        case "openai_api_key" | "http_tokens", _:
            return "set" if value else "not set"
        case "store", None:
            return str(default_store())
        case "store", str() if not addresses.is_address(value):
            return value
        case "store" | "openai_base_url", str():
            return addresses.shown(value)
        case "openai_dimensions", None:
            return "the model's"
        case "http_hosts", ():
            return "none"
        case "hybrid_alpha", None:
            return "adaptive"
        case "recency_strength", None:
            return "the fusion's"
        case _:
            return value


# ---------------------------------------------------------------- where values come from


def _given(name: str, flags: Mapping[str, object], environ: Mapping[str, str], written: Mapping[str, Given]) -> Given:
    setting = SETTINGS[name]
    if flags.get(name) is not None:
        return _checked(name, flags[name], "flag")
    for variable in (f"FOURFOLD_{name.replace('.', '_').upper()}", setting.variable):
        if variable is not None and environ.get(variable):
            return _parsed(name, environ[variable], f"environment {variable}")
    if name in written:
        return written[name]
    return Given(setting.default, f"preset {setting.preset}" if setting.preset else "default")


def _parsed(name: str, text: str, origin: str) -> Given:
    try:
        value = SETTINGS[name].kind.parse(text)
    except ValueError:
        raise _refused(name, text, origin) from None
    return _checked(name, value, origin)


def _checked(name: str, value: object, origin: str) -> Given:
    kind = SETTINGS[name].kind
    if not kind.accepts(value):
        raise _refused(name, value, origin)
    return Given(kind.make(value) if kind.make else value, origin)


def _refused(name: str, value: object, origin: str) -> InvalidSetting:
    """Quotes the wrong value, unless it could be a secret."""
    kind = SETTINGS[name].kind
    quoted = "" if kind.secret else f", not {value!r}"
    return InvalidSetting(f"{origin}: {name} has to be {kind.wanted}{quoted}", _CORRECT)


def _read_file(named: Path | None) -> dict[str, Given]:
    """The settings of the named file, or of the user's own; a file of the working folder is never looked for."""
    path = named or default_file()
    if named is None and not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as wrong:
        raise InvalidSetting(f"{path} cannot be read: {wrong}", "Name another file with --config") from wrong
    return _read_yaml(text, path)


def _read_yaml(text: str, path: Path) -> dict[str, Given]:
    from fourfold.yaml_lines import WrongYaml, read

    try:
        entries = read(text)
    except WrongYaml as wrong:
        raise InvalidSetting(f"file {path}:{wrong.line}: {wrong.problem}", _CORRECT) from wrong
    return {
        entry.name: _written(entry.name, entry.value, f"file {path}:{entry.line}")
        for entry in entries
        if entry.value is not None or entry.name not in {*SETTINGS, *_SECTIONS}
    }


def _written(name: str, value: object, origin: str) -> Given:
    if name in SETTINGS:
        return _checked(name, value, origin)
    if name in _SECTIONS:
        raise InvalidSetting(f"{origin}: {name} has to be a section of named values", _CORRECT)
    from difflib import get_close_matches

    close = get_close_matches(name, SETTINGS, n=1)
    raise InvalidSetting(f"{origin}: there is no setting {name}", f"Did you mean {close[0]}?" if close else _CORRECT)
