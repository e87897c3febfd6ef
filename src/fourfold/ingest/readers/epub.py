"""EPUB: the chapters of a book in reading order, each read as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import dirname, join, normpath
from typing import Final
from urllib.parse import unquote

from fourfold.ingest.document import Document, Section, Unreadable
from fourfold.ingest.readers import html
from fourfold.ingest.readers.archive import Archive, attribute
from fourfold.ingest.reading import decoded

_CONTAINER: Final = "META-INF/container.xml"


def read(data: bytes, name: str) -> Document:
    archive = Archive(data)
    package = _Package()
    folder = package.read_from(archive)
    sections: list[Section] = []
    for number, item in enumerate(package.spine, start=1):
        path = normpath(join(folder, unquote(package.paths.get(item, ""))))
        if path not in archive:
            continue
        page = decoded(archive.read(path), "html")
        chapter = html.read(page or "", path)
        sections += [Section(part.headings, part.lines, {"chapter": number}) for part in chapter.sections]
    if not sections:
        raise Unreadable("EPUB without text")
    return Document(" ".join("".join(package.title).split())[:200], sections)


class _Package:
    def __init__(self) -> None:
        self.title: list[str] = []
        self.paths: dict[str, str] = {}
        """Id to path of each part."""
        self.spine: dict[str, None] = {}
        """Ids of the parts in reading order, each once."""
        self._in_title = False

    def read_from(self, archive: Archive) -> str:
        """Read the package; return the folder that paths are relative to."""
        roots: list[str] = []

        def start(tag: str, attributes: Mapping[str, str]) -> None:
            if tag == "rootfile":
                roots.append(attribute(attributes, "full-path"))

        archive.parse(_CONTAINER, start)
        if not roots:
            raise Unreadable("EPUB without a package")
        archive.parse(roots[0], self._start, self._end, self._text)
        return dirname(roots[0])

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "title":
            self._in_title = not self.title
        elif tag == "item":
            self.paths[attribute(attributes, "id")] = attribute(attributes, "href")
        elif tag == "itemref":
            self.spine[attribute(attributes, "idref")] = None

    def _end(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False

    def _text(self, text: str) -> None:
        if self._in_title:
            self.title.append(text)
