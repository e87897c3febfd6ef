"""PDF: a section for each page (extra `files`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Final

from fourfold.ingest.document import Document, Section, Unreadable, numbered
from fourfold.limits import FILE_BYTES, cpu_seconds_for

_TIME_SHARE: Final = 0.7
"""Share of the CPU time for a file in which pages are read; the rest is for splitting them into chunks."""


def read(data: bytes, name: str) -> Document:
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
