"""A file as sections: what the reader of every format returns, and what chunks are cut from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fourfold.model import Json


class Line(NamedTuple):
    number: int
    """In the file, from 1."""
    text: str


class TagUse(NamedTuple):
    line: int
    tag: str


@dataclass(frozen=True, slots=True)
class Section:
    headings: tuple[str, ...]
    """The way down to it, without the document's title."""
    lines: Sequence[Line]
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    tags: tuple[TagUse, ...] = ()
    """Tags that are written in its lines."""


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    """Empty: the file's name stands for it."""
    sections: Sequence[Section]
    tags: tuple[str, ...] = ()
    """Tags of the whole file."""
    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    unit: str = "line"
    """What the numbers of lines count."""
    kind: str = ""
    """Where it is another than that of the format."""
    note: str = ""
    """What of the file is missing here, and why."""


class Unreadable(Exception):
    """A file of which nothing can be stored; the text says why, for the summary."""


def numbered(text: str) -> list[Line]:
    return [Line(number, line) for number, line in enumerate(text.split("\n"), start=1)]
