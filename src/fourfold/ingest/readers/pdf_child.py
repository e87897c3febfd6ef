"""Reads a PDF from stdin and prints {"title", "pages"}: the process that pays for what a PDF may do."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from io import BytesIO

from fourfold.ingest.readers.pdf import MEMORY
from fourfold.limits import FILE_BYTES, PDF_MEMORY


def main() -> int:
    _bound_memory()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    try:
        from pypdf import PdfReader
        from pypdf.errors import LimitReachedError

        try:
            reader = PdfReader(BytesIO(sys.stdin.buffer.read()))
            if reader.is_encrypted and not reader.decrypt(""):
                return 1
            title = (reader.metadata.title if reader.metadata is not None else "") or ""
            said = {"title": _storable(" ".join(str(title).split())[:200]), "pages": list(_pages(reader))}
        except LimitReachedError:
            return MEMORY
    except MemoryError:
        return MEMORY
    except Exception:  # noqa: BLE001  a broken file may break the parser anywhere; the parent says so
        return 1
    sys.stdout.write(json.dumps(said))
    return 0


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows: only the time is bounded there
        return
    resource.setrlimit(resource.RLIMIT_AS, (PDF_MEMORY, PDF_MEMORY))


def _pages(reader: object) -> Iterator[str]:
    left = FILE_BYTES
    for page in getattr(reader, "pages", ()):
        text = _storable(page.extract_text())[:left]
        left -= len(text)
        yield text
        if left <= 0:
            return


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
