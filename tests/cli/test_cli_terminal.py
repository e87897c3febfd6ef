"""What a person sees: the real program on a real (pseudo) terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pty = pytest.importorskip("pty", reason="no pseudo terminals on this system")

OWNED = "\x1b]0;owned\x07"
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(*arguments: str, answer: str = "") -> str:
    """Everything that the program wrote, with stdin, stdout and stderr on one terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "fourfold", *arguments]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    os.write(ours, answer.encode())
    written = read_all(ours)
    process.wait()
    os.close(ours)
    return written.decode()


def read_all(terminal: int) -> bytes:
    parts: list[bytes] = []
    try:
        while part := os.read(terminal, 65536):
            parts.append(part)
    except OSError:  # Linux says EIO where the other side is closed
        pass
    return b"".join(parts)


@pytest.fixture
def _filled(cli: Callable[..., Any]) -> None:
    text = f"words to find {OWNED} \x1b[5mblink"
    item = ["add", text, "--title", f"A [bold]title[/bold] {OWNED}", "--tag", "t\x1b[31m", "--tag", "old"]
    assert cli(*item, "--key", "k").code == 0


@pytest.mark.usefixtures("_filled")
@pytest.mark.parametrize(
    "arguments", [["search", "words", "--explain"], ["list"], ["get", "key:k"], ["tags"], ["why", "key:k", "words"]]
)
def test_only_our_own_colours_reach_the_terminal(arguments: list[str]) -> None:
    """Reliability 18."""
    written = on_terminal(*arguments)
    assert "owned" not in written
    assert "\x1b[5m" not in written
    assert "\x1b" not in SEQUENCE.sub("", written)
    assert "\x07" not in written


@pytest.mark.usefixtures("_filled")
def test_search_draws_a_table_and_trees() -> None:
    plain = SEQUENCE.sub("", on_terminal("search", "words", "--explain"))
    assert "A [bold]title[/bold]" in plain
    assert re.search(r"#\s+id\s+item\s+score\s+semantic\s+keyword\s+graph\s+tags", plain)
    assert "█" in plain
    assert "degraded: semantic" in plain


@pytest.mark.usefixtures("_filled")
def test_forget_asks() -> None:
    assert "Forget 1 item? [y/N]" in on_terminal("forget", "--tag", "old", answer="n\n")
    assert "forgot 1 item" in on_terminal("forget", "--tag", "old", answer="y\n")


def test_import_shows_a_bar(home: Path) -> None:
    file = home / "rows.jsonl"
    file.write_text("".join(f'{{"text": "row {number}"}}\n' for number in range(1500)))
    written = SEQUENCE.sub("", on_terminal("import", str(file)))
    assert "import ━" in written
    assert "imported 1500 items" in written
