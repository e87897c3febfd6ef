"""Checks that links of Markdown files lead to files and headings that exist: python scripts/check_links.py

Reads the pages of the repository and of the plugin. Links to other sites are not followed, so no network is needed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ("*.md", "docs/*.md", "plugins/**/*.md", "benchmarks/*.md", "training/*.md")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def pages() -> list[Path]:
    return sorted(path for pattern in PAGES for path in ROOT.glob(pattern))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them; a repeated one has a number."""
    seen: dict[str, int] = {}
    for heading in _HEADING.findall(_BLOCK.sub("", page.read_text("utf-8"))):
        linked = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w -]", "", linked).strip().lower().replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        if count:
            seen[f"{name}-{count}"] = 1
    return set(seen)


def broken(page: Path) -> Iterator[str]:
    text = _CODE.sub(lambda code: re.sub(r"[^\n]", "", code[0]), page.read_text("utf-8"))
    for match in _LINK.finditer(text):
        target = match[1]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        line = text.count("\n", 0, match.start()) + 1
        if not linked.exists():
            yield f"{page.relative_to(ROOT)}:{line}: there is no {target}"
        elif anchor and linked.suffix == ".md" and anchor not in anchors(linked):
            yield f"{page.relative_to(ROOT)}:{line}: {path or 'this page'} has no heading {anchor!r}"


if __name__ == "__main__":
    found = [problem for page in pages() for problem in broken(page)]
    sys.stdout.write("".join(f"{problem}\n" for problem in found))
    raise SystemExit(bool(found))
