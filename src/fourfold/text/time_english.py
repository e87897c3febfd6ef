"""English time expressions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final, Literal, TypeAlias, cast

from fourfold.text import calendar_spans as spans
from fourfold.text.calendar_spans import Calendar, Part, Span, Third, Unit
from fourfold.text.time_grammar import (
    NOT_COUNTED,
    NUMERIC,
    YEAR,
    Grammar,
    Match,
    Repeats,
    Rule,
    before,
    compiled,
    number,
    year_of,
)

_MONTHS: Final = (
    ("january", "jan"), ("february", "feb"), ("march", "mar"), ("april", "apr"), ("may",), ("june", "jun"),
    ("july", "jul"), ("august", "aug"), ("september", "sept", "sep"), ("october", "oct"), ("november", "nov"),
    ("december", "dec"),
)  # fmt: skip
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS: Final = {
    "a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fourteen": 14, "twenty": 20, "thirty": 30,
}  # fmt: skip
_ORDINALS: Final = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4}
_THIRDS: Final[dict[str, Third]] = {
    "early": "early", "beginning": "early", "start": "early",
    "mid": "mid", "middle": "mid", "late": "late", "end": "late",
}  # fmt: skip
_MONTH_NUMBERS: Final = {name: index for index, names in enumerate(_MONTHS, 1) for name in names}
_OFFSETS: Final = {"last": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1, "upcoming": 1}

_LONG: Final = "|".join(name.capitalize() for names in _MONTHS for name in names)
_CAPITAL: Final = rf"(?:{_LONG}|{_LONG.upper()})\b\.?"
"""Months as names: `may`, `march` and `mar` are also verbs and abbreviations."""
_ANY_CASE: Final = rf"(?:{'|'.join(sorted(_MONTH_NUMBERS, key=len, reverse=True))})\b\.?"
_MONTH: Final = rf"(?P<month>{_CAPITAL}|(?i:(?!(?:may|march|mar|dec|sep|jan|jun)\b){_ANY_CASE}))"
_ANY_MONTH: Final = rf"(?P<month>(?i:{_ANY_CASE}))"
_WEEKDAY: Final = rf"(?P<weekday>(?i:{'|'.join(_WEEKDAYS)}))\b"
_YEAR: Final = YEAR
_DAY: Final = r"(?P<day>3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?\b"
_TO_DAY: Final = _DAY.replace("day", "to")
_UNIT: Final = r"(?P<unit>minute|hour|day|week|month|quarter|year)s?\b"
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_PART: Final = r"(?P<part>morning|afternoon|evening|night)\b"
_WHICH: Final = r"(?P<which>last|previous|this|the current|current|next|the coming|coming|upcoming)"
_SEASON: Final = r"(?P<season>spring|summer|autumn|fall|winter)\b"
_NAMED: Final = rf"(?:(?i:{'|'.join(_WEEKDAYS)}),? +)?"
_TO: Final = r" *(?:-|–|\bto\b|\band\b|\bthrough\b|\buntil\b) *"
_NOT_MORE: Final = r"(?![.:/%-]?\d|%)"
_NOT_OF: Final = r"(?! +of\b)"
_NOT_VERB: Final = (
    r"(?! +(?:be|have|not|also|need|contain|fail|cause|differ|include|only|still|vary|take|lead|on|well)\b)"
)
_NOT_JAN: Final = rf"(?!(?<=from )Jan\b(?!{_TO}))"
"""A message from Jan is one from a person; from Jan to March is a time."""
_NOT_NAME: Final = r"(?!(?-i:[A-Z])\w+ +(?-i:[A-Z]))"
"""In Spring Boot is not a time."""
_OF_YEAR: Final = rf"(?:,? +(?:of +)?{_YEAR})"


Resolve: TypeAlias = Callable[[Match, Calendar], Span | None]


def _offset(match: Match) -> int:
    return _OFFSETS[match["which"].casefold().removeprefix("the ")]


def _direction(match: Match) -> Literal["last", "this", "next"]:
    return ("last", "this", "next")[_offset(match) + 1]


def _month_number(match: Match) -> int:
    return _MONTH_NUMBERS[match["month"].casefold().rstrip(".")]


def _in_month(match: Match, calendar: Calendar) -> Span:
    if match.groupdict().get("year"):
        return spans.month(year_of(match, calendar), _month_number(match))
    return calendar.month_named(_month_number(match), "recent")


def _date(match: Match, calendar: Calendar, day: str = "day") -> Span:
    if match.groupdict().get("year"):
        return spans.days(date(year_of(match, calendar), _month_number(match), int(match[day])))
    return calendar.date_recent(_month_number(match), int(match[day]))


def _dates(match: Match, calendar: Calendar) -> Span | None:
    last = _date(match, calendar, "to")
    first = last.start.replace(day=int(match["day"]))
    return Span(first, last.end) if first < last.end else None


def _numeric(match: Match, calendar: Calendar) -> Span | None:
    """3/15/2026 and 15/3/2026; None where day and month could be exchanged."""
    first, second, year = int(match[1]), int(match[2]), year_of(match, calendar)
    if (first > 12) == (second > 12) and first != second:
        return None
    return spans.days(date(year, min(first, second) if first != second else first, max(first, second)))


def _weekday(match: Match, calendar: Calendar) -> Span:
    return calendar.weekday(_WEEKDAYS.index(match["weekday"].casefold()), "last")


def _weekday_of_week(match: Match, calendar: Calendar) -> Span:
    week = calendar.unit("week", _offset(match))
    return spans.days(week.start.date() + timedelta(_WEEKDAYS.index(match["weekday"].casefold())))


def _named(match: Match, calendar: Calendar) -> Span:
    """last Tuesday, this March, next summer, last week."""
    found = match.groupdict()
    if found.get("weekday"):
        return calendar.weekday(_WEEKDAYS.index(match["weekday"].casefold()), _direction(match))
    if found.get("month"):
        return calendar.month_named(_month_number(match), _direction(match))
    if found.get("season"):
        return calendar.season_named(_season(match), _direction(match))
    return calendar.unit(cast("Unit", match["unit"].casefold()), _offset(match))


def _season(match: Match) -> str:
    name = match["season"].casefold()
    return "autumn" if name == "fall" else name


def _in_season(match: Match, calendar: Calendar) -> Span:
    if match.groupdict().get("year"):
        return spans.season(_season(match), year_of(match, calendar))
    return calendar.season_named(_season(match), "recent")


def _month_of_year(match: Match, calendar: Calendar) -> Span:
    return spans.month(calendar.today.year + _offset(match), _month_number(match))


def _quarter(match: Match, calendar: Calendar) -> Span:
    index = int(match["quarter"][-1]) if match["quarter"][-1].isdigit() else _ORDINALS[match["quarter"].casefold()]
    found = match.groupdict()
    if found.get("year"):
        return spans.month(year_of(match, calendar), 3 * index - 2, 3)
    if found.get("which"):
        return spans.month(calendar.today.year + _offset(match), 3 * index - 2, 3)
    year = calendar.today.year - (3 * index - 2 > calendar.today.month)
    return spans.month(year, 3 * index - 2, 3)


def _third(match: Match, calendar: Calendar) -> Span:
    """early March, the end of last year, mid-2025."""
    found = match.groupdict()
    if found.get("month"):
        whole = _in_month(match, calendar)
    elif found.get("year"):
        whole = spans.year(year_of(match, calendar))
    elif found.get("which"):
        whole = calendar.unit(cast("Unit", match["unit"].casefold()), _offset(match))
    else:
        whole = calendar.unit(cast("Unit", match["unit"].casefold()), 0)
    return spans.third(whole, _THIRDS[match["third"].casefold()])


def _half(match: Match, calendar: Calendar) -> Span:
    first = 1 if match["half"].casefold() in ("h1", "1h", "first") else 7
    found = match.groupdict()
    if found.get("year"):
        return spans.month(year_of(match, calendar), first, 6)
    return spans.month(calendar.today.year + _offset(match), first, 6)


def _ago(match: Match, calendar: Calendar) -> Span:
    return calendar.unit(cast("Unit", match["unit"].casefold()), -number(_NUMBERS, match["count"]))


def _half_ago(match: Match, calendar: Calendar) -> Span:
    return calendar.unit("month", -6) if match["unit"].casefold() == "year" else calendar.unit("minute", -30)


def _in_year(match: Match, calendar: Calendar) -> Span:
    return spans.year(year_of(match, calendar))


def _day_of_month(match: Match, calendar: Calendar) -> Span:
    return calendar.day_recent(int(match["day"]))


def _rolling(match: Match, calendar: Calendar) -> Span:
    count = number(_NUMBERS, match.groupdict().get("count") or "1")
    return calendar.rolling(cast("Unit", match["unit"].casefold()), count)


def _coming(match: Match, calendar: Calendar) -> Span:
    count = number(_NUMBERS, match["count"])
    last = calendar.same_day(cast("Unit", match["unit"].casefold()), count)
    return Span(calendar.now, last.end)


def _day_part(match: Match, calendar: Calendar) -> Span:
    word = match["when"].casefold()
    offset = {"yesterday": -1, "tomorrow": 1}.get(word, 0)
    return spans.part_of_day(calendar.day(offset), cast("Part", match["part"].casefold()))


def _weekday_part(match: Match, calendar: Calendar) -> Span:
    day = _named(match, calendar) if match.groupdict().get("which") else _weekday(match, calendar)
    return spans.part_of_day(day, cast("Part", match["part"].casefold()))


def _day(offset: int) -> Resolve:
    return lambda match, calendar: calendar.day(offset)


def _iso_day(match: Match, calendar: Calendar) -> Span:
    return spans.days(date.fromisoformat(match["iso"]))


def _iso_month(match: Match, calendar: Calendar) -> Span:
    return spans.month(year_of(match, calendar), int(match["number"]))


def _decade(match: Match, calendar: Calendar) -> Span:
    return spans.year(spans.full_year(int(match["decade"]), calendar.now), 10)


def _rule(pattern: str, span: Resolve, *, alone: bool = True, cased: bool = False, repeats: Repeats = None) -> Rule:
    return Rule(compiled(rf"(?<![\w.,:/$€£#@-]){pattern}", cased=cased), span, alone, repeats)


_QUARTER: Final = r"the +(?P<quarter>first|second|third|fourth|[1-4](?:st|nd|rd|th)) +quarter"
_OF: Final = rf"(?: +of)?(?: +the)? +(?:{_WHICH} +year|{_YEAR})"
_HALF: Final = r"(?:(?P<half>H[12]|[12]H|first(?= half)|second(?= half))(?: +half)?)"

RULES: Final = (
    _rule(r"(?P<iso>(?P<year>\d{4})-\d\d-\d\d)(?![\d-])", _iso_day),
    _rule(r"(?P<year>(?:19|20)\d\d)-(?P<number>0[1-9]|1[0-2])(?![\d-])", _iso_month, alone=False),
    _rule(r"(\d\d?)/(\d\d?)/(?P<year>(?:19|20)\d\d)\b", _numeric, repeats="year"),
    # 3 May, the 3rd of May 2026, Tuesday, 3 March; May 3rd, 2026
    _rule(rf"{_NAMED}(?:the +)?{_DAY} +(?:of +)?{_MONTH}{_NOT_VERB}{_OF_YEAR}?", _date, cased=True, repeats="year"),
    _rule(rf"{_NAMED}{_MONTH} +(?:the +)?{_DAY}{_NOT_MORE}{_OF_YEAR}?", _date, cased=True, repeats="year"),
    _rule(
        rf"(?:the +)?{_DAY}{_TO}(?:the +)?{_TO_DAY} +(?:of +)?{_MONTH}{_NOT_VERB}{_OF_YEAR}?",
        _dates,
        cased=True,
        repeats="year",
    ),
    _rule(rf"{_MONTH} +{_DAY}{_TO}{_TO_DAY}{_NOT_MORE}{_OF_YEAR}?", _dates, cased=True, repeats="year"),
    # March 2026, March last year, last year in March
    _rule(rf"{_ANY_MONTH},? +(?:of +)?{_YEAR}", _in_month, repeats="year"),
    _rule(rf"{_ANY_MONTH} +(?:of +)?{_WHICH} +year\b", _month_of_year),
    _rule(rf"{_WHICH} +year,? +in +{_ANY_MONTH}", _month_of_year),
    _rule(rf"{_NOT_JAN}{_MONTH}", _in_month, alone=False, cased=True, repeats="year"),
    _rule(
        r"(?P<month>(?:(?<=\bin )|(?<=\bIn ))(?:may|march|mar|dec|sep|jan|jun))\b",
        _in_month,
        alone=False,
        cased=True,
        repeats="year",
    ),
    _rule(rf"the +month +of +{_ANY_MONTH}", _in_month, alone=False, repeats="year"),
    # days
    _rule(r"(?<!USA )today\b", _day(0)),
    _rule(r"yesterday\b", _day(-1)),
    _rule(r"tomorrow\b", _day(1)),
    _rule(r"(?:the +)?day +before +yesterday\b", _day(-2)),
    _rule(r"(?:the +)?day +after +tomorrow\b", _day(2)),
    _rule(rf"(?P<when>yesterday|tomorrow|this) +{_PART}", _day_part),
    _rule(r"tonight\b", lambda match, calendar: spans.part_of_day(calendar.day(), "night")),
    _rule(r"last +night\b", lambda match, calendar: spans.part_of_day(calendar.day(-1), "night")),
    _rule(rf"{_WEEKDAY}(?!')", _weekday, alone=False, repeats="week"),
    _rule(rf"{_WEEKDAY} +{_PART}", _weekday_part, alone=False, repeats="week"),
    _rule(rf"{_WHICH} +{_WEEKDAY} +{_PART}", _weekday_part),
    _rule(rf"{_WEEKDAY},? +(?:of +)?{_WHICH} +week\b", _weekday_of_week),
    _rule(rf"{_WHICH} +week(?:'s)?,? +(?:on +)?{_WEEKDAY}", _weekday_of_week),
    _rule(r"the +(?P<day>3[01]|[12]\d|[1-9])(?:st|nd|rd|th)(?= *(?:$|[?.!,;]))", _day_of_month, alone=False),
    # last week, this March, next summer, the end of last year
    _rule(rf"{_WHICH} +(?P<unit>week|month|quarter|year|weekend)\b{_NOT_OF}", _named),
    _rule(rf"{_WHICH} +{_WEEKDAY}", _named),
    _rule(rf"(?i:{_WHICH}) +{_MONTH}", _named, cased=True),
    _rule(rf"(?!this +fall){_WHICH} +{_SEASON}{_NOT_OF}", _named),
    _rule(r"the +weekend\b", lambda match, calendar: calendar.weekend_recent(), alone=False),
    _rule(rf"(?i:(?P<third>early|mid|late))[ -]+(?:in +)?{_MONTH}{_OF_YEAR}?", _third, cased=True, repeats="year"),
    _rule(rf"(?P<third>early|mid|late)[ -]+(?:in +)?{_YEAR}", _third, repeats="year"),
    _rule(rf"the +(?P<third>beginning|start|middle|end) +of +{_ANY_MONTH}{_OF_YEAR}?", _third, repeats="year"),
    _rule(
        rf"the +(?P<third>beginning|start|middle|end) +of +(?:{_YEAR}|(?:{_WHICH}|the) +(?P<unit>week|month|year)\b)",
        _third,
        repeats="year",
    ),
    # ago, the last three days
    _rule(rf"{_COUNT} +{_UNIT} +ago\b", _ago),
    _rule(r"half +(?:a|an) +(?P<unit>year|hour) +ago\b", _half_ago),
    _rule(r"(?:a +)?fortnight +ago\b", lambda match, calendar: calendar.unit("week", -2)),
    _rule(rf"(?:the +)?(?:last|past|previous) +(?!an?\b){_COUNT} +{_UNIT}{_NOT_OF}", _rolling),
    _rule(rf"(?:the +)?past +(?P<unit>hour|day|week|month|quarter|year)\b{_NOT_OF}", _rolling),
    _rule(rf"(?:the +)?(?:next|coming) +(?!an?\b){_COUNT} +(?P<unit>day|week|month|year)s?\b{_NOT_OF}", _coming),
    # quarters, weeks, seasons, years, decades
    *NUMERIC,
    _rule(r"(?P<quarter>Q[1-4])\b", _quarter, alone=False, cased=True, repeats="year"),
    _rule(rf"{_QUARTER}\b", _quarter, alone=False, repeats="year"),
    _rule(rf"(?:the +)?{_QUARTER.removeprefix('the +')}{_OF}", _quarter),
    _rule(rf"(?:the +)?{_HALF} +(?:of +)?(?:{_YEAR}|{_WHICH} +year\b)", _half),
    _rule(rf"(?:the +)?{_SEASON} +(?:of +)?{_YEAR}", _in_season, repeats="year"),
    _rule(rf"(?:the +)?{_NOT_NAME}(?P<season>spring|summer|autumn|winter)\b", _in_season, alone=False, repeats="year"),
    _rule(rf"(?:the +year +)?{_YEAR}{NOT_COUNTED}", _in_year, alone=False),
    _rule(r"the +(?P<decade>(?:19|20)?[0-9]0)'?s\b", _decade, alone=False),
)

GRAMMAR: Final = Grammar(
    rules=RULES,
    governs=before(r"in|on|during|throughout|over|at|of|from|back in"),
    since=before(r"(?:ever )?since|starting (?:in|on|from)|from (?=$)(?!)"),
    until=before(r"until|till|up to(?: and including)?"),
    before=before(r"before|prior to|earlier than"),
    after=before(r"after|later than"),
    opens=before(r"between|from"),
    joins=compiled(r",? *(?:and|to|until|till|through|-|–) *(?:on )?"),
    dashes=compiled(r" *(?:to|until|till|through|-|–) *"),
    clock=compiled(
        r",? +(?:at|around) +(?P<hour>[01]?\d|2[0-3])(?::[0-5]\d)?(?: *(?P<half>[ap]\.?m\b\.?)| *o'clock)?(?![\w:])"
    ),
    never=before(r"every|each|per|any|by|a|an|version"),
    negated=before(r"not|except|excluding|without|other than|apart from"),
)
