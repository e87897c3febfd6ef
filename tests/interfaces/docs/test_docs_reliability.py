"""docs/reliability.md has all thirty guarantees, and every test that it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reliability.md").read_text("utf-8")
ROWS = {int(row[0]): row[1:] for row in re.findall(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)}


def names_of_tests() -> set[str]:
    sources = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for source in sources for name in re.findall(r"def (test_\w+)", source)}


def test_every_named_test_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 80
    assert named <= names_of_tests()


def test_every_guarantee_has_a_test_or_is_marked_as_not_covered() -> None:
    assert sorted(ROWS) == list(range(1, 31))
    for _, shown_by, result in ROWS.values():
        assert "`test_" in shown_by or "not covered" in result


def test_page_contains_no_placeholder() -> None:
    capitals = re.sub(r"`[^`]*`|SQLite|SIGBUS|FAISS", "", PAGE)
    assert not re.findall(r"\b[A-Z]{5,}\b", capitals)
