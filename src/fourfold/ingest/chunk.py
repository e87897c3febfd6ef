"""Sections as chunks: small enough for the model to read, whole enough to be understood alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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

    def title(self, document: str) -> str:
        """The way down to it."""
        way = self.headings[1:] if self.headings[:1] == (document,) else self.headings
        return _ARROW.join((document, *way))[:500]


def chunks(sections: Sequence[Section]) -> Iterator[Chunk]:
    """In the order of the file, without a gap but for blank lines."""
    for section in _joined(sections):
        for lines in _pieces([part for line in section.lines for part in _short(line)]):
            said = [place for place, line in enumerate(lines) if line.text.strip()]
            if said:
                kept = lines[said[0] : said[-1] + 1]
                text = "\n".join(line.text for line in kept)
                yield Chunk(section.headings, text, kept[0].number, kept[-1].number, section.metadata)


def _joined(sections: Sequence[Section]) -> Iterator[Section]:
    """Small neighbours as one, under the headings that they share."""
    pending: Section | None = None
    for section in sections:
        if pending is not None and _joinable(pending, section):
            pending = Section(_common(pending, section), pending.lines + section.lines, pending.metadata)
            continue
        if pending is not None:
            yield pending
        pending = section
    if pending is not None:
        yield pending


def _joinable(first: Section, second: Section) -> bool:
    return first.metadata == second.metadata and _length(first.lines) + _length(second.lines) <= _SMALL


def _common(first: Section, second: Section) -> tuple[str, ...]:
    """A section and those below it stay under its heading; the first of all has none above it."""
    shared: list[str] = []
    for one, other in zip(first.headings, second.headings, strict=False):
        if one != other:
            break
        shared.append(one)
    return tuple(shared)


def _length(lines: Sequence[Line]) -> int:
    return sum(len(line.text) + 1 for line in lines)


def _short(line: Line) -> Iterator[Line]:
    """A line that is longer than a chunk in parts, cut between words where there are any."""
    text = line.text.rstrip()
    while len(text) > CHUNK:
        cut = text.rfind(" ", CHUNK // 2, CHUNK) + 1 or CHUNK
        yield Line(line.number, text[:cut].rstrip())
        text = text[cut:]
    yield Line(line.number, text)


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
