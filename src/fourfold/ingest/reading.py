"""A file's bytes as a document, and a document as items."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from fourfold import items as rules
from fourfold.errors import InvalidItem
from fourfold.ingest.chunk import Chunk, chunks
from fourfold.ingest.decoding import decoded
from fourfold.ingest.document import Document, Unreadable
from fourfold.ingest.kinds import Kind, kind_of
from fourfold.ingest.readers import code, html, markdown, pdf, plain
from fourfold.model import Json, NewItem

FORMAT = "1"
"""Of what this package makes of a file. A new one makes the next run look into every file again."""

_LANGUAGE_OF_CODE = "en"
"""Identifiers and keywords are English, whatever the comments are; detecting it would find a dozen languages."""


def read(name: str, data: bytes) -> Document:
    """Unreadable if there is no text in it."""
    kind = kind_of(name)
    if kind == "pdf":
        return pdf.read(data)
    text = decoded(data, kind)
    if text is None:
        raise Unreadable("no text in a known encoding")
    match kind:
        case "markdown":
            return markdown.read(text)
        case "html":
            return html.read(text)
        case "code":
            return code.read(text, name)
        case _:
            return plain.read(text)


def items(path: str, data: bytes, mtime_ns: int) -> list[NewItem]:
    """The checked chunks of a file; Unreadable if nothing of it can be stored."""
    name = path.rpartition("/")[2]
    document = read(name, data)
    found = list(chunks(document.sections))
    if not found:
        raise Unreadable("nothing but white space")
    maker = _Maker(path, document, kind_of(name), _moment(mtime_ns))
    try:
        return [maker.item(number, chunk) for number, chunk in enumerate(found)]
    except InvalidItem as error:
        raise Unreadable(f"cannot be stored: {error.message}") from error


class _Maker:
    def __init__(self, path: str, document: Document, kind: Kind, created: datetime | None) -> None:
        self._path = path
        self._document = document
        self._kind = kind
        self._created = created
        self._stem = stem(path)
        self._title = document.title or (path.rpartition("/")[2] if kind in ("code", "text") else self._stem)

    def item(self, number: int, chunk: Chunk) -> NewItem:
        title = self._title if number == 0 else chunk.title(self._title)
        return rules.checked(
            NewItem(
                text=chunk.text,
                title=title,
                tags=self._document.tags,
                kind=self._kind,
                metadata=self._metadata(number, chunk),
                language=_LANGUAGE_OF_CODE if self._kind == "code" else None,
                created_at=self._created,
                path=self._path,
                chunk_index=number,
            )
        )

    def _metadata(self, number: int, chunk: Chunk) -> Mapping[str, Json]:
        """The first chunk stands for the file: it has the names that the file is known by, beside its title."""
        aliases = [name for name in dict.fromkeys((self._stem, *self._document.aliases)) if name != self._title]
        page = self._kind in ("markdown", "html", "pdf")
        names = {"aliases": aliases} if number == 0 and page and aliases else {}
        place: Mapping[str, Json] = chunk.metadata or {"line": chunk.first, "end_line": chunk.last}
        return {**self._document.metadata, **names, **place}


def stem(path: str) -> str:
    """The name of the file without its suffix."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _moment(mtime_ns: int) -> datetime | None:
    """None for a time that no calendar has."""
    try:
        return datetime.fromtimestamp(mtime_ns // 1000 / 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
