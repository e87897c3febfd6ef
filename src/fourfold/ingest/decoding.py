"""Bytes as text: by their mark, as UTF-8, as the file itself says, or by what they most look like."""

from __future__ import annotations

import codecs
import re
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAID: Final = {
    "html": re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{2,40})""", re.IGNORECASE),
    "code": re.compile(rb"\A(?:.*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]{2,40})"),
}
_REFUSED: Final = frozenset({"punycode", "idna", "utf-7", "unicode-escape", "raw-unicode-escape"})
"""Encodings of Python that no file is in; some take for ever."""
_HEAD: Final = 4096
_LOOKED_AT: Final = 64 * 1024
_CONTROL: Final = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_MOST_CONTROL: Final = 0.005
"""Share of control characters in what is still text."""


def decoded(data: bytes, kind: str) -> str | None:
    """The text, with \\n at the end of lines; None if these bytes are none."""
    text = _decoded(data, kind)
    if text is None or len(_CONTROL.findall(text, 0, _LOOKED_AT)) > _MOST_CONTROL * min(len(text), _LOOKED_AT):
        return None
    return _CONTROL.sub(" ", text).replace("\r\n", "\n").replace("\r", "\n")


def _decoded(data: bytes, kind: str) -> str | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _as(data, encoding)
    if b"\0" in data[: 2 * _HEAD]:
        return None
    text = _as(data, "utf-8")
    if text is not None:
        return text
    said = _SAID[kind].search(data[:_HEAD]) if kind in _SAID else None
    text = _as(data, said[1].decode("ascii", "replace")) if said else None
    return text if text is not None else _as(data, _likely(data[:_LOOKED_AT])) or _as(data, "cp1252")


def _as(data: bytes, encoding: str) -> str | None:
    try:
        return None if codecs.lookup(encoding).name in _REFUSED else data.decode(encoding)
    except (LookupError, ValueError):
        return None


def _likely(data: bytes) -> str:
    """Needs the extra `files`; without it, what is not UTF-8 is taken as Western European."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    best = from_bytes(data).best()
    return best.encoding if best is not None else "cp1252"
