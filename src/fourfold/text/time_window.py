"""Time expressions of a question as a window of time: "last week", "letzten Dienstag", "between 3 and 10 May".

A pure function of the text, its language, the moment and the time zone. The tests have a table of what is
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

from fourfold.text.time_grammar import Calendar

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


TIME_HINT: Final = re.compile(f"{_any_of(_WORDS)}|{_DIGITS}")
"""Occurs in the lower case of each text that is worth reading with the grammars, which take a hundred times as long."""


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
    if len(text) > _LONGEST or not TIME_HINT.search(text.lower()):
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


def _covered(bounds: Iterable[Bounds]) -> int:
    """Characters of the text that a language explains."""
    return sum(one.last - one.first for one in bounds)


def _narrowest(bounds: Iterable[Bounds]) -> Bounds | None:
    """The one that lies within all others."""
    ordered = sorted(bounds, key=lambda one: (_size(one), one.first - one.last))
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


# ---------------------------------------------------------------- whether a query asks for what happened then
#
# "What did we decide last week?" and "notes from March" do; "Plan my next week" and "a budget for March" do not: their
# time is a part of the topic, and the answer may have been stored at any time.

_PAST: Final = re.compile(
    r"\b(?:did|were|had|said|told|asked|mentioned|talked|discussed|decided|happened|agreed|wrote|sent|met|went"
    r"|spoke|chose|bought|made|got|came|gave|took|found|saw|heard|[a-z]{3,}ed"
    r"|war|waren|hatte[nst]?|hat|habe|haben|hast|habt|wurde[n]?|sagte[n]?|schrieb|traf|ging|kam|gab|nahm|fand|sah)\b",
    re.IGNORECASE,
)
_WAS: Final = re.compile(r"\bwas\b", re.IGNORECASE)
_GERMAN: Final = re.compile(
    r"\b(?:ich|wir|du|ihr|sie|der|das|dem|ein|eine|ist|sind|soll|kann|muss|und|mit|von|zu|zum|heute|gestern)\b",
    re.IGNORECASE,
)
"""Words by which "was" is German for "what"."""
_PARTICIPLE: Final = re.compile(
    r"\b(?:[a-zäöüß]*ge[a-zäöüß]{2,}(?:t|en)|(?:be|ver|ent|er|zer)[a-zäöüß]{3,}(?:t|en))\b", re.IGNORECASE
)
"""German: also the form of many infinitives, which follow a modal verb."""
_NOT_YET: Final = re.compile(
    r"\b(?:will|shall|should|going to|gonna|plan|want|need|can|could|may|might|must|let's|please|how (?:do|can)|werden?"
    r"|wird|soll(?:en|te)?|will|wollen|möchte|muss|müssen|darf|dürfen|kann|können|plane[n]?)\b",
    re.IGNORECASE,
)
_DATED: Final = re.compile(
    r"\d|\b(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-z]*\b", re.IGNORECASE
)
_FOR: Final = re.compile(r"\b(?:for|für|due|by|until|bis)\s+(?:the\s+|den\s+|die\s+|das\s+)?$", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"(?:(?<!\b\d)(?<!\b\d\d)\.|[!?])\s+|\n+")
"""The end of a sentence: "3. März" has none."""
_HABIT: Final = re.compile(r"\s*(?:do|does|when|how|wann|wie)\b|.*\b(?:is|are|ist|sind|gibt)\b", re.IGNORECASE)
"""Questions about permanent facts: "Is the shop open ...", "When does the train leave ..."."""
_DIGIT: Final = re.compile(r"\d")
_FEW_WORDS: Final = 8
"""Keywords with a time: "meeting notes last week"."""


def asks_when(text: str, words: Words, now: datetime) -> bool:
    if words.start is not None and words.start > now:
        return False
    if _FOR.search(text[: words.first]):
        return False
    sentence = _sentence_at(text, words)
    if len(text) > len(sentence) + 2 and "?" not in text:
        return False  # several sentences that ask nothing
    rest = sentence.replace(words.words, " ")
    later = _NOT_YET.search(rest) is not None
    was = _WAS.search(rest) is not None and _GERMAN.search(sentence) is None
    if was or _PAST.search(rest) or (not later and _PARTICIPLE.search(rest)):
        return True
    if words.repeats and _HABIT.match(sentence) and not _DIGIT.search(words.words):
        return False  # about any Sunday, or any March
    over = words.end is not None and words.end <= now
    if over and _DATED.search(words.words) and sentence.rstrip().endswith("?"):
        return True  # "What does she report on 6 January?"
    return len(text.split()) <= _FEW_WORDS and not later


def _sentence_at(text: str, words: Words) -> str:
    begin = max((match.end() for match in _SENTENCE.finditer(text, 0, words.first)), default=0)
    end = _SENTENCE.search(text, words.first + len(words.words))
    return text[begin : len(text) if end is None else end.start() + 1]
