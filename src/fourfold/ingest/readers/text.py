"""Text with little structure: plain text, reStructuredText, chats and tables."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Any, Final, cast

from fourfold.ingest.document import Document, Line, Section, numbered
from fourfold.ingest.formats import suffix
from fourfold.limits import FILE_BYTES

# ---------------------------------------------------------------- plain text


def read(text: str, name: str) -> Document:
    return Document("", [Section((), numbered(text))])


# ---------------------------------------------------------------- reStructuredText

_RULE: Final = re.compile(r"""([!-/:-@\[-`{-~])\1{2,}[ \t]*$""")
_TITLE_CHARACTERS: Final = 300


def read_rst(text: str, name: str) -> Document:
    """Sections begin at headings, which are underlined and perhaps overlined."""
    lines = numbered(text)
    sections: list[Section] = []
    styles: list[tuple[str, bool]] = []
    """Styles of headings (mark, overlined) in the order of their first use, which is their level."""
    path: list[str] = []
    start = index = 0
    while index < len(lines):
        heading = _heading(lines, index)
        if heading is None:
            index += 1
            continue
        title, style, height = heading
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


# ---------------------------------------------------------------- chats

_CHECKED_LINES: Final = 20
"""Number of lines in which a chat must have a message."""


def read_chat(text: str, name: str) -> Document:
    """Read JSON lines with `role` and `content`, or with a list `messages` of these; other JSON lines are text."""
    lines = text.split("\n")
    if not any(message for line in lines[:_CHECKED_LINES] for message in _messages(line)):
        return read(text, name)
    sections = [
        Section((), [Line(number, part) for part in f"{role}: {content}".split("\n")])
        for number, line in enumerate(lines, start=1)
        for role, content in _messages(line)
    ]
    return Document("", sections, kind="chat")


def _messages(line: str) -> Iterator[tuple[str, str]]:
    """Yield (role, content) of each message in a line."""
    try:
        value = json.loads(line) if line.strip() else None
    except ValueError:
        return
    if isinstance(value, dict):
        row = cast("dict[str, Any]", value)
        messages = row.get("messages")
        for message in cast("list[object]", messages) if isinstance(messages, list) else [row]:
            if isinstance(message, dict):
                fields = cast("dict[str, Any]", message)
                role, content = fields.get("role"), _content(fields.get("content"))
                if isinstance(role, str) and content.strip():
                    yield role[:100], content


def _content(content: object) -> str:
    """Text of a content that is a string, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = cast("list[object]", content) if isinstance(content, list) else []
    texts = (cast("dict[str, Any]", part).get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


# ---------------------------------------------------------------- tables

_DELIMITERS: Final = ",;\t|"
_FIELD_CHARACTERS: Final = 1 << 20


def read_table(text: str, name: str) -> Document:
    """Write each row with the names of its columns, so that it can be understood alone."""
    csv.field_size_limit(_FIELD_CHARACTERS)
    first = text.partition("\n")[0]
    delimiter = "\t" if suffix(name) == "tsv" else max(_DELIMITERS, key=first.count)
    try:
        lines = list(_within(FILE_BYTES, _lines(text, delimiter)))
    except (csv.Error, _TooLong):  # such as an unclosed quote
        return read(text, name)
    return Document("", [Section((), lines)])


class _TooLong(Exception):
    """The rows together with the repeated names of columns have more text than a file may have."""


def _within(most: int, lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        most -= len(line.text)
        if most < 0:
            raise _TooLong
        yield line


def _lines(text: str, delimiter: str) -> Iterator[Line]:
    rows = _rows(text, delimiter)
    number, row = next(rows, (1, ()))
    names = row if _is_header(row) else ()
    second = next(rows, None)
    if not names or second is None:
        yield _line(number, row, ())
    if second is not None:
        yield _line(*second, names)
    for number, row in rows:
        yield _line(number, row, names)


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield each row with the number of its first line."""
    reader = csv.reader(StringIO(text), delimiter=delimiter)
    first = 1
    for row in reader:
        if any(cell.strip() for cell in row):
            yield first, row
        first = reader.line_num + 1


def _is_header(row: Sequence[str]) -> bool:
    """Whether a row has names of columns: distinct, not empty, not numbers."""
    names = [cell.strip() for cell in row]
    return len(names) > 1 and len(set(names)) == len(names) and all(name and not _is_number(name) for name in names)


def _is_number(text: str) -> bool:
    return text.replace(".", "").replace(",", "").replace("-", "").isdigit()


def _line(number: int, row: Sequence[str], names: Sequence[str]) -> Line:
    cells = [" ".join(cell.split()) for cell in row]
    named = [
        f"{names[column].strip()}: {cell}" if column < len(names) else cell for column, cell in enumerate(cells) if cell
    ]
    return Line(number, "; ".join(named))
