"""Spans of local time seen from a moment: days, weeks, months, seasons, and what "last" and "next" mean for them.

Times are naive local times; a span is half-open. Weeks begin on Monday. All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, Literal, TypeAlias

Unit = Literal["minute", "hour", "day", "week", "month", "quarter", "year", "weekend"]
Part = Literal["morning", "noon", "afternoon", "evening", "night"]
Third = Literal["early", "mid", "late"]

PARTS: Final[dict[Part, tuple[int, int]]] = {
    "morning": (5, 12),
    "noon": (11, 14),
    "afternoon": (12, 18),
    "evening": (18, 24),
    "night": (18, 30),
}
"""Hours of a day; those from 24 on belong to the next one."""
SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}
"""The first month of each: a season has three whole months."""
_MONTHS: Final = 12
_CENTURY: Final = 100


@dataclass(frozen=True, slots=True)
class Span:
    """Local time from `start` up to `end`, without the end."""

    start: datetime
    end: datetime


def span_of_days(first: date, count: int = 1) -> Span:
    return Span(_midnight(first), _midnight(first + timedelta(count)))


def span_of_month(year: int, number: int, count: int = 1) -> Span:
    """`count` months from a month on; the number may lie outside of 1 to 12."""
    return Span(_first(year, number), _first(year, number + count))


def span_of_year(number: int, count: int = 1) -> Span:
    return span_of_month(number, 1, _MONTHS * count)


def iso_week(year: int, number: int) -> Span:
    """Raises ValueError if the year has no such week."""
    return span_of_days(date.fromisocalendar(year, number, 1), 7)


def span_of_season(name: str, year: int) -> Span:
    """The season that begins in a year."""
    return span_of_month(year, SEASONS[name], 3)


def third(span: Span, part: Third) -> Span:
    """The early, middle or late part: days 1 to 10, 11 to 20 and the rest of a month; thirds of anything longer.

    Of a week: Monday and Tuesday, Wednesday and Thursday, Friday to Sunday.
    """
    first = span.start.date()
    length = (span.end - span.start).days
    if length > 31:  # longer than a month
        months = round(length / 30.4)
        cuts = [span_of_month(first.year, first.month + months * step // 3).start for step in range(3)]
    else:
        steps = (0, 2, 4) if length == 7 else (0, 10, 20)  # a week
        cuts = [_midnight(first + timedelta(step)) for step in steps]
    bounds = [*cuts, span.end]
    index = ("early", "mid", "late").index(part)
    return Span(bounds[index], bounds[index + 1])


def part_of_day(span: Span, part: Part) -> Span:
    first, last = PARTS[part]
    return Span(span.start + timedelta(hours=first), span.start + timedelta(hours=last))


def hour_of_day(span: Span, hour: int) -> Span:
    return Span(span.start + timedelta(hours=hour), span.start + timedelta(hours=hour + 1))


def full_year(two_or_four_digits: int, now: datetime) -> int:
    """A year of two digits is the latest one that is at most ten years ahead."""
    if two_or_four_digits >= _CENTURY:
        return two_or_four_digits
    ahead = now.year + 10
    return ahead - (ahead - two_or_four_digits) % _CENTURY


@dataclass(frozen=True, slots=True)
class Calendar:
    """The meaning of expressions that depend on the time of the query."""

    now: datetime
    """Naive local time."""
    zone: tzinfo | None = None
    """For hours and minutes ago: clocks are changed twice a year. None: the time zone of this machine."""

    @property
    def today(self) -> date:
        return self.now.date()

    def day(self, offset: int = 0) -> Span:
        return span_of_days(self.today + timedelta(offset))

    def unit(self, unit: Unit, offset: int) -> Span:
        """The calendar unit of which `now` is a part, or one that many units later."""
        today = self.today
        match unit:
            case "minute" | "hour":
                first = self._later(unit, offset).replace(minute=0, second=0, microsecond=0)
                return Span(first, first + timedelta(hours=1))
            case "day":
                return self.day(offset)
            case "week":
                return span_of_days(self._monday() + timedelta(7 * offset), 7)
            case "weekend":
                return span_of_days(self._monday() + timedelta(7 * offset + 5), 2)
            case "month":
                return span_of_month(today.year, today.month + offset)
            case "quarter":
                return span_of_month(today.year, (today.month - 1) // 3 * 3 + 1 + 3 * offset, 3)
            case "year":
                return span_of_year(today.year + offset)

    def rolling(self, unit: Unit, count: int) -> Span:
        """From that many units ago until now: minutes and hours exactly, anything longer from midnight on."""
        if unit in ("minute", "hour"):
            return Span(self._later(unit, -count), self.now)
        first = self._days_ago(unit, count)
        return Span(_midnight(first), self.now)

    def same_day(self, unit: Unit, offset: int) -> Span:
        """Today's date that many units later."""
        return span_of_days(self._days_ago(unit, -offset))

    def weekday(self, number: int, direction: Literal["last", "this", "next"]) -> Span:
        """The latest before today, the one of this week, or the first after today. Monday is 0."""
        if direction == "this":
            return span_of_days(self._monday() + timedelta(number))
        if direction == "last":
            return span_of_days(self.today - timedelta((self.today.weekday() - number - 1) % 7 + 1))
        return span_of_days(self.today + timedelta((number - self.today.weekday() - 1) % 7 + 1))

    def month_named(self, number: int, direction: Literal["recent", "last", "this", "next"]) -> Span:
        """`recent`: the latest that has begun; `last`: the latest that is over; `next`: the first to begin."""
        today = self.today
        match direction:
            case "recent":
                chosen = today.year - (number > today.month)
            case "last":
                chosen = today.year - (number >= today.month)
            case "this":
                chosen = today.year
            case "next":
                chosen = today.year + (number <= today.month)
        return span_of_month(chosen, number)

    def season_named(self, name: str, direction: Literal["recent", "last", "this", "next"]) -> Span:
        """As for months. `this`: the one that runs or begins in this year."""
        around = [span_of_season(name, self.today.year + shift) for shift in (-2, -1, 0, 1)]
        begun = [span for span in around if span.start <= self.now]
        over = [span for span in around if span.end <= self.now]
        match direction:
            case "recent":
                return begun[-1]
            case "last":
                return over[-1]
            case "next":
                return around[len(begun)]
            case "this":
                return begun[-1] if begun[-1] != over[-1] else span_of_season(name, self.today.year)

    def week_recent(self, number: int) -> Span:
        """The latest week of this number that has begun; ValueError if no year has one."""
        this_year = self.today.isocalendar().year
        for chosen in range(this_year, this_year - 8, -1):
            last = date(chosen, 12, 28).isocalendar().week  # always in the last week of its year
            if 1 <= number <= last and (week := iso_week(chosen, number)).start <= self.now:
                return week
        raise ValueError(f"no week {number}")

    def weekend_recent(self) -> Span:
        """The latest weekend that has begun."""
        here = self.unit("weekend", 0)
        return here if here.start <= self.now else self.unit("weekend", -1)

    def date_recent(self, month_number: int, day: int) -> Span:
        """The latest such date that is not in the future; ValueError if no year has such a day."""
        for chosen in range(self.today.year, self.today.year - 9, -1):
            date = _date(chosen, month_number, day)
            if date is not None and date <= self.today:
                return span_of_days(date)
        raise ValueError(f"no day {day} in month {month_number}")

    def day_recent(self, day: int) -> Span:
        """The latest day of a month with this number that is not in the future."""
        for back in range(_MONTHS):
            start = _first(self.today.year, self.today.month - back)
            date = _date(start.year, start.month, day)
            if date is not None and date <= self.today:
                return span_of_days(date)
        raise ValueError(f"no day {day}")

    def _later(self, unit: Literal["minute", "hour"], count: int) -> datetime:
        now = self.now.astimezone() if self.zone is None else self.now.replace(tzinfo=self.zone)
        step = timedelta(hours=count) if unit == "hour" else timedelta(minutes=count)
        return (now.astimezone(UTC) + step).astimezone(self.zone).replace(tzinfo=None)

    def _monday(self) -> date:
        return self.today - timedelta(self.today.weekday())

    def _days_ago(self, unit: Unit, count: int) -> date:
        today = self.today
        if unit in ("month", "quarter", "year"):
            size = {"month": 1, "quarter": 3, "year": 12}[unit]
            start = _first(today.year, today.month - size * count)
            last = (_first(start.year, start.month + 1) - timedelta(1)).day
            return start.date().replace(day=min(today.day, last))
        return today - timedelta(count * (7 if unit in ("week", "weekend") else 1))


