"""What the grammars of time expressions share: rules for points in time, and words that join and limit them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Final, Literal, TypeAlias

from fourfold.text import calendar_spans as spans
from fourfold.text.calendar_spans import Calendar, Part, Span, Third, Unit, earlier_year, hour_of_day, in_year, joined

Match: TypeAlias = re.Match[str]
Resolve: TypeAlias = Callable[[Match, Calendar], Span | None]
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
    span: Resolve
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
    bounds: list[Bounds] = []
    rest = iter(range(len(points)))
    for index in rest:
        after = points[index + 1] if index + 1 < len(points) else None
        both = None if after is None else _range(text, points[index], after, grammar, calendar)
        if both is not None:
            bounds.append(both)
            next(rest, None)
        elif (one := _limited(text, points[index], grammar)) is not None:
            bounds.append(one)
    return [one for one in bounds if grammar.negated.search(text, 0, one.first) is None]


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


# ---------------------------------------------------------------- the words of a language


def rule(pattern: str, span: Resolve, *, alone: bool = True, cased: bool = False, repeats: Repeats = None) -> Rule:
    return Rule(compiled(rf"(?<![\w.,:/$€£#@-]){pattern}", cased=cased), span, alone, repeats)


def day(offset: int) -> Resolve:
    return lambda match, calendar: calendar.day(offset)


def night(offset: int) -> Resolve:
    return lambda match, calendar: spans.part_of_day(calendar.day(offset), "night")


def has(match: Match, group: str) -> bool:
    return bool(match.groupdict().get(group))


@dataclass(frozen=True, slots=True)
class Words:
    """What the words of a language mean, and so the spans of its expressions. Keys are in lower case."""

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    numbers: Mapping[str, int]
    ordinals: Mapping[str, int]
    units: Mapping[str, Unit]
    offsets: Mapping[str, int]
    """last: -1, this: 0, next: 1."""
    days: Mapping[str, int]
    """yesterday: -1."""
    parts: Mapping[str, Part]
    thirds: Mapping[str, Third]
    seasons: Mapping[str, str]

    def offset(self, match: Match) -> int:
        return self.offsets[match["which"].casefold().removeprefix("the ")]

    def unit(self, match: Match) -> Unit:
        return self.units[match["unit"].casefold()]

    def count(self, match: Match) -> int:
        """A number in digits or words; ValueError if it is neither."""
        word = (match.groupdict().get("count") or "1").strip().casefold()
        return self.numbers[word] if word in self.numbers else int(word)

    def ordinal(self, text: str) -> int:
        """3, 3rd, 3., Q3, third, dritten."""
        digits = "".join(filter(str.isdigit, text))
        return int(digits) if digits else self.ordinals[text.casefold().rstrip("nrs")]

    def month_number(self, match: Match) -> int:
        return self.months[match["month"].casefold().rstrip(".")]

    def weekday_number(self, match: Match) -> int:
        return self.weekdays[match["weekday"].casefold()]

    def whole_year(self, match: Match, calendar: Calendar) -> int | None:
        """The year that the words name by its number, or as last, this and next; None if they name none."""
        if has(match, "year"):
            return year_of(match, calendar)
        return calendar.today.year + self.offset(match) if has(match, "which") else None

    def month(self, match: Match, calendar: Calendar) -> Span:
        number, year = self.month_number(match), self.whole_year(match, calendar)
        return calendar.month_named(number, "recent") if year is None else spans.month(year, number)

    def date(self, match: Match, calendar: Calendar, day: str = "day") -> Span:
        number = self.ordinal(match[day])
        if has(match, "year"):
            return spans.days(date(year_of(match, calendar), self.month_number(match), number))
        return calendar.date_recent(self.month_number(match), number)

    def dates(self, match: Match, calendar: Calendar) -> Span | None:
        last = self.date(match, calendar, "to")
        first = last.start.replace(day=self.ordinal(match["day"]))
        return Span(first, last.end) if first < last.end else None

    def weekday(self, match: Match, calendar: Calendar) -> Span:
        return calendar.weekday(self.weekday_number(match), "last")

    def weekday_of_week(self, match: Match, calendar: Calendar) -> Span:
        week = calendar.unit("week", self.offset(match))
        return spans.days(week.start.date() + timedelta(self.weekday_number(match)))

    def named(self, match: Match, calendar: Calendar) -> Span | None:
        """last Tuesday, this March, next summer, vorletzte Woche."""
        offset = self.offset(match)
        if has(match, "unit"):
            return calendar.unit(self.unit(match), offset)
        if abs(offset) > 1:  # the last Tuesday but one
            return None
        direction: Literal["last", "this", "next"] = ("last", "this", "next")[offset + 1]
        if has(match, "weekday"):
            return calendar.weekday(self.weekday_number(match), direction)
        if has(match, "month"):
            return calendar.month_named(self.month_number(match), direction)
        return calendar.season_named(self.seasons[match["season"].casefold()], direction)

    def season(self, match: Match, calendar: Calendar) -> Span:
        name, year = self.seasons[match["season"].casefold()], self.whole_year(match, calendar)
        return calendar.season_named(name, "recent") if year is None else spans.season(name, year)

    def quarter(self, match: Match, calendar: Calendar) -> Span:
        return self._months(match, calendar, 3 * self.ordinal(match["quarter"]) - 2, 3)

    def half(self, match: Match, calendar: Calendar) -> Span:
        return self._months(match, calendar, 6 * self.ordinal(match["half"]) - 5, 6)

    def _months(self, match: Match, calendar: Calendar, first: int, count: int) -> Span:
        """Without a year: the latest that have begun."""
        year = self.whole_year(match, calendar)
        return spans.month(calendar.today.year - (first > calendar.today.month) if year is None else year, first, count)

    def third(self, match: Match, calendar: Calendar) -> Span:
        """early March, the end of last year, mid-2025."""
        if has(match, "month"):
            whole = self.month(match, calendar)
        elif has(match, "year"):
            whole = spans.year(year_of(match, calendar))
        else:
            whole = calendar.unit(self.unit(match), self.offset(match) if has(match, "which") else 0)
        return spans.third(whole, self.thirds[match["third"].casefold()])

    def ago(self, match: Match, calendar: Calendar) -> Span:
        return calendar.unit(self.unit(match), -self.count(match))

    def same_day(self, match: Match, calendar: Calendar) -> Span:
        return calendar.same_day(self.unit(match), -self.count(match))

    def half_ago(self, match: Match, calendar: Calendar) -> Span:
        return calendar.unit("month", -6) if self.unit(match) == "year" else calendar.unit("minute", -30)

    def rolling(self, match: Match, calendar: Calendar) -> Span:
        return calendar.rolling(self.unit(match), self.count(match))

    def coming(self, match: Match, calendar: Calendar) -> Span:
        return Span(calendar.now, calendar.same_day(self.unit(match), self.count(match)).end)

    def day_part(self, match: Match, calendar: Calendar) -> Span:
        return self._part(calendar.day(self.days[match["when"].casefold()]), match)

    def weekday_part(self, match: Match, calendar: Calendar) -> Span | None:
        whole = self.named(match, calendar) if has(match, "which") else self.weekday(match, calendar)
        return None if whole is None else self._part(whole, match)

    def _part(self, whole: Span, match: Match) -> Span:
        return spans.part_of_day(whole, self.parts[match["part"].casefold()])


# ---------------------------------------------------------------- dates in digits

YEAR: Final = r"(?P<year>(?:19|20)\d\d|['’]\d\d)\b(?![.,:/-]\d)"
"""2026 or '26."""
_OF: Final = rf"(?:(?: +(?:of +|in +|von +)?|, *|/){YEAR})"
_CERTAIN_WEEK: Final = r"(?:calendar +week|CW|KW|kalenderwoche)"
_TO: Final = r" *(?:-|–|\bto\b|\band\b|\bthrough\b|\buntil\b|\bbis\b|\bund\b) *"
_TO_NUMBER: Final = rf"{_TO}(?P<to>\d\d?)\b(?!\.|[:/]\d)"
_NUMBERED: Final = (
    r"(?<!invoice )(?<!ticket )(?<!rechnung )(?<!nummer )(?<!number )(?<!no\. )(?<!nr\. )(?<!no )(?<!nr )(?<!ratio )"
)
"""Invoice 05/2024 is the fifth invoice."""
_NOT_A_SHARE: Final = r"(?<!is )(?<!are )(?<!was )(?<!were )(?<!of )(?<!= )(?<!ist )(?<!sind )(?<!war )(?<!beträgt )"
"""The ratio is 10/2000; a month below 10 has two digits, which no ratio has."""
_NOT_OF: Final = r"(?! +(?:of|des|der|vom|im)\b)"
"""Week 12 of the course."""


