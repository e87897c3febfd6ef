"""Accessibility of every screen, checked by axe-core, which the test gets from npm: the repository has no copy."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shared_once
from workbench import working

pytestmark = pytest.mark.spec("C10")

if TYPE_CHECKING:
    from http_server import Server
    from playwright.sync_api import Browser

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "workbench_screenshots.py"))
PACKAGE = "axe-core@4"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHECK = "rules => axe.run(document, {runOnly: rules})"


def fetched(folder: Path) -> None:
    """Leaves an empty folder if the library cannot be had."""
    folder.mkdir(exist_ok=True)
    if shutil.which("npm") is None:
        return
    command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", str(folder)]
    packed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)
    if packed.returncode:
        return
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        (folder / "axe.js").write_bytes(source.read())


@pytest.fixture(scope="session")
def axe() -> str:
    source = shared_once.made("axe", fetched) / "axe.js"
    if not source.is_file():
        pytest.skip(f"npm cannot fetch {PACKAGE}: accessibility is not checked")
    return source.read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_no_screen_violates_a_rule_of_accessibility(
    browser: Browser, server: Server, axe: str, width: int, scheme: Any
) -> None:
    violations: dict[str, set[str]] = {}
    for screen in SCRIPT["SCREENS"]:
        with working(browser, server, color_scheme=scheme) as bench:
            bench.page.set_viewport_size({"width": width, "height": 900})
            bench.refused = screen.name == "refused"
            SCRIPT["show"](bench.page, server.url, screen)
            bench.page.evaluate(axe)
            for found in bench.page.evaluate(CHECK, RULES)["violations"]:
                places = {f"{screen.name}: {node['html']} {node['failureSummary']}" for node in found["nodes"]}
                violations.setdefault(found["id"], set()).update(places)
    assert violations == {}
