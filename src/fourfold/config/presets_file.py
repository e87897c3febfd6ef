"""The file of tuned presets: written by `fourfold tune`, read with the settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, cast

from fourfold import owner_only
from fourfold.errors import InvalidSetting, NewerSchema, StoreUnavailable
from fourfold.ranking.presets import checked_tuning
from fourfold.retrieval import Tuning

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
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidSetting(f"{file} cannot be read ({error})", _REMEDY) from error
    try:
        if found["type"] != HEADER["type"]:
            raise InvalidSetting(f"{file} is not a file of tuned presets", _REMEDY)
        if found["format"] != HEADER["format"]:
            raise NewerSchema(f"{file} has the format {found['format']}", "Upgrade Fourfold")
        return {str(name): _read(str(name), entry) for name, entry in found["presets"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidSetting(f"{file}: {type(error).__name__}: {error}", _REMEDY) from error


def _read(name: str, entry: Mapping[str, Any]) -> TunedPreset:
    numbers = {part: float(entry[part]) for part in ("balance", "graph", "tags")}
    known = {each.name for each in fields(TunedPreset)} - {"tuning"}
    about: dict[str, Any] = {part: entry[part] for part in known if part in entry}
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
