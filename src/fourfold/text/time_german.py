"""German time expressions."""

from __future__ import annotations

from datetime import date
from typing import Final

from fourfold.text.time_grammar import (
    NOT_COUNTED,
    NUMERIC,
    YEAR,
    Calendar,
    Grammar,
    Match,
    Part,
    Span,
    Third,
    Unit,
    Words,
    before,
    compiled,
    day,
    decade,
    has,
    in_year_named,
    night,
    rule,
    span_of_days,
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

WORDS: Final = Words(
    months=_MONTH_NUMBERS,
    weekdays=_WEEKDAYS,
    numbers=_NUMBERS,
    ordinals=_ORDINALS,
    units=_UNITS,
    offsets=_OFFSETS,
    days={"vorgestern": -2, "gestern": -1, "heute": 0, "morgen": 1, "übermorgen": 2},
    parts=_PARTS,
    thirds=_THIRDS,
    seasons=_SEASONS,
)


def _numeric(match: Match, calendar: Calendar) -> Span:
    day, month = int(match["number"]), int(match["of"])
    if not has(match, "year"):
        return calendar.date_recent(month, day)
    return span_of_days(date(year_of(match, calendar), month, day))


RULES: Final = (
    # 3. Mai, Dienstag, den 3. März 2026, am ersten Mai; 3.5.2026, am 3.5.; 3. bis 10. Mai
    rule(rf"(?:{_NAMED})?{_DAY} *{_MONTH}{_OF_YEAR}?", WORDS.date, repeats="year"),
    rule(r"(?P<number>\d\d?)\. ?(?P<of>\d\d?)\. ?(?P<year>(?:19|20)\d\d|\d\d)\b(?!\.?\d)", _numeric, repeats="year"),
    rule(r"(?P<number>\d\d?)\. ?(?P<of>\d\d?)\.(?!\d)", _numeric, alone=False, repeats="year"),
    rule(rf"{_DAY}{_TO}{_TO_DAY} *{_MONTH}{_OF_YEAR}?", WORDS.dates, repeats="year"),
    # März 2026, März letzten Jahres, letztes Jahr im März
    rule(rf"{_MONTH} +{_YEAR}", WORDS.month, repeats="year"),
    rule(rf"{_MONTH} +{_OF}{_WHICH} +jahr(?:es)?\b", WORDS.month),
    rule(rf"{_WHICH} +jahr,? +im +{_MONTH}", WORDS.month),
    rule(rf"{_NOT_JAN}{_MONTH}", WORDS.month, alone=False, repeats="year"),
    # days
    rule(r"(?<!bis )(?<!von )heute\b", day(0)),
    rule(r"vorgestern\b", day(-2)),
    rule(r"gestern\b", day(-1)),
    rule(r"(?<!auf )morgen\b", day(1), cased=True),
    rule(r"(?:ü|Ü|ue|Ue)bermorgen\b", day(2), cased=True),
    rule(rf"(?P<when>vorgestern|gestern|heute|übermorgen) +{_PART}", WORDS.day_part),
    rule(
        r"(?P<when>[Mm]orgen) +(?P<part>früh|[Vv]ormittag|[Mm]ittag|[Nn]achmittag|[Aa]bend)\b",
        WORDS.day_part,
        cased=True,
    ),
    rule(r"(?:in der +)?(?:letzten?|vergangenen?) +nacht\b", night(-1)),
    rule(rf"{_WEEKDAY}\b", WORDS.weekday, alone=False, repeats="week"),
    rule(rf"{_WEEKDAY} ?{_PART}", WORDS.weekday_part, alone=False, repeats="week"),
    rule(rf"{_WHICH} +{_WEEKDAY} ?{_PART}", WORDS.weekday_part),
    rule(rf"{_WEEKDAY},? +{_OF}{_WHICH} +woche\b", WORDS.weekday_of_week),
    rule(rf"{_WHICH} +woche,? +(?:am +)?{_WEEKDAY}\b", WORDS.weekday_of_week),
    # letzte Woche, diesen März, nächsten Sommer, Ende letzten Jahres
    rule(rf"{_WHICH} +(?P<unit>woche|monats?|quartals?|jahr(?:es)?|wochenendes?)\b", WORDS.named),
    rule(rf"{_WHICH} +{_WEEKDAY}\b", WORDS.named),
    rule(rf"{_WHICH} +{_MONTH}", WORDS.named),
    rule(rf"{_WHICH} +{_SEASON}", WORDS.named),
    rule(r"wochenende\b", lambda match, calendar: calendar.weekend_recent(), alone=False),
    rule(rf"(?P<third>anfang|mitte|ende) +{_MONTH}{_OF_YEAR}?", WORDS.third, repeats="year"),
    rule(rf"(?P<third>anfang|mitte|ende) +{_MONTH} +{_OF}{_WHICH} +jahres\b", WORDS.third),
    rule(rf"(?P<third>anfang|mitte|ende) +{_YEAR}", WORDS.third, repeats="year"),
    rule(
        rf"(?P<third>anfang|mitte|ende) +(?:{_OF}{_WHICH}|de[rs]) +(?P<unit>woche|monats|jahres)\b",
        WORDS.third,
        repeats="year",
    ),
    # vor drei Tagen, in den letzten drei Tagen
    rule(rf"vor +{_COUNT} +{_UNIT}", WORDS.ago),
    rule(rf"heute +vor +{_COUNT} +{_UNIT}", WORDS.same_day),
    rule(r"vor +eine[mr] +halben +(?P<unit>jahr|stunde)\b", WORDS.half_ago),
    rule(rf"(?:de[nr] +|die +)?(?:letzten|vergangenen) +(?!ein){_COUNT} +{_UNIT}", WORDS.rolling),
    rule(rf"(?<=\bseit ){_COUNT} +{_UNIT}", WORDS.rolling),
    rule(rf"(?:de[nr] +|die +)?(?:nächsten|kommenden) +(?!ein){_COUNT} +{_UNIT}", WORDS.coming),
    # quarters, weeks, seasons, years, decades
    *NUMERIC,
    rule(rf"(?P<quarter>[1-4]\.|{_ORDINAL}) +quartal +{_YEAR}", WORDS.quarter),
    rule(r"(?P<quarter>Q[1-4])\b", WORDS.quarter, alone=False, cased=True, repeats="year"),
    rule(
        rf"(?P<quarter>[1-4]\.|{_ORDINAL}) +quartal\b(?: +(?:{_YEAR}|{_OF}{_WHICH} +jahres\b))?",
        WORDS.quarter,
        alone=False,
        repeats="year",
    ),
    rule(rf"(?P<half>[12]\.|erste[nrs]?|zweite[nrs]?) +halbjahr +(?:{_YEAR}|{_OF}{_WHICH} +jahres\b)", WORDS.half),
    rule(r"(?P<half>[12]\.|erste[nrs]?|zweite[nrs]?) +halbjahr\b", WORDS.half, alone=False, repeats="year"),
    rule(rf"{_SEASON} +{_YEAR}", WORDS.season, repeats="year"),
    rule(rf"{_SEASON} +{_OF}{_WHICH} +jahres\b", WORDS.season),
    rule(_SEASON, WORDS.season, alone=False, repeats="year"),
    rule(rf"(?:jahre? +)?{_YEAR}{NOT_COUNTED}", in_year_named, alone=False),
    rule(r"(?P<decade>(?:19|20)?[0-9]0)er(?:n| +jahren?)?\b", decade, alone=False),
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