def earlier_year(span: Span, years: int = 1) -> Span:
    """The same span, years before; February 29 becomes February 28."""
    return Span(_years_before(span.start, years), _years_before(span.end, years))


def _years_before(moment: datetime, years: int) -> datetime:
    anniversary = _date(moment.year - years, moment.month, moment.day)
    day = anniversary or date(moment.year - years, moment.month, moment.day - 1)
    return datetime.combine(day, moment.time())


def in_year(span: Span, number: int) -> Span:
    """The same part of another year."""
    return earlier_year(span, span.start.year - number)


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _first(year: int, month: int) -> datetime:
    years, index = divmod(month - 1, _MONTHS)
    return datetime(year + years, index + 1, 1)  # local times are naive here


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min)


def joined(first: Span, last: Span) -> Span:
    """From the start of one to the end of the other."""
    return replace(first, end=last.end)


# ---------------------------------------------------------------- rules and points in time

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
    return lambda match, calendar: part_of_day(calendar.day(offset), "night")


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
        return calendar.month_named(number, "recent") if year is None else span_of_month(year, number)

    def date(self, match: Match, calendar: Calendar, day: str = "day") -> Span:
        number = self.ordinal(match[day])
        if has(match, "year"):
            return span_of_days(date(year_of(match, calendar), self.month_number(match), number))
        return calendar.date_recent(self.month_number(match), number)

    def dates(self, match: Match, calendar: Calendar) -> Span | None:
        last = self.date(match, calendar, "to")
        first = last.start.replace(day=self.ordinal(match["day"]))
        return Span(first, last.end) if first < last.end else None

    def weekday(self, match: Match, calendar: Calendar) -> Span:
        return calendar.weekday(self.weekday_number(match), "last")

    def weekday_of_week(self, match: Match, calendar: Calendar) -> Span:
        week = calendar.unit("week", self.offset(match))
        return span_of_days(week.start.date() + timedelta(self.weekday_number(match)))

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
        return calendar.season_named(name, "recent") if year is None else span_of_season(name, year)

    def quarter(self, match: Match, calendar: Calendar) -> Span:
        return self._months(match, calendar, 3 * self.ordinal(match["quarter"]) - 2, 3)

    def half(self, match: Match, calendar: Calendar) -> Span:
        return self._months(match, calendar, 6 * self.ordinal(match["half"]) - 5, 6)

    def _months(self, match: Match, calendar: Calendar, first: int, count: int) -> Span:
        """Without a year: the latest that have begun."""
        year = self.whole_year(match, calendar)
        return span_of_month(
            calendar.today.year - (first > calendar.today.month) if year is None else year, first, count
        )

    def third(self, match: Match, calendar: Calendar) -> Span:
        """early March, the end of last year, mid-2025."""
        if has(match, "month"):
            whole = self.month(match, calendar)
        elif has(match, "year"):
            whole = span_of_year(year_of(match, calendar))
        else:
            whole = calendar.unit(self.unit(match), self.offset(match) if has(match, "which") else 0)
        return third(whole, self.thirds[match["third"].casefold()])

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
        return part_of_day(whole, self.parts[match["part"].casefold()])


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
    return full_year(int(match["year"].lstrip("'’")), calendar.now)


