"""What a file is, by its name."""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["markdown", "html", "pdf", "code", "text"]

_MARKDOWN = "md markdown mdown mkd mdx qmd"
_HTML = "html htm xhtml"
_CODE = """
    bash bat c cc cfg cjs clj cmake conf cpp cs css cxx dart ex exs fish go gradle groovy h hh hpp hs hxx ini java jl js
    jsx kt kts less lua m mjs ml mm nix php pl pm proto ps1 py pyi pyw r rb rs sass scala scss sh sql svelte swift tcl
    tf toml ts tsx vb vim vue xml yaml yml zig zsh
"""
_BINARY = """
    7z a aac abw avi avif bin bmp br bz2 cab class cr2 cur dat dll dmg doc docx ds_store dylib eot epub exe flac gif gz
    heic heif icns ico img iso jar jpeg jpg lib lz4 m4a m4v mid mkv mo mobi mov mp3 mp4 mpeg mpg msi npy npz o obj odp
    ods odt ogg ogv onnx opus otf parquet pickle pkl png ppt pptx psd pyc pyd pyo rar rpm so sqlite sqlite3 swf tar tif
    tiff ttf tgz war wasm wav webm webp whl wma wmv woff woff2 xls xlsx xz zip zst
"""

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(_MARKDOWN.split(), "markdown"),
    **dict.fromkeys(_HTML.split(), "html"),
    **dict.fromkeys(_CODE.split(), "code"),
    "pdf": "pdf",
}
BINARY: Final = frozenset(_BINARY.split())
"""Suffixes of files that hold no text; they are not opened."""


def suffix(name: str) -> str:
    """Without the dot, in lower case; empty if there is none."""
    stem, dot, last = name.rpartition(".")
    return last.lower() if dot and stem else ""


def kind_of(name: str) -> Kind:
    """What is not known is text, as long as its content is."""
    return _KINDS.get(suffix(name), "text")
