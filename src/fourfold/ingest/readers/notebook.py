"""Jupyter notebooks: text, code and text output of their cells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, cast

from fourfold.ingest.document import Document, Line, Unreadable
from fourfold.ingest.readers.markdown import first_title, sectioned

_OUTPUT_CHARACTERS: Final = 2000
"""Maximum size of each output."""


def read(text: str, name: str) -> Document:
    """Read a notebook; line numbers are those of cells."""
    notebook: object = json.loads(text)
    cells = cast("dict[str, object]", notebook).get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise Unreadable("a notebook without cells (only format 4 is supported)")
    lines = [
        Line(number, line)
        for number, cell in enumerate(cast("list[object]", cells), start=1)
        if isinstance(cell, dict)
        for line in (*_cell(cast("dict[str, Any]", cell)), "")
    ]
    sections = sectioned(lines)
    return Document(first_title(sections), sections, unit="cell")


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = _joined(cell.get("source"))
    if cell.get("cell_type") != "code":
        yield from source.split("\n")
        return
    if source.strip():
        yield from ("```", *source.split("\n"), "```")
    for output in cell.get("outputs") or ():
        if printed := _printed(output)[:_OUTPUT_CHARACTERS].strip():
            yield from ("```", *printed.split("\n"), "```")


def _printed(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    known = cast("dict[str, Any]", output)
    data = known.get("data")
    plain = cast("dict[str, Any]", data).get("text/plain") if isinstance(data, dict) else None
    return _joined(known.get("text") or plain)


def _joined(source: object) -> str:
    """Join a string that may be given as a list of parts."""
    parts = cast("list[object]", source) if isinstance(source, list) else [source]
    return "".join(part for part in parts if isinstance(part, str)).replace("\r\n", "\n")
