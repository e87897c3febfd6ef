"""Parts of the documentation for the tests: pages, fenced blocks, rows of tables."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs" / "examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REFERENCE = "\n".join(page.read_text("utf-8") for page in PAGES if page.name.startswith(("reference", "import")))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    page: str
    language: str
    text: str


def blocks(language: str) -> list[Block]:
    found = [Block(page.name, *match) for page in PAGES for match in _BLOCK.findall(page.read_text("utf-8"))]
    return [block for block in found if block.language == language]


def section(title: str) -> str:
    """A section of the reference, from its heading to the next one of its level, or to the end of its page."""
    return re.split(r"^##? ", REFERENCE.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of every row of a table."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]


def row(text: str, name: str) -> list[str]:
    """The row whose first cell contains this name."""
    found = [cells for cells in rows(text) if name in quoted(cells[0])]
    assert len(found) == 1, f"{name}: {len(found)} rows"
    return found[0]


def quoted(text: str) -> list[str]:
    """The parts of a text between backticks."""
    return re.findall(r"`([^`]+)`", text)
