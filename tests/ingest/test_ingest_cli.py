"""`fourfold index` and `get --around` on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from files_support import write

from fourfold.cli.main import main

pytestmark = pytest.mark.spec("S3.1")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    monkeypatch.setenv("FOURFOLD_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def fourfold(store: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str | Path, code: int = 0) -> str:
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert left.value.code == code, said.err
        return said.out

    return run


def test_index_reports_changes_and_skipped_files(fourfold: Any, tree: Path) -> None:
    write(tree, {"a.md": "bees", "b.png": "x", "\x1b[31mc.png": "x"})
    said = fourfold("index", tree)
    assert said.splitlines()[0] == "1 file: 1 new, 0 changed, 0 moved, 0 removed, 0 unchanged; 1 chunks stored"
    assert "  skipped 2: binary, by its name (" in said
    assert "\x1b" not in said
    (tree / "a.md").unlink()
    again = json.loads(fourfold("index", tree, "--verify", "--json"))
    assert {name: count for name, count in again.items() if isinstance(count, int) and count} == {"removed": 1}
    assert again["skipped"]["binary, by its name"]["count"] == 2
    assert (again["status"], len(again)) == ("success", 11)


def test_a_missing_folder_is_a_request_error(fourfold: Any, tree: Path) -> None:
    assert json.loads(fourfold("index", tree / "nowhere", "--json", code=1))["status"] == "error"


@pytest.mark.spec("B12")
def test_neighbours_on_the_command_line(fourfold: Any, tree: Path) -> None:
    write(tree, {"long.txt": "\n\n".join(f"Part {number}. " + "word " * 200 for number in range(4))})
    fourfold("index", tree)
    found = json.loads(fourfold("search", "Part 2", "--only", "keyword", "--json"))["results"]
    third = next(result["id"] for result in found if result["chunk_index"] == 2)
    around = json.loads(fourfold("get", third, "--around", "1", "--json"))["items"]
    assert [item["chunk_index"] for item in around] == [1, 2, 3]


@pytest.fixture
def watching(store: Path, tree: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "fourfold", "index", str(tree), "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts are sent differently there")
def test_watch_follows_changes_until_it_is_interrupted(watching: Any, fourfold: Any, tree: Path) -> None:
    assert json.loads(watching.stdout.readline())["new"] == 0
    write(tree, {"a.md": "bees"})
    assert json.loads(watching.stdout.readline())["new"] == 1
    (tree / "a.md").rename(tree / "b.md")
    assert json.loads(watching.stdout.readline())["moved"] == 1
    (tree / "b.md").unlink()
    assert json.loads(watching.stdout.readline())["removed"] == 1
    watching.send_signal(signal.SIGINT)
    assert watching.wait(timeout=30) == 130
    assert json.loads(fourfold("index", tree, "--json"))["files"] == 0
