"""Kinds of settings: their valid values, and how an environment variable is read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeGuard, cast

from fourfold.arguments import is_nameable
from fourfold.ranking.options import SearchOption


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
    """One of: flag, environment NAME, file PATH:LINE, preset NAME, default."""


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
