"""English time expressions."""

from __future__ import annotations

from datetime import date
from typing import Final, get_args

from fourfold.text import time_grammar as times

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
_THIRDS: Final[dict[str, times.Third]] = {
    "early": "early", "beginning": "early", "start": "early",
    "mid": "mid", "middle": "mid", "late": "late", "end": "late",
}  # fmt: skip
_MONTH_NUMBERS: Final = {name: index for index, names in enumerate(_MONTHS, 1) for name in names}

_LONG: Final = "|".join(name.capitalize() for names in _MONTHS for name in names)
_CAPITAL: Final = rf"(?:{_LONG}|{_LONG.upper()})\b\.?"
"""Months as names: `may`, `march` and `mar` are also verbs and abbreviations."""
_ANY_CASE: Final = rf"(?:{'|'.join(sorted(_MONTH_NUMBERS, key=len, reverse=True))})\b\.?"
_MONTH: Final = rf"(?P<month>{_CAPITAL}|(?i:(?!(?:may|march|mar|dec|sep|jan|jun)\b){_ANY_CASE}))"
_ANY_MONTH: Final = rf"(?P<month>(?i:{_ANY_CASE}))"
_WEEKDAY: Final = rf"(?P<weekday>(?i:{'|'.join(_WEEKDAYS)}))\b"
_YEAR: Final = times.YEAR
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

WORDS: Final = times.Words(
    months=_MONTH_NUMBERS,
    weekdays={name: index for index, name in enumerate(_WEEKDAYS)},
    numbers=_NUMBERS,
    ordinals={"first": 1, "second": 2, "third": 3, "fourth": 4},
    units={unit: unit for unit in get_args(times.Unit)},
    offsets={"last": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1, "upcoming": 1},
    days={"yesterday": -1, "this": 0, "tomorrow": 1},
    parts={part: part for part in get_args(times.Part)},
    thirds=_THIRDS,
    seasons={**{name: name for name in times.SEASONS}, "fall": "autumn"},
)


def _numeric(match: times.Match, calendar: times.Calendar) -> times.Span | None:
    """3/15/2026 and 15/3/2026; None where day and month could be exchanged."""
    first, second, year = int(match[1]), int(match[2]), times.year_of(match, calendar)
    if (first > 12) == (second > 12) and first != second:
        return None
    return times.span_of_days(date(year, min(first, second) if first != second else first, max(first, second)))


_QUARTER: Final = r"the +(?P<quarter>first|second|third|fourth|[1-4](?:st|nd|rd|th)) +quarter"
_OF: Final = rf"(?: +of)?(?: +the)? +(?:{_WHICH} +year|{_YEAR})"
_HALF: Final = r"(?:(?P<half>H[12]|[12]H|first(?= half)|second(?= half))(?: +half)?)"

