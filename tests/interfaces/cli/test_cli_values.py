"""How the command line reads times, metadata, weights and ids, and how it prints."""

import json
import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.cli.options import read_end, read_id, read_local, read_metadata, read_metadata_test, read_weights
from fourfold.cli.output import clean, one_line, say_json, say_rows
from fourfold.cli.render import bar_glyphs
from fourfold.engine.maintenance import in_future
from fourfold.errors import InvalidItem, InvalidQuery, InvalidWeights
from fourfold.model import MetadataTest


@pytest.fixture
def _in_berlin(monkeypatch: pytest.MonkeyPatch):
    if not hasattr(time, "tzset"):
        pytest.skip("the time zone of a process cannot be set here")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_berlin")
@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-15", datetime(2026, 11, 14, 23, tzinfo=UTC)),
        ("2026-07-15", datetime(2026, 7, 14, 22, tzinfo=UTC)),
        ("2026-11-15T10:00", datetime(2026, 11, 15, 9, tzinfo=UTC)),
        ("2026-11-15 10:00", datetime(2026, 11, 15, 9, tzinfo=UTC)),
        ("2026-11-15T10:00Z", datetime(2026, 11, 15, 10, tzinfo=UTC)),
        (" 2026-11-15T10:00+05:30 ", datetime(2026, 11, 15, 4, 30, tzinfo=UTC)),
    ],
)
def test_a_time_without_an_offset_is_local(text: str, utc: datetime) -> None:
    assert read_local(text) == utc


def test_a_time_to_live_ends_in_the_future() -> None:
    now = datetime.now(UTC)
    for text, length in (("30m", timedelta(minutes=30)), (" 2w ", timedelta(weeks=2)), ("0d", timedelta())):
        assert timedelta() <= read_end(text) - now - length < timedelta(minutes=5)
    for text in ("5", "-1d", "1y", "", "999999w", "999999999d"):
        with pytest.raises(InvalidItem):
            read_end(text)


def test_an_expiry_that_has_passed_is_refused() -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    assert (in_future(None), in_future(later)) == (None, later)
    with pytest.raises(InvalidItem, match="would have expired on 2020-01-01"):
        in_future(datetime(2020, 1, 1, tzinfo=UTC))


@pytest.mark.spec("B5")
def test_a_bare_date_in_to_includes_that_day() -> None:
    end = read_local("2026-11-15", end_of_day=True)
    assert end + timedelta(microseconds=1) == read_local("2026-11-16")
    assert read_local("2026-11-15T10:00", end_of_day=True) == read_local("2026-11-15T10:00")


REFUSED = [
    (read_local, ("", "yesterday", "2026-13-01", "15.11.2026", "10:00", "99999-01-01"), InvalidQuery, "the time is"),
    (
        lambda pair: read_metadata([pair]),
        ("a", "=1", "", "line!=1000", "line<=3", "line>=3"),
        InvalidItem,
        "not metadata",
    ),
    (read_metadata_test, ("year", "=3", "!=3", "year!"), InvalidQuery, "not a test"),
    (read_weights, ("semantic", "semantic=", "semantic=much", "0.7", "semantic=1,semantic=0"), InvalidWeights, "."),
    (read_id, ("", "-1", "1.5", "abc", "9" * 19, "１７"), InvalidQuery, "not an id"),
]


@pytest.mark.parametrize(
    ("read", "text", "error", "said"),
    [(read, text, error, said) for read, texts, error, said in REFUSED for text in texts],
)
def test_what_cannot_be_read_is_refused(read, text: str, error: type[Exception], said: str):
    with pytest.raises(error, match=said):
        read(text)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("a=1", 1), ("a=1.5", 1.5), ("a=true", True), ("a=null", None), ('a="1"', "1"), ("a=[1, 2]", [1, 2]),
        ('a={"b": 1}', {"b": 1}), ("a=text", "text"), ("a=", ""), ("a=b=c", "b=c"), ("a=NaN", "NaN"),
        ("a=-Infinity", "-Infinity"), ("a=[NaN]", "[NaN]"), ("a=1e999", "1e999"),
        ("a=" + "[" * 100_000, "[" * 100_000), ("a=" + "9" * 5000, "9" * 5000),
    ],
)  # fmt: skip
def test_metadata_is_json_if_it_parses(pair: str, value: object) -> None:
    assert read_metadata([pair]) == {"a": value}


