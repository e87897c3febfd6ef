"""Times in digits that English and German share: 05/2024, 2025-W45, Q3/2025, and weeks by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fourfold.text import calendar_spans as spans
from fourfold.text.calendar_spans import Calendar, Span
from fourfold.text.time_grammar import Match, Repeats, Rule, compiled

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


def _rule(
    pattern: str, span: Callable[[Match, Calendar], Span | None], *, alone: bool = True, repeats: Repeats = None
) -> Rule:
    return Rule(compiled(rf"(?<![\w.,:/$€£#@-]){pattern}"), span, alone, repeats)


NUMERIC: Final = (
    _rule(rf"{_NUMBERED}(?P<number>0[1-9]|{_NOT_A_SHARE}1[0-2])/(?P<year>(?:19|20)\d\d)(?= *(?:$|[?.!,;]))", _month),
    _rule(r"(?P<number>0?[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)(?![\w/-])", _month, alone=False),
    _rule(r"(?P<number>0[1-9]|1[0-2])\.(?P<year>(?:19|20)\d\d)(?![\w/-]|\.\d)", _month, alone=False),
    _rule(r"(?P<year>(?:19|20)\d\d)-?W(?P<number>[0-5]\d)\b(?!-)", week_number),
    _rule(rf"{_CERTAIN_WEEK} *(?P<number>\d\d?)\b{_OF}?", week_number),
    _rule(rf"(?:week|woche) +(?P<number>\d\d?){_OF}", week_number),
    _rule(rf"(?P<number>\d\d?)\. +(?:KW|kalenderwoche)\b{_OF}?", week_number),
    _rule(rf"(?:week|woche) +(?P<number>[1-5]\d)\b{_NOT_OF}", week_number, alone=False),
    _rule(rf"{_CERTAIN_WEEK}[sn]? *(?P<number>\d\d?){_TO_NUMBER}{_OF}?", _weeks),
    _rule(rf"(?:weeks|wochen) +(?P<number>[1-5]\d){_TO_NUMBER}(?:{_OF}|{_NOT_OF})", _weeks),
    _rule(rf"(?P<quarter>Q[1-4])(?: +(?:of +|in +|von +)?|/){YEAR}", _quarter, repeats="year"),
    _rule(r"(?P<year>(?:19|20)\d\d)[ /-]?(?P<quarter>Q[1-4])\b", _quarter),
)
