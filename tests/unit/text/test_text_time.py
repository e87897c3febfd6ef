"""Time expressions become windows, and what only looks like one does not.

time_expressions.tsv: what each text means at a moment, in local time with its offset; the end is not part of the
window, "-" is no limit. Rules: weeks begin on Monday; "in March" is the latest March that has begun, "last March" the
latest that is over, "on Tuesday" and "last Tuesday" the latest before today; "N units ago" is the whole unit, "the last
N" goes from midnight until now (hours and minutes: exactly); early, mid and late are thirds; seasons have three months.
not_times.tsv: sentences with numbers, names and words like months that are no time expression.
"""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.text import time_english, time_german
from fourfold.text.time_grammar import Calendar, windows
from fourfold.text.time_window import TIME_HINT, Words, asks_when, time_window

pytestmark = pytest.mark.spec("C14")

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 18, 14, 30, tzinfo=BERLIN)


def table(name: str) -> list[dict[str, str]]:
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def read(row: dict[str, str], language: str | None) -> tuple[str, str, str]:
    zone = ZoneInfo(row["zone"])
    now = datetime.fromisoformat(row["now"]).replace(tzinfo=zone)
    found = time_window(row["text"], language, now, zone)
    assert found is not None, row["text"]
    return form(found.start, zone), form(found.end, zone), found.words


def form(moment: datetime | None, zone: ZoneInfo) -> str:
    return "-" if moment is None else moment.astimezone(zone).isoformat(timespec="minutes")


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_listed_expression_means_what_the_table_says(language: str) -> None:
    rows = [row for row in table("time_expressions.tsv") if row["language"] == language]
    assert len(rows) >= 150
    wanted = [(row["from"], row["to"], row["words"]) for row in rows]
    assert [read(row, language) for row in rows] == wanted
    assert [read(row, None) for row in rows] == wanted


def test_a_list_of_many_times_names_no_window() -> None:
    for times in ("'24 ", "week 45 ", "05/2024, ", "KW 40 bis 45 ", "in 2024 "):
        assert time_window(times * 150, None, NOW, BERLIN) is None


@pytest.mark.parametrize("language", ["en", "de"])
def test_at_most_one_percent_of_other_sentences_has_a_window(language: str) -> None:
    rows = [row["text"] for row in table("not_times.tsv") if row["language"] == language]
    assert len(rows) >= 100
    for tried in (language, None):
        wrong = [text for text in rows if time_window(text, tried, NOW, BERLIN) is not None]
        assert len(wrong) <= len(rows) / 100, wrong


def test_two_times_are_a_window_only_if_one_lies_within_the_other() -> None:
    inner = window("In 2025, what was said on 3 May 2025?")
    assert (inner.start, inner.words) == (datetime(2025, 5, 2, 22, tzinfo=UTC), "on 3 May 2025")
    assert window("Compare March 2024 with April 2025") is None


@pytest.mark.parametrize("text", [
    "meetings not in March", "all meetings except last week", "Termine, aber nicht am Montag",
    "alles außer letzte Woche", "not between Monday and Wednesday", "Nachricht von Jan", "a message from Jan",
    "beans in Spring Boot",
])  # fmt: skip
def test_a_time_that_is_ruled_out_and_a_name_are_no_window(text: str) -> None:
    assert window(text) is None


@pytest.mark.parametrize(("text", "hour"), [
    ("yesterday evening at 8", 20), ("gestern Abend um 8", 20), ("gestern Abend um 20 Uhr", 20),
    ("yesterday morning at 8", 8), ("gestern Mittag um 1", 13), ("last night at 2", 24 + 2), ("yesterday at 8", 8),
])  # fmt: skip
def test_an_hour_belongs_to_its_part_of_the_day(text: str, hour: int) -> None:
    found = window(text)
    assert found.start == datetime(2026, 11, 17, tzinfo=BERLIN).astimezone(UTC) + timedelta(hours=hour)


def test_a_zone_changes_what_yesterday_is() -> None:
    now = datetime(2026, 6, 30, 23, 30, tzinfo=UTC)
    india, utc = (time_window("yesterday", "en", now, zone) for zone in (ZoneInfo("Asia/Kolkata"), UTC))
    assert india.start == datetime(2026, 6, 29, 18, 30, tzinfo=UTC)
    assert utc.start == datetime(2026, 6, 29, tzinfo=UTC)


def test_a_long_text_is_a_document_rather_than_a_question() -> None:
    assert window("yesterday " + "word " * 600) is None


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("What did Maria say about the budget last week?", True),
        ("Was hat Maria letzte Woche zum Budget gesagt?", True), ("meeting notes from yesterday", True),
        ("Notizen von gestern", True), ("What does Hailey report on 6 January?", True),
        ("What was agreed in March?", True), ("Was steht in den Notizen von letzter Woche?", True),
        ("Wer wurde im März eingestellt?", True), ("What is the plan for this week?", False),
        ("What should I do today?", False), ("Was soll ich heute erledigen?", False), ("Budget für März 2026", False),
        ("What happens next week?", False), ("Protokoll vom 3. März", True),
        ("Am 3. März haben wir was beschlossen?", True), ("notes from Sept. 11", True),
        ("Is the shop open on Sunday?", False), ("Ist der Laden am Sonntag offen?", False),
        ("Wie ist das Wetter im Mai?", False), ("When does the train leave on Friday?", False),
        ("May I park here on Sunday?", False), ("Was the shop open on Sunday?", True),
        ("What does Dacey propose on Saturday?", True),
        ("This week is impossible. My boss gave me more work. I can do no research.", False),
    ],
)  # fmt: skip
def test_a_question_asks_for_what_happened_then_or_only_names_a_time(text: str, asks: bool) -> None:
    found = window(text)
    assert found is not None
    assert asks_when(text, found, NOW) is asks


def test_every_length_of_digits_and_words_is_read_without_an_error() -> None:
    """Numbers that are no date, month or week are no time."""
    for text in (
        "31 February",
        "on 99 May",
        "calendar week 99",
        "32.13.2026",
        "2026-13-40",
        "vor 999 Jahren",
        "0 days ago",
    ):
        time_window(text, None, NOW, BERLIN)
    assert window("on 31 February") is None
    assert window("KW 60") is None


def window(text: str) -> Words | None:
    return time_window(text, None, NOW, BERLIN)


def test_windows_of_rolling_hours_are_exact_when_clocks_change() -> None:
    for month, day in ((3, 29), (10, 25)):
        now = datetime(2026, month, day, 12, tzinfo=BERLIN)
        found = time_window("in the last 24 hours", "en", now, BERLIN)
        assert found.start is not None
        assert now.astimezone(UTC) - found.start == timedelta(hours=24)


_MARKS = "the |am |in |Q3|H1 |KW 12|CW7|1990s|90er|'90s|3rd|3.|3. 5.|12/31/|2024|2024-05|-07|ago|vor|last |letzten | |."
_PIECES = st.sampled_from(_MARKS.split("|")) | st.text(st.sampled_from("0123456789./-: sthndrQKWCH"), max_size=5)


@given(st.lists(_PIECES, max_size=6).map("".join))
def test_texts_that_are_not_read_name_no_time(text: str) -> None:
    """`time_window` reads few texts with the grammars; they find nothing in the others."""
    if not TIME_HINT.search(text.lower()):
        calendar = Calendar(NOW.replace(tzinfo=None), BERLIN)
        assert [windows(text, each.GRAMMAR, calendar) for each in (time_english, time_german)] == [[], []]