def year_of(match: Match, calendar: Calendar) -> int:
    """The group `year`; of two digits, the latest year that is at most ten years ahead."""
    return spans.full_year(int(match["year"].lstrip("'’")), calendar.now)


def week_number(match: Match, calendar: Calendar) -> Span:
    """Without a year: the latest such week that has begun."""
    number = int(match["number"])
    if match.groupdict().get("year"):
        return spans.iso_week(year_of(match, calendar), number)
    return calendar.week_recent(number)


def _weeks(match: Match, calendar: Calendar) -> Span | None:
    if match.groupdict().get("year"):
        year = year_of(match, calendar)
        first, last = spans.iso_week(year, int(match["number"])), spans.iso_week(year, int(match["to"]))
    else:
        first = calendar.week_recent(int(match["number"]))
        last = spans.iso_week(first.start.date().isocalendar().year, int(match["to"]))
    return spans.joined(first, last) if first.start < last.end else None


def _month(match: Match, calendar: Calendar) -> Span:
    return spans.month(int(match["year"]), int(match["number"]))


def _quarter(match: Match, calendar: Calendar) -> Span:
    return spans.month(year_of(match, calendar), 3 * int(match["quarter"][-1]) - 2, 3)


def _iso_day(match: Match, calendar: Calendar) -> Span:
    return spans.days(date.fromisoformat(match["iso"]))


