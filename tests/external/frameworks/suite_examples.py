"""The examples of docs/frameworks.md run and print their documented output."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "frameworks"


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda script: script.stem)
def test_example_prints_its_documented_output(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    said = re.findall(r"# -> (.*)", script.read_text("utf-8"))
    assert said
    assert capsys.readouterr().out.splitlines() == said
