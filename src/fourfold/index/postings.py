"""Files of postings: for each term the published rows that contain it, and how often.

Each file has the postings of adjacent rows. Publications write a new one, and merge the last ones into it where that
is cheap, so that a search reads few files. A file is a series of blocks, each for a range of term hashes, so that
making them takes little memory; the numbers of a block are stored before its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fourfold.index.segment_files import Column, Damaged, Manifest, Part
from fourfold.native.bindings import Block, Postings, invert

if TYPE_CHECKING:
    from fourfold.index.rows import Ints, Terms

_NAME: Final = "postings"
_BLOCK_TERMS: Final = 1 << 22
"""Occurrences of terms that are sorted at a time."""
_HASHES: Final = 1 << 32
_LARGER: Final = 2
"""A file is merged with the next one unless it has more than this many times the rows."""
_ALIGNMENT: Final = 8
_HEADER: Final = 4
"""Numbers before the columns: first row, end row, terms, postings."""


class Span(NamedTuple):
    """The rows of a file, which is named by them."""

    first_row: int
    end_row: int

    @property
    def name(self) -> str:
        return f"{_NAME}-{self.first_row}-{self.end_row}"


def spans(manifest: Manifest | None) -> list[Span]:
    """The files of a publication, ordered by their rows. Raises Damaged if they do not have every row once."""
    names = [name.split("-") for name in (manifest.parts if manifest is not None else ()) if name.startswith(_NAME)]
    found = sorted(Span(int(first), int(end)) for _, first, end in names)
    bounds = [0, *(span.end_row for span in found)]
    if [span.first_row for span in found] != bounds[:-1] or bounds[-1] != (0 if manifest is None else manifest.rows):
        raise Damaged("postings of some rows are missing")
    return found


def continued(known: list[Span], end_row: int) -> tuple[list[Span], Span]:
    """The files to keep when rows up to `end_row` are added, and the one to write."""
    kept = list(known)
    first = kept[-1].end_row if kept else 0
    while kept and kept[-1].end_row - kept[-1].first_row <= _LARGER * (end_row - first):
        first = kept.pop().first_row
    return kept, Span(first, end_row)


def write(folder: Path, span: Span, terms: Terms, ends: Ints) -> Part:
    """Writes the postings of some rows from the terms of all rows."""
    with closing(Column(folder / span.name, Part())) as file:
        for block in _made(span, terms, ends):
            file.append(np.array([*span, len(block.hashes), len(block.rows)], np.int64))
            for column in (block.hashes, block.ends, block.rows, block.counts):
                file.append(column)
            file.append(np.zeros(-_size(len(block.hashes), len(block.rows)) % _ALIGNMENT, np.uint8))
        file.sync()
        return file.part


def _made(span: Span, terms: Terms, ends: Ints) -> Iterator[Block]:
    count = int(ends[span.end_row - 1]) - (int(ends[span.first_row - 1]) if span.first_row else 0)
    pieces = max(1, -(-count // _BLOCK_TERMS))
    bounds = [_HASHES * piece // pieces for piece in range(pieces + 1)]
    for lowest, end in pairwise(bounds):
        yield invert(terms, ends, *span, lowest, end - 1)


def agree(postings: Postings, terms: Terms, ends: Ints) -> bool:
    """Whether the postings are those of these terms."""
    found = dict.fromkeys(Span(block.first_row, block.end_row) for block in postings.blocks)
    expected = (block for span in found for block in _made(span, terms, ends))
    return all(
        block is not None and true is not None and all(map(np.array_equal, block, true))
        for block, true in zip_longest(postings.blocks, expected)
    )


def _size(terms: int, postings: int) -> int:
    return 8 * terms + 5 * postings


def read(folder: Path, files: Iterable[Span], manifest: Manifest) -> Postings:
    """Maps the postings. Raises Damaged if a file does not have the form of one."""
    return Postings([block for span in files for block in _blocks(folder, span, manifest.parts[span.name].size)])


def _blocks(folder: Path, span: Span, size: int) -> Iterator[Block]:
    content = np.asarray(np.memmap(folder / span.name, np.uint8, "r", shape=(size,))) if size else np.empty(0, np.uint8)
    at = 0
    while at < size:
        if at + 8 * _HEADER > size:
            raise Damaged(f"{span.name} ends within a block")
        *rows, terms, postings = content[at : at + 8 * _HEADER].view(np.int64).tolist()
        at += 8 * _HEADER
        if tuple(rows) != span or min(terms, postings) < 0 or _size(terms, postings) > size - at:
            raise Damaged(f"{span.name} has a block of other rows, or ends within one")
        columns: list[Terms] = []
        for length in (terms, terms, postings):
            columns.append(content[at : at + 4 * length].view(np.uint32))
            at += 4 * length
        hashes, ends, found = columns
        yield Block(*span, hashes, ends, found, content[at : at + postings])
        at += postings + -_size(terms, postings) % _ALIGNMENT
