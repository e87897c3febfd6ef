"""Packed documents: DOCX and EPUB, which are ZIP archives of XML, and PDF; with limits and without entities."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from posixpath import dirname, join, normpath
from typing import Final
from urllib.parse import unquote
from xml.parsers import expat

from fourfold import bounded
from fourfold.ingest.document import Document, Line, Section, Unreadable, numbered
from fourfold.ingest.formats import decoded
from fourfold.ingest.readers import html
from fourfold.ingest.readers.markdown import first_title, sectioned
from fourfold.limits import FILE_BYTES, PACKED_FILE_BYTES, cpu_seconds_for

# ---------------------------------------------------------------- archives of XML

StartElement = Callable[[str, Mapping[str, str]], None]


class Archive:
    """Reads at most PACKED_FILE_BYTES of unpacked data."""

    def __init__(self, data: bytes) -> None:
        with _readable():
            self._parts = bounded.Archive(BytesIO(data), len(data), PACKED_FILE_BYTES)
        self._names = frozenset(self._parts.names())

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def read(self, name: str) -> bytes:
        if name not in self._names:
            raise Unreadable(f"an archive without {name[:100]}")
        with _readable():
            return self._parts.read(name)

    def parse(
        self,
        name: str,
        start: StartElement,
        end: Callable[[str], None] | None = None,
        text: Callable[[str], None] | None = None,
    ) -> None:
        """Call these functions for the elements of a part, with names without namespace prefix."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse
        parser.EntityDeclHandler = _refuse
        parser.StartElementHandler = lambda tag, attributes: start(local(tag), attributes)
        if end is not None:
            parser.EndElementHandler = lambda tag: end(local(tag))
        if text is not None:
            parser.CharacterDataHandler = text
        try:
            parser.Parse(self.read(name), True)
        except expat.ExpatError as error:
            raise Unreadable(f"malformed XML in {name[:100]}") from error


@contextmanager
def _readable() -> Generator[None]:
    try:
        yield
    except bounded.Unbounded as error:
        raise Unreadable(str(error)) from error


def local(name: str) -> str:
    return name.rpartition(":")[2]


def attribute(attributes: Mapping[str, str], name: str) -> str:
    return next((value for key, value in attributes.items() if local(key) == name), "")


def _refuse(*_: object) -> None:
    raise Unreadable("XML with a document type or entities")


# ---------------------------------------------------------------- DOCX

_BODY: Final = "word/document.xml"
_STYLES: Final = "word/styles.xml"
_PROPERTIES: Final = "docProps/core.xml"
_HEADING: Final = re.compile(r"heading ([1-6])$", re.IGNORECASE)


def read_docx(data: bytes, name: str) -> Document:
    """Read a document whose line numbers are those of paragraphs."""
    archive = Archive(data)
    reader = _Body(_heading_levels(archive) if _STYLES in archive else {})
    archive.parse(_BODY, reader.start, reader.end, reader.text)
    sections = sectioned(reader.lines)
    return Document(_title(archive) or first_title(sections), sections, unit="paragraph")


def _heading_levels(archive: Archive) -> dict[str, int]:
    """Map the id of each heading style to its level. Ids depend on the language of Word, names do not."""
    levels: dict[str, int] = {}
    style = ""

    def start(tag: str, attributes: Mapping[str, str]) -> None:
        nonlocal style
        if tag == "style":
            style = attribute(attributes, "styleId")
        elif tag == "name" and style:
            spelled = attribute(attributes, "val")
            match = _HEADING.match(spelled)
            if match or spelled.lower() == "title":
                levels[style] = int(match[1]) if match else 1

    archive.parse(_STYLES, start)
    return levels


def _title(archive: Archive) -> str:
    parts: list[str] = []
    in_title = False

    def start(tag: str, _: Mapping[str, str]) -> None:
        nonlocal in_title
        in_title = tag == "title"

    def end(_: str) -> None:
        nonlocal in_title
        in_title = False

    if _PROPERTIES in archive:
        archive.parse(_PROPERTIES, start, end, lambda text: parts.append(text) if in_title else None)
    return " ".join("".join(parts).split())[:200]


class _Body:
    def __init__(self, levels: Mapping[str, int]) -> None:
        self.lines: list[Line] = []
        self._levels = levels
        self._parts: list[str] = []
        self._cells: list[str] = []
        self._row_depth = 0
        self._level = 0
        self._is_item = False
        self._is_text = False
        self._paragraph = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        match tag:
            case "p":
                self._paragraph += 1
                self._level, self._is_item = 0, False
            case "pStyle":
                self._level = self._levels.get(attribute(attributes, "val"), 0)
            case "numPr":
                self._is_item = True
            case "t":
                self._is_text = True
            case "tab" | "br":
                self._parts.append(" ")
            case "tr":
                self._row_depth += 1
            case _:
                pass

    def text(self, text: str) -> None:
        if self._is_text:
            self._parts.append(text)

    def end(self, tag: str) -> None:
        match tag:
            case "t":
                self._is_text = False
            case "p":
                self._end_paragraph()
            case "tr":
                self._row_depth -= 1
                if self._row_depth == 0:
                    self._add(" | ".join(self._cells))
                    self._cells.clear()
            case "tbl":
                self._add("")
            case _:
                pass

    def _end_paragraph(self) -> None:
        text = " ".join("".join(self._parts).split())
        self._parts.clear()
        if self._row_depth:
            if text:
                self._cells.append(text)
        elif self._level and text:
            self._add(f"{'#' * self._level} {text}")
        else:
            self._add(f"- {text}" if self._is_item and text else text)
            if not self._is_item:
                self._add("")

    def _add(self, text: str) -> None:
        self.lines.append(Line(self._paragraph, text))


# ---------------------------------------------------------------- EPUB

_CONTAINER: Final = "META-INF/container.xml"


def read_epub(data: bytes, name: str) -> Document:
    """Read the chapters of a book in reading order, each as HTML."""
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


# ---------------------------------------------------------------- PDF

_TIME_SHARE: Final = 0.7
"""Share of the CPU time for a file in which pages are read; the rest is for splitting them into chunks."""


def read_pdf(data: bytes, name: str) -> Document:
    """Each page is a section (extra `files`)."""
    from pypdf import PdfReader

    until = time.process_time() + _TIME_SHARE * cpu_seconds_for(len(data))
    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("PDF with a password")
    title = (reader.metadata.title if reader.metadata is not None else "") or ""
    count = len(reader.pages)
    pages = list(_texts((page.extract_text() for page in reader.pages), until))
    sections = [
        Section((f"page {number}",), numbered(text), {"page": number})
        for number, text in enumerate(pages, start=1)
        if text.strip()
    ]
    if not sections:
        raise Unreadable("PDF without text (scanned pages?)")
    note = "PDF read in part: the remaining pages take too long" if len(pages) < count else ""
    return Document(_storable(" ".join(str(title).split())[:200]), sections, note=note)


def _texts(pages: Iterable[str], until: float) -> Iterator[str]:
    left = FILE_BYTES
    for page in pages:
        text = _storable(page)[:left]
        left -= len(text)
        yield text
        if left <= 0 or time.process_time() > until:
            return


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
