"""Reading of documents that are ZIP archives of XML (DOCX, EPUB), with limits and without entities."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Final
from xml.parsers import expat

from fourfold.ingest.document import Unreadable
from fourfold.limits import PACKED_FILE_BYTES

StartElement = Callable[[str, Mapping[str, str]], None]
_PARTS: Final = 10_000
"""Maximum number of files in an archive."""


class Archive:
    """Reads at most PACKED_FILE_BYTES of unpacked data."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(BytesIO(data))
        except (zipfile.BadZipFile, ValueError) as error:
            raise Unreadable("not a ZIP archive, as this format requires") from error
        if len(self._zip.namelist()) > _PARTS:
            raise Unreadable("an archive with too many files")
        self._left = PACKED_FILE_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def read(self, name: str) -> bytes:
        try:
            with self._zip.open(name) as part:
                data = part.read(self._left + 1)
        except KeyError:
            raise Unreadable(f"an archive without {name[:100]}") from None
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            raise Unreadable("a damaged or encrypted archive") from error
        self._left -= len(data)
        if self._left < 0:
            raise Unreadable("an archive that unpacks to too many bytes")
        return data

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


def local(name: str) -> str:
    return name.rpartition(":")[2]


def attribute(attributes: Mapping[str, str], name: str) -> str:
    return next((value for key, value in attributes.items() if local(key) == name), "")


def _refuse(*_: object) -> None:
    raise Unreadable("XML with a document type or entities")
