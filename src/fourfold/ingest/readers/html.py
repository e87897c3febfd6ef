"""HTML as lines of Markdown, each with the number of the line that it comes from, so that sections are cut alike."""

from __future__ import annotations

import re
from typing import Final

from fourfold.ingest.document import Document, Line, Section
from fourfold.ingest.readers.html_tokens import Token, attribute, tokens
from fourfold.ingest.readers.markdown import sectioned

_SILENT_NAMES = "script style noscript template svg nav iframe object select button"
_BLOCK_NAMES = """
    address article aside blockquote body br caption center dd details div dl dt fieldset figcaption figure footer form
    h1 h2 h3 h4 h5 h6 header hr legend li main ol option p pre section summary table tbody td tfoot th thead tr ul
"""
_SILENT: Final = frozenset(_SILENT_NAMES.split())
_BLOCKS: Final = frozenset(_BLOCK_NAMES.split())
_LEVELS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_SPACE: Final = re.compile(r"\s+")


def read(text: str, name: str) -> Document:
    reader = _Reader(text)
    for token in tokens(text):
        reader.take(token)
    reader.break_line()
    sections = [Section(section.headings, section.lines) for section in sectioned(reader.lines)]
    title = " ".join("".join(reader.title).split())[:200]
    return Document(title or _first(sections), sections)


def _first(sections: list[Section]) -> str:
    return next((section.headings[0] for section in sections if section.headings), "")


class _Reader:
    """Never fails: what is not HTML is text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._counted = 1, 0
        """The number of the line of a position."""
        self.lines: list[Line] = []
        self.title: list[str] = []
        self._parts: list[str] = []
        self._prefix = ""
        self._start = 1
        self._silent = ""
        """The outermost element that is left out, and how often it is nested in itself."""
        self._silent_depth = 0
        self._in_title = False
        self._preformatted = 0
        self._link: tuple[str, int] | None = None
        """Where the open link leads, and the part that it begins with."""

    def take(self, token: Token) -> None:
        self._line += self._text.count("\n", self._counted, token.position)
        self._counted = token.position
        if not token.tag:
            self._data(token.content)
        elif self._silent or token.tag in _SILENT:
            self._pass_over(token)
        else:
            if token.opens:
                self._open(token)
            if token.closes:
                self._close(token.tag)

    def _pass_over(self, token: Token) -> None:
        if not self._silent and token.opens:
            self._silent = token.tag
        if token.tag == self._silent:
            self._silent_depth += token.opens - token.closes
            if self._silent_depth <= 0:
                self._silent, self._silent_depth = "", 0

    def _open(self, token: Token) -> None:
        tag = token.tag
        if tag == "title":
            self._in_title = not self.title
        elif tag in _BLOCKS:
            self._open_block(tag)
        elif tag == "a":
            self._link = attribute(token, "href"), len(self._parts)
        elif tag == "code" and not self._preformatted:
            self._parts.append("`")

    def _open_block(self, tag: str) -> None:
        self.break_line()
        if tag in _LEVELS or tag in ("p", "pre", "ul", "ol", "table"):
            self._blank()
        if tag == "pre":
            self.lines.append(Line(self._line, "```"))
            self._preformatted += 1
        self._prefix = _LEVELS.get(tag, "- " if tag == "li" else "")

    def _close(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _BLOCKS:
            self._close_block(tag)
        elif tag == "a":
            self._close_link()
        elif tag == "code" and not self._preformatted:
            self._parts.append("`")

    def _close_block(self, tag: str) -> None:
        self.break_line()
        if tag == "pre" and self._preformatted:
            self._preformatted -= 1
            self.lines.append(Line(self._line, "```"))
        if tag in _LEVELS or tag == "p":
            self._blank()

    def _close_link(self) -> None:
        """As [label](target), which is what links are read from."""
        if self._link is None:
            return
        (href, start), self._link = self._link, None
        label = " ".join("".join(self._parts[start:]).split())
        target = href.strip()
        if label and target and not re.search(r"[\s()<>]", target) and not set(label) & set("[]`"):
            spaced = " " if start < len(self._parts) and self._parts[start][:1].isspace() else ""
            self._parts[start:] = [f"{spaced}[{label}]({target})"]

    def _data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif self._silent:
            return
        elif self._preformatted:
            self._preformat(data)
        elif data.strip() or self._parts:
            self._begin(data)
            self._parts.append(_SPACE.sub(" ", data))

    def _begin(self, data: str) -> None:
        if not self._parts:
            self._start = self._line + data[: len(data) - len(data.lstrip())].count("\n")

    def _preformat(self, data: str) -> None:
        first, *rest = data.split("\n")
        self._begin(first)
        self._parts.append(first)
        for offset, line in enumerate(rest, start=1):
            self.break_line()
            self._parts.append(line)
            self._start = self._line + offset

    def break_line(self) -> None:
        joined = "".join(self._parts)
        text = joined.rstrip() if self._preformatted else " ".join(joined.split())
        if text or (self._preformatted and self._parts):
            self.lines.append(Line(self._start, self._prefix + text))
            self._prefix = ""
        self._parts.clear()
        self._link = None

    def _blank(self) -> None:
        if self.lines and self.lines[-1].text:
            self.lines.append(Line(self._line, ""))
