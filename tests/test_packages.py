"""How wheels are built, and what is claimed about platforms."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.spec("C19")

ROOT = Path(__file__).parent.parent
HOOK = runpy.run_path(str(ROOT / "hatch_build.py"), run_name="hatch_build")
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "check_wheels.py"), run_name="check_wheels")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_platform_is_built_checked_and_documented() -> None:
    tags = list(HOOK["TARGETS"])
    assert set(SCRIPT["FORMATS"]) == set(tags)
    table = (ROOT / "docs" / "reference-limits.md").read_text("utf-8").split("## Platforms")[1]
    documented = re.findall(r"`((?:many|musl|mac|win)\w+(?:\*)?)`", table)
    for tag in tags:
        assert any(name.rstrip("*") in tag for name in documented), tag


def test_classifiers_claim_only_platforms_on_which_everything_was_run() -> None:
    assert [name for name in PROJECT["classifiers"] if name.startswith("Operating System")] == [
        "Operating System :: POSIX :: Linux"
    ]


def test_the_workflow_runs_targets_that_exist_and_stores_no_token() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    used = [word for line in re.findall(r"run: make (.+)", text) for word in line.split()]
    assert used
    assert set(used) <= targets
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert set(jobs["publish"]["needs"]) >= {"test", "install"}
    assert "secrets." not in text


def tracked() -> set[str]:
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return {line.removeprefix("src/") for line in listed.stdout.split("\n") if line}


@pytest.mark.soak
def test_the_wheel_and_the_sdist_have_every_file_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=580)
    if "No module named" in done.stderr or "Missing dependencies" in done.stdout + done.stderr:
        pytest.skip("build or hatchling is not installed here")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert {name for name in tracked() if not name.endswith((".c", ".h"))} <= names
    assert "fourfold/native/kernel.so" in names
    assert not [name for name in names if name.endswith((".c", ".h", ".pyc"))]
    with tarfile.open(source) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    assert {f"src/{name}" for name in tracked()} <= inside
    assert {"hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE"} <= inside
    assert not [name for name in inside if name.endswith(".so") or name.startswith("tests/")]
