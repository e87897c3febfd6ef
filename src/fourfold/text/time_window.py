"""Time expressions of a question as a window of time: "last week", "letzten Dienstag", "between 3 and 10 May".

A pure function of the text, its language, the moment and the time zone. tests/text/time_expressions.tsv lists what is
recognised and what it means. What depends on anything but a calendar ("since the release") stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from fourfold.text.calendar_spans import Calendar

if TYPE_CHECKING:
    from fourfold.text.time_grammar import Bounds, Grammar

LANGUAGES: Final = ("en", "de")
_LONGEST: Final = 2000
"""Characters of a text that are read; a longer one is a document rather than a question."""
_WORDS: Final = (
    *("day", "week", "month", "year", "quarter", "night", "noon", "morning", "evening", "tomorrow", "hour", "minute"),
    *("spring", "summer", "autumn", "fall", "winter", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep"),
    *("oct", "nov", "dec", "okt", "dez", "mai", "mär", "maerz", "jän", "heute", "gestern", "morgen", "woche", "tag"),
    *("monat", "jahr", "quartal", "mittwoch", "nacht", "stunde", "frühling", "sommer", "herbst"),
)
"""Parts of words, one of which occurs in every expression of time without digits."""
_DIGITS: Final = r"\d(?:\d{3}-\d|\. ?\d|(?:st|nd|rd|th)\b|\. *kw\b|0'?s\b|0er)|19\d\d|20\d\d|q[1-4]|[ck]w *\d|['’]\d\d"
"""Occurs in every expression of time that has digits and none of the words."""


def _any_of(words: Iterable[str]) -> str:
    """A pattern for these words, by their first letters, which makes it twice as fast."""
    groups = groupby(sorted(words), key=itemgetter(0))
    return "|".join(f"{first}(?:{'|'.join(word[1:] for word in group)})" for first, group in groups)


_TIME_WORD: Final = re.compile(_any_of(_WORDS))
_DIGIT: Final = re.compile(r"\d")
_TIME_DIGITS: Final = re.compile(_DIGITS)


def may_name_time(text: str) -> bool:
    """Whether a text is worth reading with the grammars, which take a hundred times as long."""
    text = text.lower()
    return bool(_TIME_WORD.search(text) or (_DIGIT.search(text) and _TIME_DIGITS.search(text)))


@dataclass(frozen=True, slots=True)
class Words:
    """A window in UTC, half-open; None: not limited on that side. `words`: what it was read from."""

    start: datetime | None
    end: datetime | None
    words: str
    first: int
    """Where the words begin in the text."""
    repeats: bool = False
    """Whether they come true again and again: on Monday, in March."""


def time_window(text: str, language: str | None, now: datetime, zone: tzinfo | None) -> Words | None:
    """The window that a text names; None if it names none, or several that do not lie within each other.

    `language`: "de" or "en"; anything else: both are tried. `zone`: None is the time zone of this machine.
    """
    if len(text) > _LONGEST or not may_name_time(text):
        return None
    calendar = Calendar(now.astimezone(zone).replace(tzinfo=None), zone)
    tried = (language,) if language in LANGUAGES else LANGUAGES
    read = [_read(text, name, calendar) for name in tried]
    chosen = _narrowest(max(read, key=_covered))
    if chosen is None:
        return None
    words = text[chosen.first : chosen.last].strip(" .,")
    return Words(_utc(chosen.start, zone), _utc(chosen.end, zone), words, chosen.first, chosen.repeats)


def _read(text: str, language: str, calendar: Calendar) -> list[Bounds]:
    from fourfold.text.time_grammar import windows

    return windows(text, _grammar(language), calendar)


@lru_cache
def _grammar(language: str) -> Grammar:
    """Compiled on first use: importing the package stays fast."""
    from fourfold.text import time_english, time_german

    return time_german.GRAMMAR if language == "de" else time_english.GRAMMAR


def _covered(found: Iterable[Bounds]) -> int:
    """Characters of the text that a language explains."""
    return sum(one.last - one.first for one in found)


def _narrowest(found: Iterable[Bounds]) -> Bounds | None:
    """The one that lies within all others."""
    ordered = sorted(found, key=lambda one: (_size(one), one.first - one.last))
    if not ordered:
        return None
    inner = ordered[0]
    return inner if all(_within(inner, outer) for outer in ordered[1:]) else None


def _size(bounds: Bounds) -> float:
    if bounds.start is None or bounds.end is None:
        return float("inf")
    return (bounds.end - bounds.start).total_seconds()


def _within(inner: Bounds, outer: Bounds) -> bool:
    starts = outer.start is None or (inner.start is not None and inner.start >= outer.start)
    ends = outer.end is None or (inner.end is not None and inner.end <= outer.end)
    return starts and ends


def _utc(local: datetime | None, zone: tzinfo | None) -> datetime | None:
    if local is None:
        return None
    return (local.astimezone() if zone is None else local.replace(tzinfo=zone)).astimezone(UTC)
