"""A file's bytes as titled chunks. This runs in the reader's child process; nothing here trusts the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from fourfold.ingest.chunk import Chunk, chunks
from fourfold.ingest.decoding import decoded
from fourfold.ingest.document import Document, Unreadable
from fourfold.ingest.formats import Format, format_of
from fourfold.limits import FILE_BYTES

FORMAT = "2"
"""Version of what this package makes of a file. A new one makes the next run look into every file again."""


@dataclass(frozen=True, slots=True)
class CutFile:
    """What is known of a file without its path and time."""

    document: Document
    """Its sections are not used any more."""
    chunks: Sequence[Chunk]


def read(name: str, data: bytes, format_: Format | None = None) -> Document:
    """Raises Unreadable if there is no text in it; any other exception means the same."""
    format_ = format_ or format_of(name)
    content: bytes | str | None = data if format_.packed else decoded(data, format_.kind)
    if content is None:
        raise Unreadable("no text in a known encoding")
    return import_module(f"fourfold.ingest.readers.{format_.reader}").read(content, name)


def cut(name: str, data: bytes, format_: Format | None = None) -> CutFile:
    document = read(name, data, format_)
    found: list[Chunk] = []
    left = FILE_BYTES
    for chunk in chunks(document.sections):
        left -= len(chunk.text)
        if left < 0:
            raise Unreadable("unpacks to more text than a file may have")
        found.append(chunk)
    if not found:
        raise Unreadable("nothing but white space")
    return CutFile(document, found)
