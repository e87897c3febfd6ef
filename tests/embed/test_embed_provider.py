"""The parts of a provider's answer that reach the user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from fourfold.embed.endpoint import message_of, redirect_target, retry_after, shown

KEY = "sk-canary-4f1d9b7a2c8e"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error": {"message": "no such model", "type": "x"}}', "no such model"),
        (b'{"error": "no such model"}', "no such model"),
        (b'{"message": "no such model"}', "no such model"),
        (b'{"detail": "no such model"}', "no such model"),
        (b'{"detail": [{"loc": 1}]}', ""),
        (b'{"error": {"message": 7}}', ""),
        (b'["no"]', ""),
        (b"<html>", ""),
        (b"\xff", ""),
        (b"[" * 200_000, ""),
        (b"", ""),
    ],
)
def test_the_message_of_any_compatible_server(body: bytes, expected: str) -> None:
    assert message_of(body) == expected


def test_a_message_is_one_short_printable_line() -> None:
    assert shown("a\r\nb\x1b[2J\u202e c", KEY) == "a b[2J c"
    assert len(shown("long " * 1000, KEY)) == 200


@pytest.mark.parametrize(
    "message",
    [f"bad key {KEY}", f"bad key {KEY[:9]}...", f"bad key ***{KEY[-8:]}", f"bad key {KEY.upper()}"],
)
def test_a_message_with_a_piece_of_the_key_is_not_shown(message: str) -> None:
    assert shown(message, KEY) == ""


@pytest.mark.parametrize("text", ["my own secret thoughts about it", "  MY OWN\n secret   thoughts", "thoughts"])
def test_a_message_with_a_piece_of_a_text_is_not_shown(text: str) -> None:
    assert shown("cannot read 'my own secret thoughts'", KEY, ["harmless", text]) == ""


def test_other_messages_are_shown() -> None:
    assert shown("the model does not exist", KEY, ["", "it", "a text about models"]) == "the model does not exist"
    assert shown("no key needed", "") == "no key needed"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2", 2.0),
        ("0", 0.0),
        ("0.5", 0.5),
        ("86400", 10.0),
        ("1e400", 10.0),
        ("-1", None),
        ("nan", None),
        ("", None),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_how_long_a_server_asks_to_wait(value: str, expected: float | None) -> None:
    assert retry_after(value) == expected


def test_a_future_date_counts_up_to_the_longest_pause() -> None:
    assert retry_after(format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)) == 10.0


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("https://evil.example/x?token=1", "evil.example"),
        ("/elsewhere", "another address"),
        ("", "another address"),
        ("http://[bad", "another address"),
    ],
)
def test_a_redirect_is_named_by_its_host_only(location: str, expected: str) -> None:
    assert redirect_target(location) == expected
