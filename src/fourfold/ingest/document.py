"""A file as sections: what readers of every format make, and what chunks are cut from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fourfold.model import Json


class Line(NamedTuple):
    number: int
    """In the file, from 1."""
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    headings: tuple[str, ...]
    """The way down to it, without the document's title."""
    lines: list[Line]
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    """Empty: the file's name stands for it."""
    sections: list[Section]
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])


class Unreadable(Exception):
    """A file of which nothing can be stored; the text says why, for the summary."""


def numbered(text: str) -> list[Line]:
    return [Line(number, line) for number, line in enumerate(text.split("\n"), start=1)]