def in_year_named(match: Match, calendar: Calendar) -> Span:
    return spans.year(year_of(match, calendar))


def decade(match: Match, calendar: Calendar) -> Span:
    return spans.year(spans.full_year(int(match["decade"]), calendar.now), 10)


NUMERIC: Final = (
    rule(r"(?P<iso>(?P<year>\d{4})-\d\d-\d\d)(?![\d-])", _iso_day),
    rule(r"(?P<year>(?:19|20)\d\d)-(?P<number>0[1-9]|1[0-2])(?![\d-])", _month, alone=False),
    rule(rf"{_NUMBERED}(?P<number>0[1-9]|{_NOT_A_SHARE}1[0-2])/(?P<year>(?:19|20)\d\d)(?= *(?:$|[?.!,;]))", _month),
    rule(r"(?P<number>0?[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)(?![\w/-])", _month, alone=False),
    rule(r"(?P<number>0[1-9]|1[0-2])\.(?P<year>(?:19|20)\d\d)(?![\w/-]|\.\d)", _month, alone=False),
    rule(r"(?P<year>(?:19|20)\d\d)-?W(?P<number>[0-5]\d)\b(?!-)", week_number),
    rule(rf"{_CERTAIN_WEEK} *(?P<number>\d\d?)\b{_OF}?", week_number),
    rule(rf"(?:week|woche) +(?P<number>\d\d?){_OF}", week_number),
    rule(rf"(?P<number>\d\d?)\. +(?:KW|kalenderwoche)\b{_OF}?", week_number),
    rule(rf"(?:week|woche) +(?P<number>[1-5]\d)\b{_NOT_OF}", week_number, alone=False),
    rule(rf"{_CERTAIN_WEEK}[sn]? *(?P<number>\d\d?){_TO_NUMBER}{_OF}?", _weeks),
    rule(rf"(?:weeks|wochen) +(?P<number>[1-5]\d){_TO_NUMBER}(?:{_OF}|{_NOT_OF})", _weeks),
    rule(rf"(?P<quarter>Q[1-4])(?: +(?:of +|in +|von +)?|/){YEAR}", _quarter, repeats="year"),
    rule(r"(?P<year>(?:19|20)\d\d)[ /-]?(?P<quarter>Q[1-4])\b", _quarter),
)
