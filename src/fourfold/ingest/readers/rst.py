"""reStructuredText: sections by headings, which are underlined and perhaps overlined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fourfold.ingest.document import Document, Line, Section, numbered

_RULE: Final = re.compile(r"""([!-/:-@\[-`{-~])\1{2,}[ \t]*$""")
_TITLE_CHARACTERS: Final = 300


def read(text: str, name: str) -> Document:
    lines = numbered(text)
    sections: list[Section] = []
    styles: list[tuple[str, bool]] = []
    """Styles of headings (mark, overlined) in the order of their first use, which is their level."""
    path: list[str] = []
    start = index = 0
    while index < len(lines):
        found = _heading(lines, index)
        if found is None:
            index += 1
            continue
        title, style, height = found
        sections += _section(path, lines[start:index])
        if style not in styles:
            styles.append(style)
        path = [*path[: styles.index(style)], title]
        start, index = index, index + height
    sections += _section(path, lines[start:])
    first = next((section for section in sections if section.headings), None)
    opens = first is not None and first in sections[:2] and len(first.headings) == 1
    return Document(first.headings[0] if first is not None and opens else "", sections)


def _section(path: Sequence[str], lines: Sequence[Line]) -> list[Section]:
    return [Section(tuple(path), lines)] if any(line.text.strip() for line in lines) else []


def _heading(lines: Sequence[Line], index: int) -> tuple[str, tuple[str, bool], int] | None:
    """(title, style, number of lines) of a heading that starts at this line."""
    over = _RULE.match(lines[index].text)
    row = index + 1 if over else index
    if row + 1 >= len(lines):
        return None
    title, under = lines[row].text, _RULE.match(lines[row + 1].text)
    if under is None or not title.strip() or len(title) > _TITLE_CHARACTERS or _RULE.match(title):
        return None
    fits = len(under[0].rstrip()) >= len(title.strip()) and (over is not None or not title[0].isspace())
    if not fits or (over is not None and over[1] != under[1]):
        return None
    return " ".join(title.replace("`", "").split())[:200], (under[1], over is not None), 3 if over else 2