RULES: Final = (
    times.rule(r"(\d\d?)/(\d\d?)/(?P<year>(?:19|20)\d\d)\b", _numeric, repeats="year"),
    # 3 May, the 3rd of May 2026, Tuesday, 3 March; May 3rd, 2026
    times.rule(rf"{_NAMED}(?:the +)?{_DAY} +(?:of +)?{_MONTH}{_NOT_VERB}{_OF_YEAR}?", WORDS.date, cased=True,
        repeats="year"),
    times.rule(rf"{_NAMED}{_MONTH} +(?:the +)?{_DAY}{_NOT_MORE}{_OF_YEAR}?", WORDS.date, cased=True, repeats="year"),
    times.rule(rf"(?:the +)?{_DAY}{_TO}(?:the +)?{_TO_DAY} +(?:of +)?{_MONTH}{_NOT_VERB}{_OF_YEAR}?", WORDS.dates,
        cased=True, repeats="year"),
    times.rule(rf"{_MONTH} +{_DAY}{_TO}{_TO_DAY}{_NOT_MORE}{_OF_YEAR}?", WORDS.dates, cased=True, repeats="year"),
    # March 2026, March last year, last year in March
    times.rule(rf"{_ANY_MONTH},? +(?:of +)?{_YEAR}", WORDS.month, repeats="year"),
    times.rule(rf"{_ANY_MONTH} +(?:of +)?{_WHICH} +year\b", WORDS.month),
    times.rule(rf"{_WHICH} +year,? +in +{_ANY_MONTH}", WORDS.month),
    times.rule(rf"{_NOT_JAN}{_MONTH}", WORDS.month, alone=False, cased=True, repeats="year"),
    times.rule(r"(?P<month>(?:(?<=\bin )|(?<=\bIn ))(?:may|march|mar|dec|sep|jan|jun))\b", WORDS.month, alone=False,
        cased=True, repeats="year"),
    times.rule(rf"the +month +of +{_ANY_MONTH}", WORDS.month, alone=False, repeats="year"),
    # days
    times.rule(r"(?<!USA )today\b", times.day(0)),
    times.rule(r"yesterday\b", times.day(-1)),
    times.rule(r"tomorrow\b", times.day(1)),
    times.rule(r"(?:the +)?day +before +yesterday\b", times.day(-2)),
    times.rule(r"(?:the +)?day +after +tomorrow\b", times.day(2)),
    times.rule(rf"(?P<when>yesterday|tomorrow|this) +{_PART}", WORDS.day_part),
    times.rule(r"tonight\b", times.night(0)),
    times.rule(r"last +night\b", times.night(-1)),
    times.rule(rf"{_WEEKDAY}(?!')", WORDS.weekday, alone=False, repeats="week"),
    times.rule(rf"{_WEEKDAY} +{_PART}", WORDS.weekday_part, alone=False, repeats="week"),
    times.rule(rf"{_WHICH} +{_WEEKDAY} +{_PART}", WORDS.weekday_part),
    times.rule(rf"{_WEEKDAY},? +(?:of +)?{_WHICH} +week\b", WORDS.weekday_of_week),
    times.rule(rf"{_WHICH} +week(?:'s)?,? +(?:on +)?{_WEEKDAY}", WORDS.weekday_of_week),
    times.rule(r"the +(?P<day>3[01]|[12]\d|[1-9])(?:st|nd|rd|th)(?= *(?:$|[?.!,;]))",
        lambda match, calendar: calendar.day_recent(int(match["day"])), alone=False),
    # last week, this March, next summer, the end of last year
    times.rule(rf"{_WHICH} +(?P<unit>week|month|quarter|year|weekend)\b{_NOT_OF}", WORDS.named),
    times.rule(rf"{_WHICH} +{_WEEKDAY}", WORDS.named),
    times.rule(rf"(?i:{_WHICH}) +{_MONTH}", WORDS.named, cased=True),
    times.rule(rf"(?!this +fall){_WHICH} +{_SEASON}{_NOT_OF}", WORDS.named),
    times.rule(r"the +weekend\b", lambda match, calendar: calendar.weekend_recent(), alone=False),
    times.rule(rf"(?i:(?P<third>early|mid|late))[ -]+(?:in +)?{_MONTH}{_OF_YEAR}?", WORDS.third, cased=True,
        repeats="year"),
    times.rule(rf"(?P<third>early|mid|late)[ -]+(?:in +)?{_YEAR}", WORDS.third, repeats="year"),
    times.rule(rf"the +(?P<third>beginning|start|middle|end) +of +{_ANY_MONTH}{_OF_YEAR}?", WORDS.third,
        repeats="year"),
    times.rule(rf"the +(?P<third>beginning|start|middle|end) +of +"
        rf"(?:{_YEAR}|(?:{_WHICH}|the) +(?P<unit>week|month|year)\b)", WORDS.third, repeats="year"),
    # ago, the last three days
    times.rule(rf"{_COUNT} +{_UNIT} +ago\b", WORDS.ago),
    times.rule(r"half +(?:a|an) +(?P<unit>year|hour) +ago\b", WORDS.half_ago),
    times.rule(r"(?:a +)?fortnight +ago\b", lambda match, calendar: calendar.unit("week", -2)),
    times.rule(rf"(?:the +)?(?:last|past|previous) +(?!an?\b){_COUNT} +{_UNIT}{_NOT_OF}", WORDS.rolling),
    times.rule(rf"(?:the +)?past +(?P<unit>hour|day|week|month|quarter|year)\b{_NOT_OF}", WORDS.rolling),
    times.rule(rf"(?:the +)?(?:next|coming) +(?!an?\b){_COUNT} +(?P<unit>day|week|month|year)s?\b{_NOT_OF}",
        WORDS.coming),
    # quarters, weeks, seasons, years, decades
    *times.NUMERIC,
    times.rule(r"(?P<quarter>Q[1-4])\b", WORDS.quarter, alone=False, cased=True, repeats="year"),
    times.rule(rf"{_QUARTER}\b", WORDS.quarter, alone=False, repeats="year"),
    times.rule(rf"(?:the +)?{_QUARTER.removeprefix('the +')}{_OF}", WORDS.quarter),
    times.rule(rf"(?:the +)?{_HALF} +(?:of +)?(?:{_YEAR}|{_WHICH} +year\b)", WORDS.half),
    times.rule(rf"(?:the +)?{_SEASON} +(?:of +)?{_YEAR}", WORDS.season, repeats="year"),
    times.rule(rf"(?:the +)?{_NOT_NAME}(?P<season>spring|summer|autumn|winter)\b", WORDS.season, alone=False,
        repeats="year"),
    times.rule(rf"(?:the +year +)?{_YEAR}{times.NOT_COUNTED}", times.in_year_named, alone=False),
    times.rule(r"the +(?P<decade>(?:19|20)?[0-9]0)'?s\b", times.decade, alone=False),
)  # fmt: skip

GRAMMAR: Final = times.Grammar(
    rules=RULES,
    governs=times.before(r"in|on|during|throughout|over|at|of|from|back in"),
    since=times.before(r"(?:ever )?since|starting (?:in|on|from)|from (?=$)(?!)"),
    until=times.before(r"until|till|up to(?: and including)?"),
    before=times.before(r"before|prior to|earlier than"),
    after=times.before(r"after|later than"),
    opens=times.before(r"between|from"),
    joins=times.compiled(r",? *(?:and|to|until|till|through|-|–) *(?:on )?"),
    dashes=times.compiled(r" *(?:to|until|till|through|-|–) *"),
    clock=times.compiled(
        r",? +(?:at|around) +(?P<hour>[01]?\d|2[0-3])(?::[0-5]\d)?(?: *(?P<half>[ap]\.?m\b\.?)| *o'clock)?(?![\w:])"
    ),
    never=times.before(r"every|each|per|any|by|a|an|version"),
    negated=times.before(r"not|except|excluding|without|other than|apart from"),
)
