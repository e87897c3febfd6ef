"""docs/reliability.md names tests that exist, and every test of tests/trust is named there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text("utf-8")


def names_in(*folders: str) -> set[str]:
    sources = [path.read_text("utf-8") for folder in folders for path in (ROOT / "tests" / folder).glob("test_*.py")]
    return {name for source in sources for name in re.findall(r"def (test_\w+)", source)}


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named
    assert named <= names_in("trust", "engine", "files", "serve")


def test_no_result_is_missing() -> None:
    assert not re.findall(r"\b[A-Z]{5,}\b", re.sub(r"`[^`]*`|SQLite|SIGBUS", "", PAGE))
