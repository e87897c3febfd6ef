"""Documents, which the reader of every format returns, and their chunks.

A chunk is small enough for the model and large enough to be understood alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, NamedTuple

from fourfold.model import Json

# ---------------------------------------------------------------- documents


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


# ---------------------------------------------------------------- chunks

CHUNK_TOKENS: Final = 220
"""Maximum size of a chunk: with its title it is one window of the built-in encoder, so that it has one vector."""
_JOINED_TOKENS: Final = 90
"""Maximum size of neighbouring sections that are joined into one chunk."""
_TOKEN: Final = re.compile(
    r"[a-zA-Z\u00c0-\u024f]{1,6}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]{1,4}|\d{1,3}|[^\w\s]|_|[^\S\n]{16}"
)
"""Stands for one token of the encoder, whose vocabulary the reader does not load; much white space counts, too."""
_ARROW: Final = " › "


@dataclass(frozen=True, slots=True)
class Chunk:
    headings: tuple[str, ...]
    text: str
    first: int
    last: int
    metadata: Mapping[str, Json]
    tags: tuple[str, ...] = ()

    def title(self, document: str) -> str:
        """Title of the document and the headings above the chunk."""
        path = self.headings[1:] if self.headings[:1] == (document,) else self.headings
        return _ARROW.join((document, *path))[:500]


def chunks(sections: Sequence[Section]) -> Iterator[Chunk]:
    """Yield chunks in the order of the file; only blank lines are left out."""
    for section in _joined(sections):
        tags = _tags_by_line(section)
        for lines in _pieces([part for line in section.lines for part in _short(line)]):
            filled = [index for index, line in enumerate(lines) if line.text.strip()]
            if filled:
                kept = lines[filled[0] : filled[-1] + 1]
                text = "\n".join(line.text for line in kept)
                candidates = _tags_of(kept, tags) if tags else ()
                own_tags = tuple(tag for tag in candidates if f"#{tag}" in text)
                yield Chunk(section.headings, text, kept[0].number, kept[-1].number, section.metadata, own_tags)


def _tags_by_line(section: Section) -> dict[int, list[str]]:
    by_line: dict[int, list[str]] = {}
    for line, tag in section.tags:
        by_line.setdefault(line, []).append(tag)
    return by_line


def _tags_of(lines: Sequence[Line], tags: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """The distinct tags of these lines."""
    numbers = dict.fromkeys(line.number for line in lines)
    return iter(dict.fromkeys(tag for number in numbers for tag in tags.get(number, ())))


def _joined(sections: Sequence[Section]) -> Iterator[Section]:
    """Join small neighbouring sections under the headings they share."""
    group: list[Section] = []
    size = 0
    for section in sections:
        length = sum(tokens(line.text) for line in section.lines)
        if group and (size + length > _JOINED_TOKENS or section.metadata != group[0].metadata):
            yield _as_one(group)
            group, size = [], 0
        group.append(section)
        size += length
    if group:
        yield _as_one(group)


def _as_one(group: Sequence[Section]) -> Section:
    if len(group) == 1:
        return group[0]
    lines = [line for section in group for line in section.lines]
    tags = tuple(use for section in group for use in section.tags)
    headings = reduce(_common, (section.headings for section in group))
    return Section(headings, lines, group[0].metadata, tags)


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """The headings that both paths start with."""
    shared: list[str] = []
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        shared.append(one)
    return tuple(shared)


def _short(line: Line) -> Iterator[Line]:
    """Split a line that is longer than a chunk, between words if possible."""
    text = line.text.rstrip()
    ends = [token.end() for token in _TOKEN.finditer(text)] if len(text) > CHUNK_TOKENS else []
    start = first = 0
    while len(ends) - first > CHUNK_TOKENS:
        middle, end = ends[first + CHUNK_TOKENS // 2], ends[first + CHUNK_TOKENS - 1]
        cut = text.rfind(" ", middle, end) + 1 or end
        yield Line(line.number, text[start:cut].rstrip())
        start, first = cut, bisect_right(ends, cut)
    yield Line(line.number, text[start:])


def tokens(text: str) -> int:
    return len(_TOKEN.findall(text))


def _pieces(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Runs of lines that fit into a chunk, split at the last blank line in its second half, else anywhere."""
    start = 0
    sizes = [tokens(line.text) for line in lines]
    while start < len(lines):
        end, size, blank = start, 0, start
        while end < len(lines) and size + sizes[end] <= CHUNK_TOKENS:
            size += sizes[end]
            end += 1
            if size > CHUNK_TOKENS // 2 and end < len(lines) and not lines[end].text.strip():
                blank = end
        if end < len(lines) and blank > start:
            end = blank
        yield lines[start:end]
        start = end
