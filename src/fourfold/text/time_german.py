"""German time expressions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Final, Literal, TypeAlias

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
    ("januar", "jänner", "jan"), ("februar", "feber", "feb"), ("märz", "maerz", "mär", "mrz"), ("april", "apr"),
    ("mai",), ("juni", "jun"), ("juli", "jul"), ("august", "aug"), ("september", "sept", "sep"),
    ("oktober", "okt"), ("november", "nov"), ("dezember", "dez"),
)  # fmt: skip
_MONTH_NUMBERS: Final = {name: index for index, names in enumerate(_MONTHS, 1) for name in names}
_WEEKDAYS: Final = {
    "montag": 0, "dienstag": 1, "mittwoch": 2, "donnerstag": 3, "freitag": 4, "samstag": 5, "sonnabend": 5,
    "sonntag": 6,
}  # fmt: skip
_NUMBERS: Final = {
    "ein": 1, "eine": 1, "einer": 1, "einem": 1, "einen": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6,
    "sieben": 7, "acht": 8, "neun": 9, "zehn": 10, "elf": 11, "zwölf": 12, "vierzehn": 14, "zwanzig": 20,
    "dreißig": 30,
}  # fmt: skip
_ORDINALS: Final = {
    "erste": 1, "zweite": 2, "dritte": 3, "vierte": 4, "fünfte": 5, "sechste": 6, "siebte": 7, "achte": 8,
    "neunte": 9, "zehnte": 10, "elfte": 11, "zwölfte": 12,
}  # fmt: skip
_UNITS: Final[dict[str, Unit]] = {
    "minute": "minute", "minuten": "minute", "stunde": "hour", "stunden": "hour", "tag": "day", "tage": "day",
    "tagen": "day", "woche": "week", "wochen": "week", "monat": "month", "monats": "month", "monate": "month",
    "monaten": "month", "quartal": "quarter", "quartals": "quarter", "quartale": "quarter", "quartalen": "quarter",
    "jahr": "year", "jahres": "year", "jahre": "year", "jahren": "year", "wochenende": "weekend",
    "wochenendes": "weekend",
}  # fmt: skip
_OFFSETS: Final = {
    "vorletzt": -2, "letzt": -1, "vorig": -1, "vergangen": -1, "dies": 0, "laufend": 0, "aktuell": 0, "nächst": 1,
    "kommend": 1, "übernächst": 2,
}  # fmt: skip
_PARTS: Final[dict[str, Part]] = {
    "morgen": "morning", "früh": "morning", "vormittag": "morning", "mittag": "noon", "nachmittag": "afternoon",
    "abend": "evening", "nacht": "night",
}  # fmt: skip
_THIRDS: Final[dict[str, Third]] = {"anfang": "early", "mitte": "mid", "ende": "late"}
_SEASONS: Final = {
    "frühling": "spring", "frühjahr": "spring", "sommer": "summer", "herbst": "autumn", "winter": "winter"
}  # fmt: skip

_MONTH: Final = rf"(?P<month>(?:{'|'.join(sorted(_MONTH_NUMBERS, key=len, reverse=True))})\b\.?)"
_YEAR: Final = YEAR
_OF_YEAR: Final = rf"(?: +{_YEAR})"
_ORDINAL: Final = rf"(?:{'|'.join(_ORDINALS)})[nrs]?\b"
_DAY: Final = rf"(?P<day>(?:3[01]|[12]\d|0?[1-9])\.|{_ORDINAL})"
_TO_DAY: Final = _DAY.replace("day", "to")
_WEEKDAY: Final = rf"(?P<weekday>{'|'.join(_WEEKDAYS)})"
_WHICH: Final = rf"(?P<which>{'|'.join(sorted(_OFFSETS, key=len, reverse=True))})e?[nrsm]?"
_OF: Final = r"(?:de[rs] |der )?"
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_UNIT: Final = r"(?P<unit>minuten?|stunden?|tag(?:en?)?|wochen?|monat(?:en?)?|quartal(?:en?)?|jahr(?:en?)?)\b"
_PART: Final = r"(?P<part>morgen|früh|vormittag|mittag|nachmittag|abend|nacht)\b"
_SEASON: Final = rf"(?P<season>{'|'.join(_SEASONS)})\b"
_NAMED: Final = r"(?:(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend),? +(?:de[nm] +)?"
_TO: Final = r" *(?:-|–|\bbis(?: +zum)?\b|\bund(?: +de[mn])?\b) *"
_NOT_JAN: Final = rf"(?!(?<=von )jan\b(?!{_TO}))"
"""A message from Jan is one from a person; von Jan bis März is a time."""

Resolve: TypeAlias = Callable[[Match, Calendar], Span | None]


def _has(match: Match, group: str) -> bool:
    return bool(match.groupdict().get(group))


def _offset(match: Match) -> int:
    return _OFFSETS[match["which"].casefold()]


def _direction(match: Match) -> Literal["last", "this", "next"]:
    return ("last", "this", "next")[max(-1, min(1, _offset(match))) + 1]


def _unit(match: Match) -> Unit:
    return _UNITS[match["unit"].casefold()]


def _month_number(match: Match) -> int:
    return _MONTH_NUMBERS[match["month"].casefold().rstrip(".")]


def _ordinal(text: str) -> int:
    digits = text.rstrip(".")
    return int(digits) if digits.isdigit() else _ORDINALS[digits.casefold().rstrip("nrs")]


def _in_month(match: Match, calendar: Calendar) -> Span:
    if _has(match, "year"):
        return spans.month(year_of(match, calendar), _month_number(match))
    return calendar.month_named(_month_number(match), "recent")


def _date(match: Match, calendar: Calendar, day: str = "day") -> Span:
    if _has(match, "year"):
        return spans.days(date(year_of(match, calendar), _month_number(match), _ordinal(match[day])))
    return calendar.date_recent(_month_number(match), _ordinal(match[day]))


def _dates(match: Match, calendar: Calendar) -> Span | None:
    last = _date(match, calendar, "to")
    first = last.start.replace(day=_ordinal(match["day"]))
    return Span(first, last.end) if first < last.end else None


def _numeric(match: Match, calendar: Calendar) -> Span:
    day, month = int(match["number"]), int(match["of"])
    if not _has(match, "year"):
        return calendar.date_recent(month, day)
    return spans.days(date(year_of(match, calendar), month, day))


def _weekday_number(match: Match) -> int:
    return _WEEKDAYS[match["weekday"].casefold()]


def _weekday(match: Match, calendar: Calendar) -> Span:
    return calendar.weekday(_weekday_number(match), "last")


def _weekday_of_week(match: Match, calendar: Calendar) -> Span:
    week = calendar.unit("week", _offset(match))
    return spans.days(week.start.date() + timedelta(_weekday_number(match)))


def _named(match: Match, calendar: Calendar) -> Span | None:
    """letzten Dienstag, diesen März, nächsten Sommer, vorletzte Woche."""
    if _has(match, "unit"):
        return calendar.unit(_unit(match), _offset(match))
    if abs(_offset(match)) > 1:  # the last Tuesday but one
        return None
    if _has(match, "weekday"):
        return calendar.weekday(_weekday_number(match), _direction(match))
    if _has(match, "month"):
        return calendar.month_named(_month_number(match), _direction(match))
    return calendar.season_named(_SEASONS[match["season"].casefold()], _direction(match))


def _in_season(match: Match, calendar: Calendar) -> Span:
    name = _SEASONS[match["season"].casefold()]
    return (
        spans.season(name, year_of(match, calendar)) if _has(match, "year") else calendar.season_named(name, "recent")
    )


def _season_of_year(match: Match, calendar: Calendar) -> Span:
    return spans.season(_SEASONS[match["season"].casefold()], calendar.today.year + _offset(match))


def _month_of_year(match: Match, calendar: Calendar) -> Span:
    return spans.month(calendar.today.year + _offset(match), _month_number(match))


def _quarter(match: Match, calendar: Calendar) -> Span:
    named = match["quarter"].casefold().removeprefix("q")
    first = 3 * _ordinal(named) - 2
    if _has(match, "year"):
        return spans.month(year_of(match, calendar), first, 3)
    if _has(match, "which"):
        return spans.month(calendar.today.year + _offset(match), first, 3)
    return spans.month(calendar.today.year - (first > calendar.today.month), first, 3)


def _half(match: Match, calendar: Calendar) -> Span:
    first = 6 * _ordinal(match["half"]) - 5
    if _has(match, "year"):
        return spans.month(year_of(match, calendar), first, 6)
    if _has(match, "which"):
        return spans.month(calendar.today.year + _offset(match), first, 6)
    return spans.month(calendar.today.year - (first > calendar.today.month), first, 6)


def _third(match: Match, calendar: Calendar) -> Span:
    """Anfang März, Ende letzten Jahres, Mitte 2025."""
    if _has(match, "month"):
        whole = _in_month(match, calendar)
    elif _has(match, "year"):
        whole = spans.year(year_of(match, calendar))
    else:
        whole = calendar.unit(_unit(match), _offset(match) if _has(match, "which") else 0)
    return spans.third(whole, _THIRDS[match["third"].casefold()])


def _third_of_month_of_year(match: Match, calendar: Calendar) -> Span:
    return spans.third(_month_of_year(match, calendar), _THIRDS[match["third"].casefold()])


def _ago(match: Match, calendar: Calendar) -> Span:
    return calendar.unit(_unit(match), -number(_NUMBERS, match["count"]))


def _same_day(match: Match, calendar: Calendar) -> Span:
    return calendar.same_day(_unit(match), -number(_NUMBERS, match["count"]))


def _half_ago(match: Match, calendar: Calendar) -> Span:
    return calendar.unit("month", -6) if match["unit"].casefold() == "jahr" else calendar.unit("minute", -30)


def _in_year(match: Match, calendar: Calendar) -> Span:
    return spans.year(year_of(match, calendar))


def _iso_day(match: Match, calendar: Calendar) -> Span:
    return spans.days(date.fromisoformat(match["year"]))


def _rolling(match: Match, calendar: Calendar) -> Span:
    return calendar.rolling(_unit(match), number(_NUMBERS, match["count"]))


def _coming(match: Match, calendar: Calendar) -> Span:
    return Span(calendar.now, calendar.same_day(_unit(match), number(_NUMBERS, match["count"])).end)


_DAYS: Final = {"vorgestern": -2, "gestern": -1, "heute": 0, "morgen": 1, "übermorgen": 2}


def _day_part(match: Match, calendar: Calendar) -> Span:
    return spans.part_of_day(calendar.day(_DAYS[match["when"].casefold()]), _PARTS[match["part"].casefold()])


def _weekday_part(match: Match, calendar: Calendar) -> Span | None:
    day = _named(match, calendar) if _has(match, "which") else _weekday(match, calendar)
    return None if day is None else spans.part_of_day(day, _PARTS[match["part"].casefold()])


def _day(offset: int) -> Resolve:
    return lambda match, calendar: calendar.day(offset)


def _decade(match: Match, calendar: Calendar) -> Span:
    return spans.year(spans.full_year(int(match["decade"]), calendar.now), 10)


def _night(offset: int) -> Resolve:
    return lambda match, calendar: spans.part_of_day(calendar.day(offset), "night")


def _rule(pattern: str, span: Resolve, *, alone: bool = True, cased: bool = False, repeats: Repeats = None) -> Rule:
    return Rule(compiled(rf"(?<![\w.,:/$€£#@-]){pattern}", cased=cased), span, alone, repeats)


RULES: Final = (
    _rule(r"(?P<year>\d{4}-\d\d-\d\d)(?![\d-])", _iso_day),
    # 3. Mai, Dienstag, den 3. März 2026, am ersten Mai; 3.5.2026, am 3.5.; 3. bis 10. Mai
    _rule(rf"(?:{_NAMED})?{_DAY} *{_MONTH}{_OF_YEAR}?", _date, repeats="year"),
    _rule(r"(?P<number>\d\d?)\. ?(?P<of>\d\d?)\. ?(?P<year>(?:19|20)\d\d|\d\d)\b(?!\.?\d)", _numeric, repeats="year"),
    _rule(r"(?P<number>\d\d?)\. ?(?P<of>\d\d?)\.(?!\d)", _numeric, alone=False, repeats="year"),
    _rule(rf"{_DAY}{_TO}{_TO_DAY} *{_MONTH}{_OF_YEAR}?", _dates, repeats="year"),
    # März 2026, März letzten Jahres, letztes Jahr im März
    _rule(rf"{_MONTH} +{_YEAR}", _in_month, repeats="year"),
    _rule(rf"{_MONTH} +{_OF}{_WHICH} +jahr(?:es)?\b", _month_of_year),
    _rule(rf"{_WHICH} +jahr,? +im +{_MONTH}", _month_of_year),
    _rule(rf"{_NOT_JAN}{_MONTH}", _in_month, alone=False, repeats="year"),
    # days
    _rule(r"(?<!bis )(?<!von )heute\b", _day(0)),
    _rule(r"vorgestern\b", _day(-2)),
    _rule(r"gestern\b", _day(-1)),
    _rule(r"(?<!auf )morgen\b", _day(1), cased=True),
    _rule(r"(?:ü|Ü|ue|Ue)bermorgen\b", _day(2), cased=True),
    _rule(rf"(?P<when>vorgestern|gestern|heute|übermorgen) +{_PART}", _day_part),
    _rule(
        r"(?P<when>[Mm]orgen) +(?P<part>früh|[Vv]ormittag|[Mm]ittag|[Nn]achmittag|[Aa]bend)\b", _day_part, cased=True
    ),
    _rule(r"(?:in der +)?(?:letzten?|vergangenen?) +nacht\b", _night(-1)),
    _rule(rf"{_WEEKDAY}\b", _weekday, alone=False, repeats="week"),
    _rule(rf"{_WEEKDAY} ?{_PART}", _weekday_part, alone=False, repeats="week"),
    _rule(rf"{_WHICH} +{_WEEKDAY} ?{_PART}", _weekday_part),
    _rule(rf"{_WEEKDAY},? +{_OF}{_WHICH} +woche\b", _weekday_of_week),
    _rule(rf"{_WHICH} +woche,? +(?:am +)?{_WEEKDAY}\b", _weekday_of_week),
    # letzte Woche, diesen März, nächsten Sommer, Ende letzten Jahres
    _rule(rf"{_WHICH} +(?P<unit>woche|monats?|quartals?|jahr(?:es)?|wochenendes?)\b", _named),
    _rule(rf"{_WHICH} +{_WEEKDAY}\b", _named),
    _rule(rf"{_WHICH} +{_MONTH}", _named),
    _rule(rf"{_WHICH} +{_SEASON}", _named),
    _rule(r"wochenende\b", lambda match, calendar: calendar.weekend_recent(), alone=False),
    _rule(rf"(?P<third>anfang|mitte|ende) +{_MONTH}{_OF_YEAR}?", _third, repeats="year"),
    _rule(rf"(?P<third>anfang|mitte|ende) +{_MONTH} +{_OF}{_WHICH} +jahres\b", _third_of_month_of_year),
    _rule(rf"(?P<third>anfang|mitte|ende) +{_YEAR}", _third, repeats="year"),
    _rule(
        rf"(?P<third>anfang|mitte|ende) +(?:{_OF}{_WHICH}|de[rs]) +(?P<unit>woche|monats|jahres)\b",
        _third,
        repeats="year",
    ),
    # vor drei Tagen, in den letzten drei Tagen
    _rule(rf"vor +{_COUNT} +{_UNIT}", _ago),
    _rule(rf"heute +vor +{_COUNT} +{_UNIT}", _same_day),
    _rule(r"vor +eine[mr] +halben +(?P<unit>jahr|stunde)\b", _half_ago),
    _rule(rf"(?:de[nr] +|die +)?(?:letzten|vergangenen) +(?!ein){_COUNT} +{_UNIT}", _rolling),
    _rule(rf"(?<=\bseit ){_COUNT} +{_UNIT}", _rolling),
    _rule(rf"(?:de[nr] +|die +)?(?:nächsten|kommenden) +(?!ein){_COUNT} +{_UNIT}", _coming),
    # quarters, weeks, seasons, years, decades
    *NUMERIC,
    _rule(rf"(?P<quarter>[1-4]\.|{_ORDINAL}) +quartal +{_YEAR}", _quarter),
    _rule(r"(?P<quarter>Q[1-4])\b", _quarter, alone=False, cased=True, repeats="year"),
    _rule(
        rf"(?P<quarter>[1-4]\.|{_ORDINAL}) +quartal\b(?: +(?:{_YEAR}|{_OF}{_WHICH} +jahres\b))?",
        _quarter,
        alone=False,
        repeats="year",
    ),
    _rule(rf"(?P<half>[12]\.|erste[nrs]?|zweite[nrs]?) +halbjahr +(?:{_YEAR}|{_OF}{_WHICH} +jahres\b)", _half),
    _rule(r"(?P<half>[12]\.|erste[nrs]?|zweite[nrs]?) +halbjahr\b", _half, alone=False, repeats="year"),
    _rule(rf"{_SEASON} +{_YEAR}", _in_season, repeats="year"),
    _rule(rf"{_SEASON} +{_OF}{_WHICH} +jahres\b", _season_of_year),
    _rule(_SEASON, _in_season, alone=False, repeats="year"),
    _rule(rf"(?:jahre? +)?{_YEAR}{NOT_COUNTED}", _in_year, alone=False),
    _rule(r"(?P<decade>(?:19|20)?[0-9]0)er(?:n| +jahren?)?\b", _decade, alone=False),
)

GRAMMAR: Final = Grammar(
    rules=RULES,
    governs=before(r"im|in|in de[mnr]|am|vom|von|während(?: de[rs])?|übers|über das|zum|den|im laufe de[rs]"),
    since=before(r"(?:schon )?seit(?: de[mnr]| dem jahr)?|ab(?: de[mr])?"),
    until=before(r"bis(?: zu[mr]?| einschließlich| in de[ns]?| ende)?"),
    before=before(r"vor(?: de[mr])?"),
    after=before(r"nach(?: de[mr])?"),
    opens=before(r"zwischen(?: de[mnr])?|vo[mn](?: de[mr])?"),
    joins=compiled(r",? *(?:und(?: de[mnr])?|bis(?: zu[mr]?)?|-|–) *(?:am )?"),
    dashes=compiled(r" *(?:bis(?: zu[mr]?)?|-|–) *"),
    clock=compiled(r",? +(?:um|gegen) +(?P<hour>[01]?\d|2[0-3])(?:[:.][0-5]\d)?(?: *uhr)?(?![\w:])"),
    never=before(r"jede[nrs]?|pro|je|alle|eine?[nmr]?|version"),
    negated=before(r"nicht|außer|ausser|ohne|ausgenommen"),
)
