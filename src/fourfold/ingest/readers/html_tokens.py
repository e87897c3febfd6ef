"""HTML as tags and text, in one pass whose time grows with the length of the text, whatever is in it.

Python's own parser takes quadratic time for unclosed tags (`<a <a <a ...`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Final, NamedTuple

_TAG: Final = re.compile(r"</?([A-Za-z][^\s/>]{0,60})")
_TAG_STOP: Final = re.compile(r"[>\"']")
_ATTRIBUTE: Final = re.compile(r"""([^\s=/>"']+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+))?""")
_LONG_NUMBER: Final = re.compile(r"&#[0-9]{8,};?")
_RAW: Final = frozenset({"script", "style", "title", "textarea"})
"""Elements that hold text and no tags, up to their own end tag."""


class Token(NamedTuple):
    position: int
    tag: str
    """In lower case; empty for text."""
    content: str
    """Text, or what stands in a tag behind its name."""
    opens: bool = True
    closes: bool = False
    """An end tag closes, `<br/>` does both."""


def attribute(tag: Token, name: str) -> str:
    for found in _ATTRIBUTE.finditer(tag.content):
        if found[1].lower() == name:
            return decoded((found[2] or "").strip("\"'"))
    return ""


def decoded(text: str) -> str:
    """With the characters that references such as `&amp;` stand for."""
    return unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


def tokens(text: str) -> Iterator[Token]:
    scanner = _Scanner(text)
    start = place = 0
    while (place := text.find("<", place)) >= 0:
        end, token = scanner.markup(place)
        if end == place:
            place += 1  # a character like any other
            continue
        if start < place:
            yield Token(start, "", decoded(text[start:place]))
        start = place = end
        if token is not None:
            yield token
            if token.tag in _RAW and not token.closes:
                start = place = scanner.raw_end(token.tag, end)
                if end < start:
                    yield Token(end, "", text[end:start] if token.tag != "title" else decoded(text[end:start]))
    if start < len(text):
        yield Token(start, "", decoded(text[start:]))


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._unclosed: set[str] = set()
        """Elements without a further end tag."""
        self._quotes_hide = True
        """Until a quote is found that nothing closes: from there on, `>` ends a tag wherever it stands."""

    def markup(self, place: int) -> tuple[int, Token | None]:
        """Where the markup that begins here ends, and its tag if it is one; `place` itself if this is text."""
        text = self._text
        if text.startswith("<!--", place):
            end = text.find("-->", place + 4)
            return (len(text) if end < 0 else end + 3), None
        if text.startswith(("<!", "<?"), place):
            end = text.find(">", place)
            return (len(text) if end < 0 else end + 1), None
        found = _TAG.match(text, place)
        if found is None:
            return place, None
        end = self._tag_end(found.end())
        if end < 0:
            return len(text), None  # like a browser: a tag without an end is dropped
        inside = text[found.end() : end]
        closes = text[place + 1] == "/"
        return end + 1, Token(place, found[1].lower(), inside, not closes, closes or inside.endswith("/"))

    def raw_end(self, tag: str, place: int) -> int:
        """Where the end tag begins."""
        found = None if tag in self._unclosed else re.compile(f"</{tag}", re.IGNORECASE).search(self._text, place)
        if found is None:
            self._unclosed.add(tag)
            return place if tag in ("title", "textarea") else len(self._text)
        return found.start()

    def _tag_end(self, place: int) -> int:
        """Where the `>` of a tag stands; -1 if there is none. One within a quoted value does not count."""
        text, start = self._text, place
        while self._quotes_hide:
            stop = _TAG_STOP.search(text, place)
            if stop is None:
                break
            if stop[0] == ">":
                return stop.start()
            place = stop.end()
            if self._is_value(start, stop.start()):
                close = text.find(stop[0], place)
                if close < 0:
                    self._quotes_hide = False
                    break
                place = close + 1
        return text.find(">", start)

    def _is_value(self, start: int, place: int) -> bool:
        """Whether a quote begins a value: `=` stands before it."""
        before = place - 1
        while before > start and self._text[before].isspace():
            before -= 1
        return before >= start and self._text[before] == "="
