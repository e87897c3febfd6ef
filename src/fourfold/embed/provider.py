"""Messages of a provider as they may be shown to the user: short, printable, without secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

MESSAGE_CHARACTERS = 200
KEY_PIECE = 8
TEXT_PIECE = 16
"""A message that shares this many characters in a row with the key, or with a text, is not shown."""

LONGEST_PAUSE_SECONDS = 10.0
"""A Retry-After counts up to this."""


def message_of(body: bytes) -> str:
    """`error.message`, `error`, `message` or `detail`, as the compatible servers have it; empty if none is a string."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict):
        return ""
    answer = cast("dict[str, Any]", found)
    error: Any = answer.get("error")
    nested: Any = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else error
    candidates = (nested, answer.get("message"), answer.get("detail"))
    return next((text for text in candidates if isinstance(text, str)), "")


def shown(message: str, key: str, texts: Iterable[str] = ()) -> str:
    """The message shortened and without control characters; empty if it repeats a piece of the key or of a text."""
    line = "".join(character for character in squeezed(message) if character.isprintable())[:MESSAGE_CHARACTERS]
    told = repeats(line, key, KEY_PIECE) or any(repeats(line, text, TEXT_PIECE) for text in texts)
    return "" if told else line


def repeats(message: str, secret: str, piece: int) -> bool:
    inside, told = squeezed(secret).casefold(), message.casefold()
    size = min(piece, len(inside))
    return size > 2 and any(told[start : start + size] in inside for start in range(len(told) - size + 1))


def squeezed(text: str) -> str:
    return " ".join(text.split())


def redirect_target(location: str) -> str:
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    return shown(host or "another address", key="")


def retry_after(value: str) -> float | None:
    """Seconds to wait, from a number or an HTTP date; None where the server does not say."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = seconds_until(value)
    return min(seconds, LONGEST_PAUSE_SECONDS) if seconds is not None and seconds >= 0 else None


def seconds_until(date: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
