"""Parts of documents that are ZIP archives of XML (DOCX, EPUB): bounded, and without entities."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Final
from xml.parsers import expat

from fourfold.ingest.document import Unreadable
from fourfold.limits import PACKED_FILE_BYTES

StartElement = Callable[[str, Mapping[str, str]], None]
_PART_NAMES: Final = 10_000


class Archive:
    """Reads at most as many bytes as an archive may have itself, whatever they unpack to."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(BytesIO(data))
        except (zipfile.BadZipFile, ValueError) as error:
            raise Unreadable("not a ZIP archive, as this format has to be") from error
        if len(self._zip.namelist()) > _PART_NAMES:
            raise Unreadable("an archive of too many parts")
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
            raise Unreadable("an archive that unpacks to too much")
        return data

    def parse(
        self,
        name: str,
        start: StartElement,
        end: Callable[[str], None] | None = None,
        text: Callable[[str], None] | None = None,
    ) -> None:
        """Calls these for the elements of a part; their names are without a namespace prefix."""
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
            raise Unreadable(f"XML that is not well-formed in {name[:100]}") from error


def local(name: str) -> str:
    return name.rpartition(":")[2]


def attribute(attributes: Mapping[str, str], name: str) -> str:
    return next((value for key, value in attributes.items() if local(key) == name), "")


def _refuse(*_: object) -> None:
    raise Unreadable("XML with a document type or entities")
