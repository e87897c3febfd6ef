"""CSV and TSV: a line for each row, with the names of its columns, so that any row is understood alone."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Final

from fourfold.ingest.document import Document, Line, Section
from fourfold.ingest.formats import suffix

_DELIMITERS: Final = ",;\t|"
_FIELD_CHARACTERS: Final = 1 << 20


def read(text: str, name: str) -> Document:
    csv.field_size_limit(_FIELD_CHARACTERS)
    first = text.partition("\n")[0]
    delimiter = "\t" if suffix(name) == "tsv" else max(_DELIMITERS, key=first.count)
    rows = _rows(text, delimiter)
    header = next(rows, None)
    if header is None:
        return Document("", [])
    names = header[1] if _is_header(header[1]) else ()
    lines = [] if names else [_line(*header, names)]
    lines += [_line(number, row, names) for number, row in rows]
    return Document("", [Section((), lines or [Line(1, "; ".join(names))])])


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Each with the number of the line that it begins at."""
    reader = csv.reader(text.split("\n"), delimiter=delimiter)
    begins = 1
    for row in reader:
        if any(cell.strip() for cell in row):
            yield begins, row
        begins = reader.line_num + 1


def _is_header(row: Sequence[str]) -> bool:
    """Names of columns: each once, none empty, none a number."""
    names = [cell.strip() for cell in row]
    return len(names) > 1 and len(set(names)) == len(names) and all(name and not _is_number(name) for name in names)


def _is_number(text: str) -> bool:
    return text.replace(".", "").replace(",", "").replace("-", "").isdigit()


def _line(number: int, row: Sequence[str], names: Sequence[str]) -> Line:
    cells = [" ".join(cell.split()) for cell in row]
    named = [
        f"{names[place].strip()}: {cell}" if place < len(names) else cell for place, cell in enumerate(cells) if cell
    ]
    return Line(number, "; ".join(named))
