"""File formats by name, and the conversion of a file's bytes to chunks, which runs in the reader's child process.

A new format is a function `(content, name) -> Document` in a module of `readers/`, and a line in FORMATS.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Final, NamedTuple

from fourfold.ingest.document import Chunk, Document, Unreadable, chunks
from fourfold.limits import FILE_BYTES, PACKED_FILE_BYTES


class Format(NamedTuple):
    kind: str
    """Kind of the items made from such a file."""
    suffixes: str
    reader: str
    """A function of a module of `fourfold.ingest.readers`."""
    packed: bool = False
    """Whether the content is compressed: the reader takes bytes, and the file may be larger than a text file."""
    needs: str = ""
    """Module that the reader needs, which the extra `files` installs."""
    is_page: bool = True
    """Whether a file is known by its title rather than its file name."""

    @property
    def most_bytes(self) -> int:
        return PACKED_FILE_BYTES if self.packed else FILE_BYTES

    @property
    def is_readable(self) -> bool:
        return not self.needs or _is_installed(self.needs)

    @property
    def missing(self) -> str:
        return f"{self.kind.upper()} needs an extra: pip install 'fourfold[files]'"


_CODE = """
    bash bat c cc cfg cjs clj cmake conf cpp cs css cxx dart ex exs fish go gradle groovy h hh hpp hs hxx ini java jl js
    jsx kt kts less lua m mjs ml mm nix php pl pm proto ps1 py pyi pyw r rb rs sass scala scss sh sql svelte swift tcl
    tf toml ts tsx vb vim vue xml yaml yml zig zsh
"""
TEXT: Final = Format("text", "", "text.read", is_page=False)
"""Format of all other files whose content is text."""
FORMATS: Final = (
    Format("markdown", "md markdown mdown mkd mdx qmd", "markdown.read"),
    Format("html", "html htm xhtml", "html.read"),
    Format("rst", "rst rest", "text.read_rst"),
    Format("notebook", "ipynb", "markdown.read_notebook"),
    Format("pdf", "pdf", "packed.read_pdf", packed=True, needs="pypdf"),
    Format("docx", "docx", "packed.read_docx", packed=True),
    Format("epub", "epub", "packed.read_epub", packed=True),
    Format("table", "csv tsv", "text.read_table", is_page=False),
    Format("text", "jsonl", "text.read_chat", is_page=False),
    Format("code", _CODE, "code.read", is_page=False),
)
_BY_SUFFIX: Final = {suffix: format_ for format_ in FORMATS for suffix in format_.suffixes.split()}

_BINARY = """
    7z a aac abw avi avif bin bmp br bz2 cab class cr2 cur dat dll dmg doc ds_store dylib eot exe flac gif gz
    heic heif icns ico img iso jar jpeg jpg lib lz4 m4a m4v mid mkv mo mobi mov mp3 mp4 mpeg mpg msi npy npz o obj odp
    ods odt ogg ogv onnx opus otf parquet pickle pkl png ppt pptx psd pyc pyd pyo rar rpm so sqlite sqlite3 swf tar tif
    tiff ttf tgz war wasm wav webm webp whl wma wmv woff woff2 xls xlsx xz zip zst
"""
BINARY: Final = frozenset(_BINARY.split())
"""Suffixes of binary files, which are not opened."""


def suffix(name: str) -> str:
    """Return the suffix without the dot, in lower case; empty if there is none."""
    stem, dot, last = name.rpartition(".")
    return last.lower() if dot and stem else ""


def format_of(name: str) -> Format:
    return _BY_SUFFIX.get(suffix(name), TEXT)


def format_of_suffix(ending: str) -> Format:
    return _BY_SUFFIX.get(ending, TEXT)


@cache
def _is_installed(module: str) -> bool:
    return find_spec(module) is not None


# ---------------------------------------------------------------- bytes as chunks

FORMAT = "4"
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
    parts: list[Chunk] = []
    left = FILE_BYTES
    for chunk in chunks(document.sections):
        left -= len(chunk.text)
        if left < 0:
            raise Unreadable("contains more text than a file may have")
        parts.append(chunk)
    if not parts:
        raise Unreadable("only white space")
    return ChunkedFile(document, parts)


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
