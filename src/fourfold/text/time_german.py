"""German time expressions."""

from __future__ import annotations

from datetime import date
from typing import Final

from fourfold.text import time_grammar as times

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
_UNITS: Final[dict[str, times.Unit]] = {
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
_PARTS: Final[dict[str, times.Part]] = {
    "morgen": "morning", "früh": "morning", "vormittag": "morning", "mittag": "noon", "nachmittag": "afternoon",
    "abend": "evening", "nacht": "night",
}  # fmt: skip
_THIRDS: Final[dict[str, times.Third]] = {"anfang": "early", "mitte": "mid", "ende": "late"}
_SEASONS: Final = {
    "frühling": "spring", "frühjahr": "spring", "sommer": "summer", "herbst": "autumn", "winter": "winter"
}  # fmt: skip

_MONTH: Final = rf"(?P<month>(?:{'|'.join(sorted(_MONTH_NUMBERS, key=len, reverse=True))})\b\.?)"
_YEAR: Final = times.YEAR
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
WORDS: Final = times.Words(
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


def _numeric(match: times.Match, calendar: times.Calendar) -> times.Span:
    number, month = int(match["number"]), int(match["of"])
    if not times.has(match, "year"):
        return calendar.date_recent(month, number)
    return times.span_of_days(date(times.year_of(match, calendar), month, number))


RULES: Final = (
    # 3. Mai, Dienstag, den 3. März 2026, am ersten Mai; 3.5.2026, am 3.5.; 3. bis 10. Mai
    times.rule(rf"(?:{_NAMED})?{_DAY} *{_MONTH}{_OF_YEAR}?", WORDS.date, repeats="year"),
    times.rule(r"(?P<number>\d\d?)\. ?(?P<of>\d\d?)\. ?(?P<year>(?:19|20)\d\d|\d\d)\b(?!\.?\d)", _numeric,
        repeats="year"),
    times.rule(r"(?P<number>\d\d?)\. ?(?P<of>\d\d?)\.(?!\d)", _numeric, alone=False, repeats="year"),
    times.rule(rf"{_DAY}{_TO}{_TO_DAY} *{_MONTH}{_OF_YEAR}?", WORDS.dates, repeats="year"),
    # März 2026, März letzten Jahres, letztes Jahr im März
    times.rule(rf"{_MONTH} +{_YEAR}", WORDS.month, repeats="year"),
    times.rule(rf"{_MONTH} +{_OF}{_WHICH} +jahr(?:es)?\b", WORDS.month),
    times.rule(rf"{_WHICH} +jahr,? +im +{_MONTH}", WORDS.month),
    times.rule(rf"{_NOT_JAN}{_MONTH}", WORDS.month, alone=False, repeats="year"),
    # days
    times.rule(r"(?<!bis )(?<!von )heute\b", times.day(0)),
    times.rule(r"vorgestern\b", times.day(-2)),
    times.rule(r"gestern\b", times.day(-1)),
    times.rule(r"(?<!auf )morgen\b", times.day(1), cased=True),
    times.rule(r"(?:ü|Ü|ue|Ue)bermorgen\b", times.day(2), cased=True),
    times.rule(rf"(?P<when>vorgestern|gestern|heute|übermorgen) +{_PART}", WORDS.day_part),
    times.rule(r"(?P<when>[Mm]orgen) +(?P<part>früh|[Vv]ormittag|[Mm]ittag|[Nn]achmittag|[Aa]bend)\b", WORDS.day_part,
        cased=True),
    times.rule(r"(?:in der +)?(?:letzten?|vergangenen?) +nacht\b", times.night(-1)),
    times.rule(rf"{_WEEKDAY}\b", WORDS.weekday, alone=False, repeats="week"),
    times.rule(rf"{_WEEKDAY} ?{_PART}", WORDS.weekday_part, alone=False, repeats="week"),
    times.rule(rf"{_WHICH} +{_WEEKDAY} ?{_PART}", WORDS.weekday_part),
    times.rule(rf"{_WEEKDAY},? +{_OF}{_WHICH} +woche\b", WORDS.weekday_of_week),
    times.rule(rf"{_WHICH} +woche,? +(?:am +)?{_WEEKDAY}\b", WORDS.weekday_of_week),
    # letzte Woche, diesen März, nächsten Sommer, Ende letzten Jahres
    times.rule(rf"{_WHICH} +(?P<unit>woche|monats?|quartals?|jahr(?:es)?|wochenendes?)\b", WORDS.named),
    times.rule(rf"{_WHICH} +{_WEEKDAY}\b", WORDS.named),
    times.rule(rf"{_WHICH} +{_MONTH}", WORDS.named),
    times.rule(rf"{_WHICH} +{_SEASON}", WORDS.named),
    times.rule(r"wochenende\b", lambda match, calendar: calendar.weekend_recent(), alone=False),
    times.rule(rf"(?P<third>anfang|mitte|ende) +{_MONTH}{_OF_YEAR}?", WORDS.third, repeats="year"),
    times.rule(rf"(?P<third>anfang|mitte|ende) +{_MONTH} +{_OF}{_WHICH} +jahres\b", WORDS.third),
    times.rule(rf"(?P<third>anfang|mitte|ende) +{_YEAR}", WORDS.third, repeats="year"),
    times.rule(rf"(?P<third>anfang|mitte|ende) +(?:{_OF}{_WHICH}|de[rs]) +(?P<unit>woche|monats|jahres)\b", WORDS.third,
        repeats="year"),
    # vor drei Tagen, in den letzten drei Tagen
    times.rule(rf"vor +{_COUNT} +{_UNIT}", WORDS.ago),
    times.rule(rf"heute +vor +{_COUNT} +{_UNIT}", WORDS.same_day),
    times.rule(r"vor +eine[mr] +halben +(?P<unit>jahr|stunde)\b", WORDS.half_ago),
    times.rule(rf"(?:de[nr] +|die +)?(?:letzten|vergangenen) +(?!ein){_COUNT} +{_UNIT}", WORDS.rolling),
    times.rule(rf"(?<=\bseit ){_COUNT} +{_UNIT}", WORDS.rolling),
    times.rule(rf"(?:de[nr] +|die +)?(?:nächsten|kommenden) +(?!ein){_COUNT} +{_UNIT}", WORDS.coming),
    # quarters, weeks, seasons, years, decades
    *times.NUMERIC,
    times.rule(rf"(?P<quarter>[1-4]\.|{_ORDINAL}) +quartal +{_YEAR}", WORDS.quarter),
    times.rule(r"(?P<quarter>Q[1-4])\b", WORDS.quarter, alone=False, cased=True, repeats="year"),
    times.rule(rf"(?P<quarter>[1-4]\.|{_ORDINAL}) +quartal\b(?: +(?:{_YEAR}|{_OF}{_WHICH} +jahres\b))?", WORDS.quarter,
        alone=False, repeats="year"),
    times.rule(rf"(?P<half>[12]\.|erste[nrs]?|zweite[nrs]?) +halbjahr +(?:{_YEAR}|{_OF}{_WHICH} +jahres\b)",
        WORDS.half),
    times.rule(r"(?P<half>[12]\.|erste[nrs]?|zweite[nrs]?) +halbjahr\b", WORDS.half, alone=False, repeats="year"),
    times.rule(rf"{_SEASON} +{_YEAR}", WORDS.season, repeats="year"),
    times.rule(rf"{_SEASON} +{_OF}{_WHICH} +jahres\b", WORDS.season),
    times.rule(_SEASON, WORDS.season, alone=False, repeats="year"),
    times.rule(rf"(?:jahre? +)?{_YEAR}{times.NOT_COUNTED}", times.in_year_named, alone=False),
    times.rule(r"(?P<decade>(?:19|20)?[0-9]0)er(?:n| +jahren?)?\b", times.decade, alone=False),
)  # fmt: skip

GRAMMAR: Final = times.Grammar(
    rules=RULES,
    governs=times.before(r"im|in|in de[mnr]|am|vom|von|während(?: de[rs])?|übers|über das|zum|den|im laufe de[rs]"),
    since=times.before(r"(?:schon )?seit(?: de[mnr]| dem jahr)?|ab(?: de[mr])?"),
    until=times.before(r"bis(?: zu[mr]?| einschließlich| in de[ns]?| ende)?"),
    before=times.before(r"vor(?: de[mr])?"),
    after=times.before(r"nach(?: de[mr])?"),
    opens=times.before(r"zwischen(?: de[mnr])?|vo[mn](?: de[mr])?"),
    joins=times.compiled(r",? *(?:und(?: de[mnr])?|bis(?: zu[mr]?)?|-|–) *(?:am )?"),
    dashes=times.compiled(r" *(?:bis(?: zu[mr]?)?|-|–) *"),
    clock=times.compiled(r",? +(?:um|gegen) +(?P<hour>[01]?\d|2[0-3])(?:[:.][0-5]\d)?(?: *uhr)?(?![\w:])"),
    never=times.before(r"jede[nrs]?|pro|je|alle|eine?[nmr]?|version"),
    negated=times.before(r"nicht|außer|ausser|ohne|ausgenommen"),
)
