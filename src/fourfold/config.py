"""Settings: what can be set, and where it is read from."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeGuard, cast

from fourfold import addresses, bounded, limits, owner_only
from fourfold.arguments import is_nameable
from fourfold.errors import InvalidSetting, InvalidWeights, NewerSchema, StoreUnavailable
from fourfold.logs import Format, Level
from fourfold.ranking import plan as plans
from fourfold.ranking.factors import TimeMode
from fourfold.ranking.options import OPTIONS, SearchOption
from fourfold.retrieval import Recency, Tuning
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
    """YAML reads `off` as false."""

    def accepts(value: object) -> bool:
        return value in names if isinstance(value, str) else value is False and "off" in names

    return Kind(f"one of {', '.join(names)}", str, accepts, lambda value: value or "off")


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

_PLAN_DEFAULTS: Final = plans.PlanSettings()
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
    f"{_ROUTING}keywords.de": Setting(WORDS, plans.RELATIONAL_DE, "insights"),
    f"{_ROUTING}keywords.en": Setting(WORDS, plans.RELATIONAL_EN, "insights"),
    **_weights(f"{_ROUTING}weights", plans.RELATIONAL_WEIGHTS),
}


def completed_weights(settings: Mapping[str, Given]) -> dict[str, Given]:
    """The weights that follow from those that are set, if a part is."""
    return {**_rest_for_wiki(settings), **_beside_graph(settings)}


def _rest_for_wiki(settings: Mapping[str, Given]) -> dict[str, Given]:
    """One weight alone leaves the rest to the other."""
    names = list(_WIKI_WEIGHTS.values())
    return {
        other: Given(round(1 - settings[name].value, 12), f"rest of {name}")
        for name, other in (names, names[::-1])
        if _is_set(settings[name]) and not _is_set(settings[other])
    }


def _beside_graph(settings: Mapping[str, Given]) -> dict[str, Given]:
    """A pair of old weights leaves the graph its own, and shares the rest."""
    pair = {name: settings[f"hybrid_search_weights.{name}"] for name in ("semantic", "keyword")}
    graph = settings["hybrid_search_weights.graph"]
    weights = {name: each.value for name, each in pair.items()}
    if _is_set(graph) or not all(map(_is_set, pair.values())) or not math.isclose(sum(weights.values()), 1):
        return {}
    completed = plans.complete_pair(weights, graph.value)
    return {f"hybrid_search_weights.{name}": Given(completed[name], each.origin) for name, each in pair.items()}


def _is_set(setting: Given) -> bool:
    return not setting.origin.startswith("preset ")


def plan_settings(settings: Mapping[str, Given]) -> plans.PlanSettings:
    """The settings of presets that these settings stand for."""
    insights = {name: f"hybrid_search_weights.{name}" for name in _PLAN_DEFAULTS.insights_weights}
    relational = {name: f"{_ROUTING}weights.{name}" for name in plans.RELATIONAL_WEIGHTS}
    return plans.PlanSettings(
        wiki_top_k=settings["retrieval_top_k"].value,
        wiki_weights=_checked_weights(settings, _WIKI_WEIGHTS),
        insights_weights=_checked_weights(settings, insights),
        routing=plans.RoutingConfig(
            de=settings[f"{_ROUTING}keywords.de"].value,
            en=settings[f"{_ROUTING}keywords.en"].value,
            relational_weights=_checked_weights(settings, relational),
        ),
        memories_alpha=settings["hybrid_alpha"].value,
        memories_recency=Recency(settings["recency_decay"].value, settings["recency_floor"].value),
        memories_recency_strength=settings["recency_strength"].value,
    )


def _checked_weights(settings: Mapping[str, Given], names: Mapping[str, str]) -> dict[str, float]:
    """The weights by retriever; InvalidSetting says where each came from if they do not sum to 1."""
    weights = {retriever: settings[name].value for retriever, name in names.items()}
    try:
        plans.check_weights(weights)
    except InvalidWeights as wrong:
        places = "; ".join(f"{name} {settings[name].value} ({settings[name].origin})" for name in names.values())
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
    capture: Literal["propose", "auto", "off"] = "propose"
    """What a hook does with what a session may have left to remember: proposes it, stores it, or nothing."""
    receipts: bool = True
    """Whether the store counts what interfaces were asked and given, without any text."""
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
    plan: plans.PlanSettings = field(default_factory=plans.PlanSettings)
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
    **_own(capture=one_of("propose", "auto", "off"), receipts=SWITCH),
    **_own(hook_seconds=SECONDS, hook_min_confidence=SHARE, hook_tokens=whole(limits.ANSWER_TOKENS)),
    **INHERITED,
}
"""All settings by full name, such as `query_routing.relational_weights.graph`."""

# ---------------------------------------------------------------- loading

_CORRECT: Final = "Correct it, or remove it; `fourfold config` shows every setting"
_SECTIONS: Final = {name[: dot.start()] for name in SETTINGS for dot in re.finditer(r"\.", name)}


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    values: Mapping[str, Given] = field(repr=False)
    """Every setting under its full name, such as `query_routing.relational_weights.graph`."""

    @property
    def origins(self) -> dict[str, str]:
        return {name: value.origin for name, value in self.values.items()}

    def shown(self) -> dict[str, Given]:
        """What may be printed: a secret as "set", and words in place of values that are not set."""
        return {name: Given(_shown(name, value.value), value.origin) for name, value in self.values.items()}


def default_store() -> Path:
    from platformdirs import user_data_path

    return user_data_path("fourfold", appauthor=False)


def default_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("fourfold", appauthor=False) / "fourfold.yaml"


def load(flags: Mapping[str, object], environ: Mapping[str, str], config_file: Path | None) -> Loaded:
    """Raises InvalidSetting that names the place: the flag, the variable, or the line of the file."""
    written = _read_file(config_file)
    values = {name: _given(name, flags, environ, written) for name in SETTINGS}
    values |= completed_weights(values)
    own = {item.name: values[item.name].value for item in fields(Settings) if item.name in values}
    tuned = {name: each.tuning for name, each in read_presets(presets_file(own["presets_file"])).items()}
    preset = values["preset"]
    if preset.value not in plans.PRESETS and preset.value not in tuned:
        raise _refused("preset", preset.value, preset.origin)
    plan = replace(plan_settings(values), tuned=tuned)
    return Loaded(Settings(**own, plan=plan), values | {"top_k": _effective_top_k(values)})


def presets_file(path: str | None) -> Path:
    return default_presets_file() if path is None else Path(path).expanduser()


def _effective_top_k(settings: Mapping[str, Given]) -> Given:
    preset = settings["preset"].value
    if settings["top_k"].value is not None:
        return settings["top_k"]
    base = plans.PRESETS.get(preset, plans.PRESETS[plans.TUNED_PRESET])
    return settings["retrieval_top_k"] if preset == "wiki" else Given(base.top_k, f"preset {preset}")


def _shown(name: str, value: Any) -> Any:
    match name, value:
        case "openai_api_key" | "rerank_api_key" | "http_tokens" | "token", _:
            return "set" if value else "not set"
        case "store", None:
            return str(default_store())
        case "store", str() if not addresses.is_address(value):
            return value
        case ("rerank_base_url" | "rerank_model", "") | ("rerank_languages", ()):
            return "none" if name == "rerank_base_url" else "the model's"
        case "store" | "index" | "openai_base_url" | "rerank_base_url", str():
            return addresses.shown(value)
        case "time_zone", None:
            return "this machine's"
        case "presets_file", None:
            return "presets.json in the configuration folder"
        case "openai_dimensions", None:
            return "the model's"
        case ("http_hosts", ()) | ("http_requests_per_minute", None) | ("index", None):
            return "none"
        case "hybrid_alpha", None:
            return "adaptive"
        case "recency_strength", None:
            return "the fusion's"
        case _:
            return value


# ---------------------------------------------------------------- one value


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


# ---------------------------------------------------------------- the file


def _read_file(named: Path | None) -> dict[str, Given]:
    """The settings of the named file, or of the user's own; the working folder is never searched for one."""
    path = named or default_file()
    if named is None and not path.is_file():
        return {}
    try:
        text = bounded.read_text(path, encoding="utf-8-sig")
    except (OSError, ValueError) as wrong:
        raise InvalidSetting(f"{path} cannot be read: {wrong}", "Name another file with --config") from wrong
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
    raise InvalidSetting(f"{origin}: unknown setting {name}", f"Did you mean {close[0]}?" if close else _CORRECT)


