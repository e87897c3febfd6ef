"""DOCX: paragraphs, headings by style, tables by row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fourfold.ingest.document import Document, Line
from fourfold.ingest.readers.archive import Archive, attribute
from fourfold.ingest.readers.markdown import first_title, sectioned

_BODY: Final = "word/document.xml"
_STYLES: Final = "word/styles.xml"
_PROPERTIES: Final = "docProps/core.xml"
_HEADING: Final = re.compile(r"heading ([1-6])$", re.IGNORECASE)


def read(data: bytes, name: str) -> Document:
    """Read a document whose line numbers are those of paragraphs."""
    archive = Archive(data)
    reader = _Body(_heading_levels(archive) if _STYLES in archive else {})
    archive.parse(_BODY, reader.start, reader.end, reader.text)
    sections = sectioned(reader.lines)
    return Document(_title(archive) or first_title(sections), sections, unit="paragraph")


def _heading_levels(archive: Archive) -> dict[str, int]:
    """Map the id of each heading style to its level. Ids depend on the language of Word, names do not."""
    levels: dict[str, int] = {}
    style = ""

    def start(tag: str, attributes: Mapping[str, str]) -> None:
        nonlocal style
        if tag == "style":
            style = attribute(attributes, "styleId")
        elif tag == "name" and style:
            spelled = attribute(attributes, "val")
            found = _HEADING.match(spelled)
            if found or spelled.lower() == "title":
                levels[style] = int(found[1]) if found else 1

    archive.parse(_STYLES, start)
    return levels


def _title(archive: Archive) -> str:
    parts: list[str] = []
    in_title = False

    def start(tag: str, _: Mapping[str, str]) -> None:
        nonlocal in_title
        in_title = tag == "title"

    def end(_: str) -> None:
        nonlocal in_title
        in_title = False

    if _PROPERTIES in archive:
        archive.parse(_PROPERTIES, start, end, lambda text: parts.append(text) if in_title else None)
    return " ".join("".join(parts).split())[:200]


class _Body:
    def __init__(self, levels: Mapping[str, int]) -> None:
        self.lines: list[Line] = []
        self._levels = levels
        self._parts: list[str] = []
        self._cells: list[str] = []
        self._row_depth = 0
        self._level = 0
        self._is_item = False
        self._is_text = False
        self._paragraph = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        match tag:
            case "p":
                self._paragraph += 1
                self._level, self._is_item = 0, False
            case "pStyle":
                self._level = self._levels.get(attribute(attributes, "val"), 0)
            case "numPr":
                self._is_item = True
            case "t":
                self._is_text = True
            case "tab" | "br":
                self._parts.append(" ")
            case "tr":
                self._row_depth += 1
            case _:
                pass

    def text(self, text: str) -> None:
        if self._is_text:
            self._parts.append(text)

    def end(self, tag: str) -> None:
        match tag:
            case "t":
                self._is_text = False
            case "p":
                self._end_paragraph()
            case "tr":
                self._row_depth -= 1
                if self._row_depth == 0:
                    self._add(" | ".join(self._cells))
                    self._cells.clear()
            case "tbl":
                self._add("")
            case _:
                pass

    def _end_paragraph(self) -> None:
        text = " ".join("".join(self._parts).split())
        self._parts.clear()
        if self._row_depth:
            if text:
                self._cells.append(text)
        elif self._level and text:
            self._add(f"{'#' * self._level} {text}")
        else:
            self._add(f"- {text}" if self._is_item and text else text)
            if not self._is_item:
                self._add("")

    def _add(self, text: str) -> None:
        self.lines.append(Line(self._paragraph, text))
