"""Stored text is data: it cannot control the terminal, and JSON output stays valid."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.cli.output import clean, one_line, say_json, say_rows
from fourfold.cli.render import bar_glyphs

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
