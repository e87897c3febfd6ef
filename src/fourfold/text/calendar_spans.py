"""Spans of local time seen from a moment: days, weeks, months, seasons, and what "last" and "next" mean for them.

Times are naive local times; a span is half-open. Weeks begin on Monday. All functions are pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, Literal

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


def days(first: date, count: int = 1) -> Span:
    return Span(_midnight(first), _midnight(first + timedelta(count)))


def month(year: int, number: int, count: int = 1) -> Span:
    """`count` months from a month on; the number may lie outside of 1 to 12."""
    return Span(_first(year, number), _first(year, number + count))


def year(number: int, count: int = 1) -> Span:
    return month(number, 1, _MONTHS * count)


def iso_week(year: int, number: int) -> Span:
    """Raises ValueError if the year has no such week."""
    return days(date.fromisocalendar(year, number, 1), 7)


def season(name: str, year: int) -> Span:
    """The season that begins in a year."""
    return month(year, SEASONS[name], 3)


def third(span: Span, part: Third) -> Span:
    """The early, middle or late part: days 1 to 10, 11 to 20 and the rest of a month; thirds of anything longer.

    Of a week: Monday and Tuesday, Wednesday and Thursday, Friday to Sunday.
    """
    first = span.start.date()
    length = (span.end - span.start).days
    if length > 31:  # longer than a month
        months = round(length / 30.4)
        cuts = [month(first.year, first.month + months * step // 3).start for step in range(3)]
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
        return days(self.today + timedelta(offset))

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
                return days(self._monday() + timedelta(7 * offset), 7)
            case "weekend":
                return days(self._monday() + timedelta(7 * offset + 5), 2)
            case "month":
                return month(today.year, today.month + offset)
            case "quarter":
                return month(today.year, (today.month - 1) // 3 * 3 + 1 + 3 * offset, 3)
            case "year":
                return year(today.year + offset)

    def rolling(self, unit: Unit, count: int) -> Span:
        """From that many units ago until now: minutes and hours exactly, anything longer from midnight on."""
        if unit in ("minute", "hour"):
            return Span(self._later(unit, -count), self.now)
        first = self._days_ago(unit, count)
        return Span(_midnight(first), self.now)

    def same_day(self, unit: Unit, offset: int) -> Span:
        """Today's date that many units later."""
        return days(self._days_ago(unit, -offset))

    def weekday(self, number: int, direction: Literal["last", "this", "next"]) -> Span:
        """The latest before today, the one of this week, or the first after today. Monday is 0."""
        if direction == "this":
            return days(self._monday() + timedelta(number))
        if direction == "last":
            return days(self.today - timedelta((self.today.weekday() - number - 1) % 7 + 1))
        return days(self.today + timedelta((number - self.today.weekday() - 1) % 7 + 1))

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
        return month(chosen, number)

    def season_named(self, name: str, direction: Literal["recent", "last", "this", "next"]) -> Span:
        """As for months. `this`: the one that runs or begins in this year."""
        around = [season(name, self.today.year + shift) for shift in (-2, -1, 0, 1)]
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
                return begun[-1] if begun[-1] != over[-1] else season(name, self.today.year)

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
                return days(date)
        raise ValueError(f"no day {day} in month {month_number}")

    def day_recent(self, day: int) -> Span:
        """The latest day of a month with this number that is not in the future."""
        for back in range(_MONTHS):
            start = _first(self.today.year, self.today.month - back)
            date = _date(start.year, start.month, day)
            if date is not None and date <= self.today:
                return days(date)
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