def week_number(match: Match, calendar: Calendar) -> Span:
    """Without a year: the latest such week that has begun."""
    number = int(match["number"])
    if match.groupdict().get("year"):
        return iso_week(year_of(match, calendar), number)
    return calendar.week_recent(number)


def _weeks(match: Match, calendar: Calendar) -> Span | None:
    if match.groupdict().get("year"):
        year = year_of(match, calendar)
        first, last = iso_week(year, int(match["number"])), iso_week(year, int(match["to"]))
    else:
        first = calendar.week_recent(int(match["number"]))
        last = iso_week(first.start.date().isocalendar().year, int(match["to"]))
    return joined(first, last) if first.start < last.end else None


def _month(match: Match, calendar: Calendar) -> Span:
    return span_of_month(int(match["year"]), int(match["number"]))


def _quarter(match: Match, calendar: Calendar) -> Span:
    return span_of_month(year_of(match, calendar), 3 * int(match["quarter"][-1]) - 2, 3)


def _iso_day(match: Match, calendar: Calendar) -> Span:
    return span_of_days(date.fromisoformat(match["iso"]))


def in_year_named(match: Match, calendar: Calendar) -> Span:
    return span_of_year(year_of(match, calendar))


def decade(match: Match, calendar: Calendar) -> Span:
    return span_of_year(full_year(int(match["decade"]), calendar.now), 10)


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