@pytest.mark.spec("B5")
@pytest.mark.parametrize(
    ("text", "test"),
    [
        ("year=2026", MetadataTest("year", "eq", 2026)),
        ("year>=2026", MetadataTest("year", "gte", 2026)),
        ("year<2026", MetadataTest("year", "lt", 2026)),
        ("note=a<b", MetadataTest("note", "eq", "a<b")),
        ("note=a=b", MetadataTest("note", "eq", "a=b")),
        ("note=two\nlines", MetadataTest("note", "eq", "two\nlines")),
        ("year>2026", MetadataTest("year", "gt", 2026)),
        ("year<=2026", MetadataTest("year", "lte", 2026)),
        ("year!=2026", MetadataTest("year", "ne", 2026)),
        ("year==2026", MetadataTest("year", "eq", 2026)),
        ("a!b=1", MetadataTest("a!b", "eq", 1)),
    ],
)
def test_tests_of_metadata(text: str, test: MetadataTest) -> None:
    assert read_metadata_test(text) == test


def test_weights() -> None:
    assert read_weights("semantic=0.7, keyword = 0.3") == {"semantic": 0.7, "keyword": 0.3}
    assert read_weights("") == {}


def test_ids() -> None:
    assert read_id("17") == 17
    assert read_id("key:17") == "key:17"
    assert read_id("key:a b:c") == "key:a b:c"


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for read, refused in ((read_local, InvalidQuery), (read_id, InvalidQuery), (read_weights, InvalidWeights)):
        try:
            read(text)
        except refused:
            continue


# ---------------------------------------------------------------- stored text is data


ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

PAYLOADS = {
    "\x1b[31mred\x1b[0m": "red",
    "\x1b]0;owned\x07title": "title",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\": "link",
    "\x1b]52;c;ZXZpbA==\x07clipboard": "clipboard",
    "\x1bP1$r0m\x1b\\dcs": "dcs",
    "\x9b31mred": "red",
    "a\x1b[2J\x1b[Hb": "ab",
    "back\x08\x08space": "backspace",
    "over\rwrite": "overwrite",
    "bell\x07": "bell",
    "nul\x00": "nul",
    "\u202egnp.exe": "gnp.exe",
    "zero\u200bwidth": "zerowidth",
    "tag\U000e0041": "tag",
    "half\ud83d": "half",
    "two\nlines\tand a tab": "two\nlines\tand a tab",
    "Grüße, 世界 👩\u200d🚀": "Grüße, 世界 👩\u200d🚀",
    "[bold]not markup[/bold] :smile:": "[bold]not markup[/bold] :smile:",
}


@pytest.mark.parametrize(("payload", "shown"), PAYLOADS.items())
def test_clean(payload: str, shown: str) -> None:
    assert clean(payload) == shown


@given(st.text(st.characters()))
def test_no_control_sequence_is_left(text: str) -> None:
    assert not ACTING.search(clean(text))
    assert clean(clean(text)) == clean(text)
    assert "\n" not in one_line(text)


SELECTORS = [chr(code) for code in range(0xE0100, 0xE01F0)]
"""Variation selectors are invisible by themselves, and can hide text in sequences."""


@given(st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=SELECTORS)))
def test_visible_text_stays(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize("payload", PAYLOADS)
def test_json_keeps_its_meaning_without_control_characters(payload: str, capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"content": payload})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"content": payload}
    assert not ACTING.search(printed.removesuffix("\n"))


def test_json_without_nan(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        say_json({"score": float("nan")})
    assert capsys.readouterr().out == ""


def test_rows_in_a_pipe_are_lines_with_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    say_rows(("id", "title"), [(1, "a\tb\nc"), (2, "\x1b[1md")])
    assert capsys.readouterr().out == "1\ta b c\n2\td\n"


def test_tables_of_numbers_have_their_header_in_a_pipe_too(capsys: pytest.CaptureFixture[str]) -> None:
    say_rows(("name", "mrr"), [("a", 0.5)], header=True)
    assert capsys.readouterr().out == "name\tmrr\na\t0.5\n"


@pytest.mark.parametrize(("share", "glyphs"), [(0, ""), (0.5, "█" * 5), (1, "█" * 10), (7, "█" * 10), (-1, "")])
def test_bars(share: float, glyphs: str) -> None:
    assert bar_glyphs(share) == glyphs.ljust(10)
