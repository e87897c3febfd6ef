"""CSV and TSV: a line for each row with the names of its columns, so that every row can be understood alone."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Final

from fourfold.ingest.document import Document, Line, Section
from fourfold.ingest.formats import suffix
from fourfold.ingest.readers import plain
from fourfold.limits import FILE_BYTES

_DELIMITERS: Final = ",;\t|"
_FIELD_CHARACTERS: Final = 1 << 20


def read(text: str, name: str) -> Document:
    csv.field_size_limit(_FIELD_CHARACTERS)
    first = text.partition("\n")[0]
    delimiter = "\t" if suffix(name) == "tsv" else max(_DELIMITERS, key=first.count)
    try:
        lines = list(_within(FILE_BYTES, _lines(text, delimiter)))
    except (csv.Error, _TooLong):  # such as an unclosed quote
        return plain.read(text, name)
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
