"""PDF as a section a page. It is read by a process of its own, whose memory and time are bounded (extra `files`)."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec

from fourfold import child_process, limits
from fourfold.ingest.document import Document, Section, Unreadable, numbered

NO_EXTRA = "PDF needs an extra: pip install 'fourfold[files]'"


def can_read() -> bool:
    return find_spec("pypdf") is not None


def read(data: bytes) -> Document:
    title, pages = _pages(data)
    sections = [
        Section((f"page {number}",), numbered(text), {"page": number})
        for number, text in enumerate(pages, start=1)
        if text.strip()
    ]
    if not sections:
        raise Unreadable("PDF without text (scanned pages?)")
    return Document(title, sections)


def _pages(data: bytes) -> tuple[str, list[str]]:
    pipe = subprocess.PIPE
    with child_process.start("fourfold.ingest.readers.pdf_child", stdin=pipe, stdout=pipe) as child:
        try:
            output, _ = child.communicate(data, limits.PDF_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            raise Unreadable("PDF that takes too long to read") from None
    if child.returncode != 0:
        raise Unreadable("PDF that takes too much memory" if child.returncode == MEMORY else "PDF that cannot be read")
    try:
        said = json.loads(output)
        return said["title"], said["pages"]
    except (ValueError, KeyError):
        raise Unreadable("PDF that cannot be read") from None


MEMORY = 3
"""Exit code of the reading process."""
