"""Runs the suites of the frameworks in .venv-frameworks: all pass, and nothing is skipped."""

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PYTHON = ROOT / ".venv-frameworks/bin/python"
SUITES = sorted(HERE.glob("suite_*.py"))

pytestmark = [
    pytest.mark.spec("C18"),
    pytest.mark.skipif(not PYTHON.exists(), reason="no frameworks here: `make test` makes .venv-frameworks"),
]


def test_suites_of_the_frameworks_pass_completely(tmp_path: Path) -> None:
    """In one process: three of the suites need every framework, and importing one takes longer than its tests."""
    report = tmp_path / "report.xml"
    options = [f"--confcutdir={HERE}", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'stores'}"]
    command = [str(PYTHON), "-m", "pytest", "-q", *options, f"--junitxml={report}", *map(str, SUITES)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    (totals,) = ElementTree.parse(report).getroot().iter("testsuite")
    ran = {suite.stem for suite in SUITES for case in totals.iter("testcase") if suite.stem in case.attrib["classname"]}
    assert ran == {suite.stem for suite in SUITES}
    assert {name: totals.attrib[name] for name in ("errors", "failures", "skipped")} == dict.fromkeys(
        ("errors", "failures", "skipped"), "0"
    )
