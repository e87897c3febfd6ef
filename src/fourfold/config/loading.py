"""Settings from their origins: arguments, environment, files; and the file of tuned presets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, cast

from fourfold import addresses, owner_only
from fourfold.config.settings import SETTINGS, Given, Settings, completed_weights, plan_settings
from fourfold.errors import InvalidSetting, NewerSchema, StoreUnavailable
from fourfold.ranking.plan import PRESETS, TUNED_PRESET, checked_tuning
from fourfold.retrieval import Tuning

_CORRECT: Final = "Correct it, or remove it; `fourfold config` shows every setting"
_SECTIONS: Final = {name[: dot.start()] for name in SETTINGS for dot in re.finditer(r"\.", name)}


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    given: Mapping[str, Given] = field(repr=False)
    """Every setting under its full name, such as `query_routing.relational_weights.graph`."""

    @property
    def origins(self) -> dict[str, str]:
        return {name: value.origin for name, value in self.given.items()}

    def shown(self) -> dict[str, Given]:
        """What may be printed: a secret as "set", and words in place of values that are not set."""
        return {name: Given(_shown(name, value.value), value.origin) for name, value in self.given.items()}


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
    tuned = {name: preset.tuning for name, preset in read_presets(presets_file(own["presets_file"])).items()}
    _check_preset(values["preset"], tuned)
    plan = replace(plan_settings(values), tuned=tuned)
    return Loaded(Settings(**own, plan=plan), values | {"top_k": _effective_top_k(values)})


def presets_file(given: str | None) -> Path:
    return default_presets_file() if given is None else Path(given).expanduser()


def _check_preset(given: Given, tuned: Mapping[str, object]) -> None:
    if given.value not in PRESETS and given.value not in tuned:
        raise _refused("preset", given.value, given.origin)


def _effective_top_k(given: Mapping[str, Given]) -> Given:
    preset = given["preset"].value
    if given["top_k"].value is not None:
        return given["top_k"]
    base = PRESETS.get(preset, PRESETS[TUNED_PRESET])
    return given["retrieval_top_k"] if preset == "wiki" else Given(base.top_k, f"preset {preset}")


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
        content: Any = json.loads(file.read_text(encoding="utf-8"))
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
    return TunedPreset(checked_tuning(Tuning(**numbers, name=name)), **about)


def write_presets(file: Path, presets: Mapping[str, TunedPreset]) -> None:
    """Writes the file atomically."""
    entries = {name: _form(preset) for name, preset in sorted(presets.items())}
    aside = file.with_name(file.name + ".part")
    try:
        owner_only.make_folder(file.parent)
        with owner_only.open_file(aside, "w", encoding="utf-8") as stream:
            stream.write(json.dumps({**HEADER, "presets": entries}, indent=1) + "\n")
        aside.replace(file)
    except OSError as error:
        raise StoreUnavailable(f"{file} cannot be written ({error.strerror})", "Choose another presets_file") from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def _form(preset: TunedPreset) -> dict[str, Any]:
    tuning = preset.tuning
    numbers = {"balance": tuning.balance, "graph": tuning.graph, "tags": tuning.tags}
    about = {each.name: getattr(preset, each.name) for each in fields(preset) if each.name != "tuning"}
    return cast("dict[str, Any]", {**numbers, **about})