# ---------------------------------------------------------------- the file of tuned presets

HEADER: Final = {"type": "fourfold-presets", "format": 1}
_REMEDY: Final = "Correct or remove the file; `fourfold tune` writes it"


@dataclass(frozen=True, slots=True)
class TunedPreset:
    """A tuning, and what it was fitted and judged on."""

    tuning: Tuning
    collection: str = ""
    questions: int = 0
    """The number of held-out questions on which it was judged."""
    gain: float = 0.0
    """The gain in nDCG@10 over `auto`."""
    low: float = 0.0
    high: float = 0.0
    embedder: str | None = None
    made: str = ""
    """The date of the tuning."""


def default_presets_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("fourfold", appauthor=False) / "presets.json"


def read_presets(file: Path) -> dict[str, TunedPreset]:
    """The tuned presets by name; empty without a file. InvalidSetting names a file that is wrong."""
    try:
        content: Any = json.loads(bounded.read_text(file))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidSetting(f"{file} cannot be read ({error})", _REMEDY) from error
    try:
        if content["type"] != HEADER["type"]:
            raise InvalidSetting(f"{file} is not a file of tuned presets", _REMEDY)
        if content["format"] != HEADER["format"]:
            raise NewerSchema(f"{file} has the format {content['format']}", "Upgrade Fourfold")
        return {str(name): _read(str(name), entry) for name, entry in content["presets"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidSetting(f"{file}: {type(error).__name__}: {error}", _REMEDY) from error


def _read(name: str, entry: Mapping[str, Any]) -> TunedPreset:
    numbers = {part: float(entry[part]) for part in ("balance", "graph", "tags")}
    names = {each.name for each in fields(TunedPreset)} - {"tuning"}
    about: dict[str, Any] = {part: entry[part] for part in names if part in entry}
    return TunedPreset(plans.checked_tuning(Tuning(**numbers, name=name)), **about)


def write_presets(file: Path, presets: Mapping[str, TunedPreset]) -> None:
    """Writes the file atomically."""
    entries = {name: _form(preset) for name, preset in sorted(presets.items())}
    try:
        owner_only.make_folder(file.parent)
        with owner_only.replacing(file) as stream:
            stream.write(json.dumps({**HEADER, "presets": entries}, indent=1) + "\n")
    except OSError as error:
        raise StoreUnavailable(f"{file} cannot be written ({error.strerror})", "Choose another presets_file") from error


def _form(preset: TunedPreset) -> dict[str, Any]:
    tuning = preset.tuning
    numbers = {"balance": tuning.balance, "graph": tuning.graph, "tags": tuning.tags}
    about = {each.name: getattr(preset, each.name) for each in fields(preset) if each.name != "tuning"}
    return cast("dict[str, Any]", {**numbers, **about})
