"""How the command line reads times, metadata, weights and ids."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.cli.options import read_end, read_id, read_local, read_metadata, read_metadata_test, read_weights
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


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "15.11.2026", "10:00", "99999-01-01"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match="the time is"):
        read_local(text)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("a=1", 1),
        ("a=1.5", 1.5),
        ("a=true", True),
        ("a=null", None),
        ('a="1"', "1"),
        ("a=[1, 2]", [1, 2]),
        ('a={"b": 1}', {"b": 1}),
        ("a=text", "text"),
        ("a=", ""),
        ("a=b=c", "b=c"),
        ("a=NaN", "NaN"),
        ("a=-Infinity", "-Infinity"),
        ("a=[NaN]", "[NaN]"),
        ("a=1e999", "1e999"),
        ("a=" + "[" * 100_000, "[" * 100_000),
        ("a=" + "9" * 5000, "9" * 5000),
    ],
)
def test_metadata_is_json_if_it_parses(pair: str, value: object) -> None:
    assert read_metadata([pair]) == {"a": value}


@pytest.mark.parametrize("pair", ["a", "=1", "", "line!=1000", "line<=3", "line>=3"])
def test_metadata_without_key_or_value_is_refused(pair: str) -> None:
    with pytest.raises(InvalidItem, match="not metadata"):
        read_metadata([pair])


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


@pytest.mark.parametrize("text", ["year", "=3", "!=3", "year!"])
def test_an_invalid_test_of_metadata_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match="not a test"):
        read_metadata_test(text)


def test_weights() -> None:
    assert read_weights("semantic=0.7, keyword = 0.3") == {"semantic": 0.7, "keyword": 0.3}
    assert read_weights("") == {}


@pytest.mark.parametrize("text", ["semantic", "semantic=", "semantic=much", "0.7", "semantic=1,semantic=0"])
def test_invalid_weights_are_refused(text: str) -> None:
    with pytest.raises(InvalidWeights):
        read_weights(text)


def test_ids() -> None:
    assert read_id("17") == 17
    assert read_id("key:17") == "key:17"
    assert read_id("key:a b:c") == "key:a b:c"


@pytest.mark.parametrize("text", ["", "-1", "1.5", "abc", "9" * 19, "１７"])
def test_an_invalid_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match="not an id"):
        read_id(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for read, refused in ((read_local, InvalidQuery), (read_id, InvalidQuery), (read_weights, InvalidWeights)):
        try:
            read(text)
        except refused:
            continue
