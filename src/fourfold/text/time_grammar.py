"""What the grammars of time expressions share: rules for points in time, and words that join and limit them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from fourfold.text.calendar_spans import Calendar, Span, earlier_year, hour_of_day, in_year, joined

Match: TypeAlias = re.Match[str]
Repeats: TypeAlias = Literal["week", "year"] | None
"""How often the words come true: a Monday every week, a March every year, "March 2026" and "last week" once."""
_MOST_MATCHES: Final = 100
"""Matches of rules in a question, several for each time. A text with more is a list of times, which names no window."""
_DAY_HOURS: Final = 26
"""A day has at most 25 hours; anything longer has no clock time."""
NOT_COUNTED: Final = (
    r"(?! *(?:%|(?:words?|characters?|meters?|metres?|lines?|items?|tokens?|bytes?|people|steps?|dollars?|euros?|files?"
    r"|users?|times|wörtern?|zeichen|metern?|zeilen|leuten?|schritten?|dateien|personen|mal|km|ms|kg|mb|gb)\b))"
)
"""After a number: it is a year rather than a count."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of expression for a point in time: "last week", "3 May", "in March"."""

    pattern: re.Pattern[str]
    span: Callable[[Match, Calendar], Span | None]
    """None, or ValueError: the words mean no time."""
    alone: bool = True
    """Whether it is a time without a preposition before it."""
    repeats: Repeats = None


@dataclass(frozen=True, slots=True)
class Point:
    begin: int
    end: int
    span: Span
    alone: bool
    repeats: Repeats


@dataclass(frozen=True, slots=True)
class Bounds:
    """Local time; None: not limited on that side. `begin` and `end` are the place of the words in the text."""

    start: datetime | None
    end: datetime | None
    first: int
    last: int
    repeats: bool


@dataclass(frozen=True, slots=True)
class Grammar:
    """The patterns of limiting words are matched against the text that ends where a point begins."""

    rules: Sequence[Rule]
    governs: re.Pattern[str]
    """Prepositions that make a point of a month, weekday or year: in, on, during."""
    since: re.Pattern[str]
    until: re.Pattern[str]
    before: re.Pattern[str]
    after: re.Pattern[str]
    opens: re.Pattern[str]
    """What begins a range: between, from."""
    joins: re.Pattern[str]
    """The complete text between the two points of a range."""
    dashes: re.Pattern[str]
    """What joins two points without an opening word: to, until, -."""
    clock: re.Pattern[str]
    """A time of day after a day, with the groups `hour` and, for 12 hours, `half`."""
    never: re.Pattern[str]
    """What before a point makes it something else: every, per."""
    negated: re.Pattern[str]
    """What before an expression rules it out: not, except."""


def compiled(pattern: str, *, cased: bool = False) -> re.Pattern[str]:
    return re.compile(pattern, re.UNICODE if cased else re.IGNORECASE)


def before(pattern: str) -> re.Pattern[str]:
    """A pattern for the words immediately before a point."""
    return re.compile(rf"(?<!\w)(?:{pattern})\s*$", re.IGNORECASE)


def windows(text: str, grammar: Grammar, calendar: Calendar) -> list[Bounds]:
    """All times that a text names, in the order of the text."""
    points = [_with_clock(text, point, grammar) for point in _points(text, grammar, calendar)]
    found: list[Bounds] = []
    rest = iter(range(len(points)))
    for index in rest:
        after = points[index + 1] if index + 1 < len(points) else None
        both = None if after is None else _range(text, points[index], after, grammar, calendar)
        if both is not None:
            found.append(both)
            next(rest, None)
        elif (one := _limited(text, points[index], grammar)) is not None:
            found.append(one)
    return [one for one in found if grammar.negated.search(text, 0, one.first) is None]


def _points(text: str, grammar: Grammar, calendar: Calendar) -> Iterator[Point]:
    """Of overlapping expressions the one that begins first, and of those the longest."""
    candidates = [
        (match.start(), -match.end(), number, match)
        for number, rule in enumerate(grammar.rules)
        for match in rule.pattern.finditer(text)
    ]
    if len(candidates) > _MOST_MATCHES:
        return
    reached = 0
    for begin, end, number, match in sorted(candidates, key=lambda candidate: candidate[:3]):
        if begin < reached or grammar.never.search(text, 0, begin):
            continue
        rule = grammar.rules[number]
        try:
            span = rule.span(match, calendar)
        except (ValueError, OverflowError):
            continue
        if span is not None:
            reached = -end
            repeats = None if match.groupdict().get("year") else rule.repeats
            yield Point(begin, reached, span, rule.alone, repeats)


def _with_clock(text: str, point: Point, grammar: Grammar) -> Point:
    if (point.span.end - point.span.start).total_seconds() > _DAY_HOURS * 3600:
        return point
    match = grammar.clock.match(text, point.end)
    if match is None:
        return point
    hour, half = int(match["hour"]), (match.groupdict().get("half") or "").lower().replace(".", "")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23:  # not a time of day
        return point
    midnight = replace(point.span, start=point.span.start.replace(hour=0))
    spans = [hour_of_day(midnight, later) for later in (hour, hour + 12, hour + 24)]
    within = (span for span in spans if point.span.start <= span.start < point.span.end)
    return replace(point, end=match.end(), span=spans[0] if half else next(within, spans[0]))


def _range(text: str, first: Point, last: Point, grammar: Grammar, calendar: Calendar) -> Bounds | None:
    between = text[first.end : last.begin]
    opened = grammar.opens.search(text, 0, first.begin)
    if opened is not None:
        if grammar.joins.fullmatch(between) is None:
            return None
    elif grammar.dashes.fullmatch(between) is None or not (first.alone or grammar.governs.search(text, 0, first.begin)):
        return None
    start, end = first.span, last.span
    if first.repeats == "year" and last.repeats is None:
        start = in_year(start, end.start.year)
    elif last.repeats == "year" and first.repeats is None:
        end = in_year(end, start.start.year)
    if start.start >= end.end:
        if first.repeats is not None:
            start = _earlier(start, first.repeats)
        elif last.repeats is not None:
            end = _earlier(end, last.repeats, -1)
    if start.start >= end.end:
        return None
    span, begin = joined(start, end), first.begin if opened is None else opened.start()
    return Bounds(span.start, span.end, begin, last.end, None not in (first.repeats, last.repeats))


def _earlier(span: Span, repeats: Literal["week", "year"], times: int = 1) -> Span:
    if repeats == "year":
        return earlier_year(span, times)
    step = timedelta(7 * times)
    return Span(span.start - step, span.end - step)


def _limited(text: str, point: Point, grammar: Grammar) -> Bounds | None:
    """A point with the word before it: since, until, before, after, or only in and on."""
    start, end = point.span.start, point.span.end
    for pattern, bounds in (
        (grammar.since, (start, None)),
        (grammar.until, (None, end)),
        (grammar.before, (None, start)),
        (grammar.after, (end, None)),
    ):
        if (word := pattern.search(text, 0, point.begin)) is not None:
            return Bounds(*bounds, word.start(), point.end, point.repeats is not None)
    word = grammar.governs.search(text, 0, point.begin)
    if word is None:
        if not point.alone:
            return None
        word = grammar.opens.search(text, 0, point.begin)
    begin = point.begin if word is None else word.start()
    return Bounds(start, end, begin, point.end, point.repeats is not None)


def number(words: Mapping[str, int], text: str) -> int:
    """A number in digits or words; ValueError if it is neither."""
    folded = text.strip().casefold()
    if folded in words:
        return words[folded]
    return int(folded)
