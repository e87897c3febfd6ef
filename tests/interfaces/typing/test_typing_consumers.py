"""Programs of callers pass pyright's strict mode and run; wrong programs do not pass."""

import asyncio
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONSUMERS = Path(__file__).parent / "consumers"
ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.spec("C8")

WRONG = """
from fourfold import Memory

with Memory.open("notes") as memory:
    memory.search("x", top_k="3")
    memory.search(5)
    memory.add("x").nothing
    memory.nothing()
    found: int = memory.search("x")
"""


def checked(programs: dict[str, str], folder: Path) -> list[dict[str, Any]]:
    """The errors of pyright in strict mode for these programs, with the installed package."""
    pyright = Path(sys.executable).with_name("pyright")
    if not pyright.exists():
        pytest.skip("pyright is not installed here: pip install 'pyright[nodejs]'")
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps({"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": ["*.py"]}))
    for name, text in programs.items():
        (folder / name).write_text(text, "utf-8")
    done = subprocess.run(
        [pyright, "--project", config, "--pythonpath", sys.executable, "--outputjson"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        pytest.skip(f"pyright cannot run here: {(done.stderr or done.stdout)[-300:]}")
    assert report["summary"]["filesAnalyzed"] == len(programs)
    return report["generalDiagnostics"]


def test_three_programs_are_clean_under_strict_and_every_mistake_of_a_wrong_one_is_found(tmp_path: Path) -> None:
    programs = {file.name: file.read_text("utf-8") for file in CONSUMERS.glob("*.py")}
    assert len(programs) == 3
    found = [(Path(each["file"]).name, each) for each in checked({**programs, "wrong.py": WRONG}, tmp_path)]
    assert [f"{name}: {each['message']}" for name, each in found if name != "wrong.py"] == []
    lines = {each["range"]["start"]["line"] for _, each in found if each["severity"] == "error"}
    assert lines == {4, 5, 6, 7, 8}


def test_the_programs_run(tmp_path: Path) -> None:
    programs = {file.stem: runpy.run_path(str(file)) for file in CONSUMERS.glob("*.py")}
    (tmp_path / "sync").mkdir()
    lines = programs["sync_program"]["report"](tmp_path / "sync")
    assert "deploy" in lines[0]
    assert lines[-4:] == ["Shop", "breaks", "[('ops', 1), ('urgent', 1)]", "1"]
    (tmp_path / "async").mkdir()
    lines = asyncio.run(programs["async_program"]["main"](tmp_path / "async"))
    assert lines[-1] == "no item has the kind 'nota'; kinds: none"
    assert programs["own_parts"]["both"](tmp_path) == ["two", "one"] * 2
