"""Documents: the sections of a file, which the reader of every format returns and which are split into chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fourfold.model import Json


class Line(NamedTuple):
    number: int
    """Number in the file, from 1."""
    text: str


class TagUse(NamedTuple):
    line: int
    tag: str


@dataclass(frozen=True, slots=True)
class Section:
    headings: tuple[str, ...]
    """Headings above the section, without the document's title."""
    lines: Sequence[Line]
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    tags: tuple[TagUse, ...] = ()
    """Tags in the lines of the section."""


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    """Empty: the file's name is used."""
    sections: Sequence[Section]
    tags: tuple[str, ...] = ()
    """Tags of the whole file."""
    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    unit: str = "line"
    """Unit of the line numbers: line, cell, paragraph ..."""
    kind: str = ""
    """Kind of the items, if it differs from that of the format."""
    note: str = ""
    """The part of the file that is missing, and the reason."""


class Unreadable(Exception):
    """A file that cannot be indexed; the message is the reason shown in the summary."""


def numbered(text: str) -> list[Line]:
    return [Line(number, line) for number, line in enumerate(text.split("\n"), start=1)]
