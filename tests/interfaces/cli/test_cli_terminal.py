"""What a person sees: the real program on a real (pseudo) terminal, and the first session of a newcomer."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from newcomer_session import LOOKS, SESSION, Look, has_tmux, joined

pty = pytest.importorskip("pty", reason="no pseudo terminals on this system")

OWNED = "\x1b]0;owned\x07"
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(
    *arguments: str, answer: str = "", columns: int = 100, folder: Path | None = None, interrupt_at: str = ""
) -> str:
    """Everything that the program wrote, with stdin, stdout and stderr on one terminal.

    `interrupt_at`: it gets a SIGINT, as by Ctrl-C, when it has written this.
    """
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "fourfold", *arguments]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=folder)
    os.close(theirs)
    os.write(ours, answer.encode())
    seen = b""
    while interrupt_at and interrupt_at.encode() not in seen:
        seen += os.read(ours, 65536)
    if interrupt_at:
        process.send_signal(signal.SIGINT)
    written = seen + read_all(ours)
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
def test_search_draws_a_table_and_trees() -> None:
    plain = SEQUENCE.sub("", on_terminal("search", "words", "--explain"))
    assert "A [bold]title[/bold]" in plain
    assert re.search(r"#\s+id\s+item\s+score\s+conf\s+semantic\s+keyword\s+graph\s+tags", plain)
    assert "█" in plain
    assert "degraded: semantic" in plain


def test_a_narrow_terminal_has_titles_scores_and_confidence_on_lines_that_fit(cli: Callable[..., Any]) -> None:
    cli("add", "words to find in a text of some length", "--title", "A title that is long, but not too long to read")
    lines = SEQUENCE.sub("", on_terminal("search", "words", columns=60)).splitlines()
    assert lines[0].split() == ["#", "id", "item", "score", "conf"]
    assert "A title that is long, but not" in lines[1]
    assert re.search(r"1\.0000  [01]\.\d\d$", lines[1].rstrip())
    assert max(map(len, lines[:3])) <= 60


def test_the_namespace_of_each_result_is_shown_when_several_are_searched(cli: Callable[..., Any]) -> None:
    cli("--namespace", "work", "add", "words at work")
    cli("--namespace", "home", "add", "words at home")
    found = SEQUENCE.sub("", on_terminal("--namespace", "work,home", "search", "words"))
    assert re.search(r"item\s+namespace\s+score", found)
    assert re.search(r"words at work\s+work", found)
    assert "namespace work, score" in cli("--namespace", "work,home", "search", "words").out
    assert "namespace" not in cli("--namespace", "work", "search", "words").out


@pytest.mark.spec("S3.5")
def test_results_of_files_say_where_they_are_and_where_else(home: Path, cli: Callable[..., Any]) -> None:
    for name in ("a", "b"):
        (home / "notes" / name).mkdir(parents=True)
        (home / "notes" / name / "hints.md").write_text(
            "# Hints\n\n" + "unrelated\n" * 3 + "\n## Find\n\nwords to find\n"
        )
    cli("index", str(home / "notes"))
    found = SEQUENCE.sub("", on_terminal("search", "words to find", "-k", "1", folder=home))
    where = re.search(r"(notes/[ab]/hints.md:\d+) \(also in (notes/[ab]/hints.md:\d+)\)", found)
    assert where, found
    assert where[1] != where[2]
    assert f"{home}/{where[1]} (also in {home}/{where[2]})" in cli("search", "words to find", "-k", "1").out
    (result,) = cli("search", "words to find", "-k", "1", "--json").json["results"]
    assert (result["location"], result["also_in"]) == (f"{home}/{where[1]}", [f"{home}/{where[2]}"])


def test_asterisks_of_the_text_do_not_break_the_highlighting(cli: Callable[..., Any]) -> None:
    cli("add", "the **One to Many** relation and x**2 + words**3")
    written = on_terminal("search", "many words", columns=100)
    assert "One to \x1b[1mMany\x1b[0m relation and x**2 + \x1b[1mwords\x1b[0m**3" in written


@pytest.mark.spec("C4")
def test_on_a_terminal_import_waits_for_the_vectors_with_a_bar(home, cli, monkeypatch):
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    monkeypatch.setenv("FOURFOLD_EMBED_SECONDS", "0")
    file = home / "rows.jsonl"
    file.write_text("".join(f'{{"text": "row {number}"}}\n' for number in range(100)))
    written = SEQUENCE.sub("", on_terminal("import", str(file)))
    assert "vectors ━" in written
    assert "wait for their vectors" not in written
    assert cli("status", "--json").json["namespaces"]["default"]["pending_vectors"] == 0


@pytest.mark.spec("C4")
def test_an_interrupted_wait_leaves_the_rest_to_a_worker(home, cli, monkeypatch):
    fcntl = pytest.importorskip("fcntl", reason="the test waits for the worker's lock")
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    file = home / "rows.jsonl"
    file.write_text("".join(f'{{"text": "row {number} {"of many words " * 10}"}}\n' for number in range(100)))
    written = on_terminal("import", str(file), interrupt_at="vectors")
    assert "a background process makes them" in " ".join(SEQUENCE.sub("", written).split())
    assert "Traceback" not in written
    assert cli("embed").code == 0
    with (home / "store" / "index" / "embedding-worker").open("a") as lease:  # a slow worker has not made it yet
        fcntl.flock(lease, fcntl.LOCK_EX)  # the worker ends when nothing is pending
    assert cli("status", "--json").json["namespaces"]["default"]["pending_vectors"] == 0


def test_import_shows_a_bar(home: Path) -> None:
    file = home / "rows.jsonl"
    file.write_text("".join(f'{{"text": "row {number}"}}\n' for number in range(1500)))
    written = SEQUENCE.sub("", on_terminal("import", str(file)))
    assert "import ━" in written
    assert "imported 1,500 items" in written


# ---------------------------------------------------------------- what a newcomer sees


TOLERANCE = 0.05
"""The model's vectors differ slightly between kinds of processors."""
DECIMAL = re.compile(r"\b\d+\.\d\d\b")


def figures(screens: str) -> list[float]:
    return [float(number) for number in DECIMAL.findall(screens)]


def marked(look: Look) -> Any:
    """`make test` draws both widths and both kinds of colours, `make soak` the other combinations too."""
    is_other = look.colours == (look.columns == min(each.columns for each in LOOKS))
    return pytest.param(look, id=look.file.stem, marks=[pytest.mark.soak] if is_other else [])


@pytest.mark.spec("S1.11")
@pytest.mark.parametrize("look", [*map(marked, LOOKS)])
def test_the_screens_of_the_first_session(look: Look) -> None:
    if not has_tmux():
        pytest.skip("tmux is not installed: apt-get install tmux")
    expected, found = look.file.read_text("utf-8"), joined(look)
    assert DECIMAL.sub("0.00", found) == DECIMAL.sub("0.00", expected)
    assert figures(found) == pytest.approx(figures(expected), abs=TOLERANCE)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.file.stem)
def test_no_line_of_the_fixtures_is_wider_than_the_terminal(look: Look) -> None:
    plain = re.sub("⟦.*?⟧", "", look.file.read_text("utf-8"))
    assert max(map(len, plain.splitlines())) <= look.columns
    assert plain.count("[exit code") == len(SESSION)
    assert ("⟦bold⟧" in look.file.read_text("utf-8")) == look.colours
