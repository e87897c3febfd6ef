"""File formats by name, and their readers.

A new format is a function `(content, name) -> Document` in a module of `readers/`, and a line in FORMATS.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Final, NamedTuple

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
