"""Conversion of a file's bytes to chunks. Runs in the reader's child process, and does not trust the file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from fourfold.ingest.document import Chunk, Document, Unreadable, chunks
from fourfold.ingest.formats import Format, format_of
from fourfold.limits import FILE_BYTES

FORMAT = "3"
"""Version of the conversion of files to items. After a change, the next run reads every file again."""


@dataclass(frozen=True, slots=True)
class ChunkedFile:
    document: Document
    """The document; its sections are already converted to chunks."""
    chunks: Sequence[Chunk]


def read(name: str, data: bytes, format_: Format | None = None) -> Document:
    """Read a document; raise Unreadable, or any other exception for a file that breaks its parser."""
    format_ = format_ or format_of(name)
    content: bytes | str | None = data if format_.packed else decoded(data, format_.kind)
    if content is None:
        raise Unreadable("no text in a known encoding")
    module, _, function = format_.reader.partition(".")
    return getattr(import_module(f"fourfold.ingest.readers.{module}"), function)(content, name)


def read_chunks(name: str, data: bytes, format_: Format | None = None) -> ChunkedFile:
    document = read(name, data, format_)
    found: list[Chunk] = []
    left = FILE_BYTES
    for chunk in chunks(document.sections):
        left -= len(chunk.text)
        if left < 0:
            raise Unreadable("contains more text than a file may have")
        found.append(chunk)
    if not found:
        raise Unreadable("only white space")
    return ChunkedFile(document, found)


# ---------------------------------------------------------------- bytes as text

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED: Final = {
    "html": re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{2,40})""", re.IGNORECASE),
    "code": re.compile(rb"\A(?:.*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]{2,40})"),
}
_UNSUPPORTED: Final = frozenset({"punycode", "idna", "utf-7", "unicode-escape", "raw-unicode-escape"})
"""Encodings of Python that no file has; some take extremely long."""
_HEAD_BYTES: Final = 4096
_SAMPLE_BYTES: Final = 64 * 1024
_CONTROL: Final = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROL_SHARE: Final = 0.005
"""Maximum share of control characters in text."""


def decoded(data: bytes, kind: str) -> str | None:
    """Decode by byte order mark, as UTF-8, as declared in the file, or by likelihood; None if it is not text.

    Lines end with \\n.
    """
    text = _decoded(data, kind)
    if text is None or len(_CONTROL.findall(text, 0, _SAMPLE_BYTES)) > _CONTROL_SHARE * min(len(text), _SAMPLE_BYTES):
        return None
    return _CONTROL.sub(" ", text).replace("\r\n", "\n").replace("\r", "\n")


def _decoded(data: bytes, kind: str) -> str | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _as(data, encoding)
    if b"\0" in data[: 2 * _HEAD_BYTES]:
        return None
    text = _as(data, "utf-8")
    if text is not None:
        return text
    declared = _DECLARED[kind].search(data[:_HEAD_BYTES]) if kind in _DECLARED else None
    text = _as(data, declared[1].decode("ascii", "replace")) if declared else None
    return text if text is not None else _as(data, _likely(data[:_SAMPLE_BYTES])) or _as(data, "cp1252")


def _as(data: bytes, encoding: str) -> str | None:
    try:
        return None if codecs.lookup(encoding).name in _UNSUPPORTED else data.decode(encoding)
    except (LookupError, ValueError):
        return None


def _likely(data: bytes) -> str:
    """Guess the encoding with the extra `files`; without it, assume Western European."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    best = from_bytes(data).best()
    return best.encoding if best is not None else "cp1252"
