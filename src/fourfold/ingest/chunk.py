"""Sections as chunks: small enough for the model to read, whole enough to be understood alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from fourfold.ingest.document import Line, Section
from fourfold.model import Json

CHUNK: Final = 1200
"""Characters. The built-in model reads about as much."""
_SMALL: Final = 400
"""Neighbouring sections that are together no longer than this become one chunk."""
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
        """The way down to it."""
        way = self.headings[1:] if self.headings[:1] == (document,) else self.headings
        return _ARROW.join((document, *way))[:500]


def chunks(sections: Sequence[Section]) -> Iterator[Chunk]:
    """In the order of the file, without a gap but for blank lines."""
    for section in _joined(sections):
        tags = _tags_by_line(section)
        for lines in _pieces([part for line in section.lines for part in _short(line)]):
            said = [place for place, line in enumerate(lines) if line.text.strip()]
            if said:
                kept = lines[said[0] : said[-1] + 1]
                text = "\n".join(line.text for line in kept)
                written = _tags_of(kept, tags) if tags else ()
                found = tuple(tag for tag in written if f"#{tag}" in text)
                yield Chunk(section.headings, text, kept[0].number, kept[-1].number, section.metadata, found)


def _tags_by_line(section: Section) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for line, tag in section.tags:
        found.setdefault(line, []).append(tag)
    return found


def _tags_of(lines: Sequence[Line], tags: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Each once."""
    numbers = dict.fromkeys(line.number for line in lines)
    return iter(dict.fromkeys(tag for number in numbers for tag in tags.get(number, ())))


def _joined(sections: Sequence[Section]) -> Iterator[Section]:
    """Small neighbours as one, under the headings that they share."""
    group: list[Section] = []
    size = 0
    for section in sections:
        length = sum(len(line.text) + 1 for line in section.lines)
        if group and (size + length > _SMALL or section.metadata != group[0].metadata):
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
    """A section and those below it stay under its heading; the first of all has none above it."""
    shared: list[str] = []
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        shared.append(one)
    return tuple(shared)


def _short(line: Line) -> Iterator[Line]:
    """A line that is longer than a chunk in parts, cut between words where there are any."""
    text = line.text.rstrip()
    start = 0
    while len(text) - start > CHUNK:
        cut = text.rfind(" ", start + CHUNK // 2, start + CHUNK) + 1 or start + CHUNK
        yield Line(line.number, text[start:cut].rstrip())
        start = cut
    yield Line(line.number, text[start:])


def _pieces(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Runs of lines that fit into a chunk, cut at the last blank line in its second half, else anywhere."""
    start = 0
    while start < len(lines):
        end, size, blank = start, 0, start
        while end < len(lines) and size + len(lines[end].text) <= CHUNK:
            size += len(lines[end].text) + 1
            end += 1
            if size > CHUNK // 2 and end < len(lines) and not lines[end].text.strip():
                blank = end
        if end < len(lines) and blank > start:
            end = blank
        yield lines[start:end]
        start = end
