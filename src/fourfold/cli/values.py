"""How the values of options are read. What cannot be read is a wrong request (exit code 1)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, cast

from fourfold.errors import InvalidItem, InvalidQuery, InvalidVector, InvalidWeights

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from fourfold.filters import Condition
    from fourfold.model import Json, MetadataTest

_LONGEST_DATE: Final = len("2026-11-15")
_TEST: Final = re.compile(r"((?!!=)[^=<>]+?)(!=|<=|>=|==|=|<|>)(.*)", re.DOTALL)
_DURATION: Final = re.compile("([0-9]{1,9})([mhdw])")
_MINUTES: Final = {"m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_ID: Final = re.compile("[0-9]{1,18}")
_OPERATORS: Final[Mapping[str, Literal["eq", "ne", "lt", "lte", "gt", "gte"]]] = {
    "=": "eq", "==": "eq", "!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte",
}  # fmt: skip


def read_time(text: str, *, end_of_day: bool = False) -> datetime:
    """An ISO date or time; without an offset it is local time. `end_of_day`: a bare date means its last moment."""
    from datetime import datetime, time

    try:
        moment = datetime.fromisoformat(text.strip())
        if end_of_day and len(text.strip()) <= _LONGEST_DATE:
            moment = datetime.combine(moment, time.max)
        return moment.astimezone()
    except (ValueError, OverflowError, OSError) as wrong:
        raise InvalidQuery(f"{text!r} is not a time", "Write 2026-11-15 or 2026-11-15T10:00") from wrong


def read_end(text: str) -> datetime:
    """The end of a time that begins now: 30m, 12h, 7d or 2w."""
    from datetime import UTC, datetime, timedelta

    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidItem(f"{text!r} is not a duration", "Write 30m, 12h, 7d or 2w")
    try:
        return datetime.now(UTC) + timedelta(minutes=int(found[1]) * _MINUTES[found[2]])
    except OverflowError as wrong:
        raise InvalidItem(f"{text!r} ends after the year 9999", "Leave it out: the item is then kept") from wrong


def read_weights(text: str) -> dict[str, float]:
    """`semantic=0.7,keyword=0.3`; whether they are valid weights is not decided here."""
    pairs = [_weight(part) for part in read_names(text)]
    weights = dict(pairs)
    if len(weights) < len(pairs):
        raise InvalidWeights("a name occurs twice in the weights", "Give each name one weight")
    return weights


def _weight(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise InvalidWeights(
            f"{text!r} is not a weight", "Write NAME=NUMBER, such as semantic=0.7,keyword=0.3 or agent=0.5"
        ) from None


def read_metadata(pairs: Sequence[str]) -> dict[str, Json]:
    metadata: dict[str, Json] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals or key.endswith(("!", "<", ">")):
            raise InvalidItem(f"{pair!r} is not metadata", "Write --meta KEY=VALUE")
        metadata[key] = _json_or_text(value)
    return metadata


def read_metadata_test(text: str) -> MetadataTest:
    from fourfold.model import MetadataTest

    match = _TEST.fullmatch(text)
    if match is None:
        raise InvalidQuery(f"{text!r} is not a test of metadata", "Write --meta KEY=VALUE, or !=, <, <=, >, >= for =")
    key, sign, value = match.groups()
    return MetadataTest(key, _OPERATORS[sign], _json_or_text(value))


def read_where(text: str) -> Condition:
    """A filter; times without an offset are local."""
    from fourfold.filters.conditions import check_size
    from fourfold.filters.expression import parse

    return check_size(parse(text, None))


def _json_or_text(text: str) -> Json:
    """JSON if it parses; NaN and Infinity are rejected, which Python accepts."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) != float("inf") else _refuse(text)


def read_vector(file: Path) -> list[float]:
    """A JSON list of numbers; whether it is a valid vector is not decided here."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as wrong:
        raise InvalidVector(
            f"{file} cannot be read as JSON ({wrong})", "Write a list of numbers: [0.1, 0.2]"
        ) from wrong
    if not isinstance(found, list):
        raise InvalidVector(f"{file} holds no list", "Write a list of numbers: [0.1, 0.2]")
    return cast("list[float]", found)


def read_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def read_id(text: str) -> int | str:
    """A number, or `key:K` as it stands."""
    if text.startswith("key:"):
        return text
    if not _ID.fullmatch(text):
        raise InvalidQuery(f"{text!r} is not an id", "Write the number, or key:K for the item with the key K")
    return int(text)
