"""HTML as lines of Markdown, each with the number of the line that it comes from, so that sections are cut alike."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

from fourfold.ingest.document import Document, Line, Section
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


def read(text: str) -> Document:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    reader.break_line()
    sections = sectioned(reader.lines)
    title = " ".join("".join(reader.title).split())[:200]
    return Document(title or _first(sections), [Section(part.headings, part.lines) for part in sections])


def _first(sections: list[Section]) -> str:
    return next((section.headings[0] for section in sections if section.headings), "")


class _Reader(HTMLParser):
    """Never fails: what is no HTML is text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[Line] = []
        self.title: list[str] = []
        self._parts: list[str] = []
        self._prefix = ""
        self._start = 1
        self._silent: list[str] = []
        self._in_title = False
        self._preformatted = 0
        self._links: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        if self._silent:
            return
        if tag == "title":
            self._in_title = not self.title
        elif tag in _BLOCKS:
            self._open_block(tag)
        elif tag == "a":
            href = next((value for name, value in attrs if name == "href" and value), "")
            self._links.append((href, len(self._parts)))
        elif tag == "code" and not self._preformatted:
            self._parts.append("`")

    def _open_block(self, tag: str) -> None:
        self.break_line()
        if tag in _LEVELS or tag in ("p", "pre", "ul", "ol", "table"):
            self._blank()
        if tag == "pre":
            self.lines.append(Line(self.getpos()[0], "```"))
            self._preformatted += 1
        self._prefix = _LEVELS.get(tag, "- " if tag == "li" else "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT and tag in self._silent:
            while self._silent.pop() != tag:
                pass
            return
        if self._silent:
            return
        if tag == "title":
            self._in_title = False
        elif tag in _BLOCKS:
            self._close_block(tag)
        elif tag == "a" and self._links:
            self._close_link()
        elif tag == "code" and not self._preformatted:
            self._parts.append("`")

    def _close_block(self, tag: str) -> None:
        self.break_line()
        if tag == "pre" and self._preformatted:
            self._preformatted -= 1
            self.lines.append(Line(self.getpos()[0], "```"))
        if tag in _LEVELS or tag == "p":
            self._blank()

    def _close_link(self) -> None:
        """As [label](target), which is what links are read from."""
        href, start = self._links.pop()
        label = " ".join("".join(self._parts[start:]).split())
        target = href.strip()
        if label and target and not re.search(r"[\s()<>]", target) and not set(label) & set("[]`"):
            spaced = " " if start < len(self._parts) and self._parts[start][:1].isspace() else ""
            self._parts[start:] = [f"{spaced}[{label}]({target})"]

    def handle_data(self, data: str) -> None:
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
            self._start = self.getpos()[0] + data[: len(data) - len(data.lstrip())].count("\n")

    def _preformat(self, data: str) -> None:
        first, *rest = data.split("\n")
        self._begin(first)
        self._parts.append(first)
        for offset, line in enumerate(rest, start=1):
            self.break_line()
            self._parts.append(line)
            self._start = self.getpos()[0] + offset

    def break_line(self) -> None:
        joined = "".join(self._parts)
        text = joined.rstrip() if self._preformatted else " ".join(joined.split())
        if text or (self._preformatted and self._parts):
            self.lines.append(Line(self._start, self._prefix + text))
            self._prefix = ""
        self._parts.clear()
        self._links.clear()

    def _blank(self) -> None:
        if self.lines and self.lines[-1].text:
            self.lines.append(Line(self.getpos()[0], ""))
