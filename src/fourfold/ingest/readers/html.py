"""HTML, converted to lines of Markdown with their line numbers in the source, and split into sections like Markdown.

A page is read without what all pages of a site repeat: menus, search forms and other landmarks, permalinks, and the
site's name in the title. If a page marks its main content, only that is read.

The tokenizer takes linear time; Python's own parser takes quadratic time for unclosed tags (`<a <a <a ...`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Final, NamedTuple

from fourfold.ingest.document import Document, Line, Section
from fourfold.ingest.readers.markdown import sectioned

_SILENT_NAMES = "script style noscript template svg nav iframe object select button"
_BLOCK_NAMES = """
    address article aside blockquote body br caption center dd details div dl dt fieldset figcaption figure footer form
    h1 h2 h3 h4 h5 h6 header hr legend li main ol option p pre section summary table tbody td tfoot th thead tr ul
"""
_SILENT: Final = frozenset(_SILENT_NAMES.split())
_BLOCKS: Final = frozenset(_BLOCK_NAMES.split())
_REPEATED_ROLES: Final = frozenset({"banner", "contentinfo", "menu", "menubar", "navigation", "search"})
"""Landmarks that are the same on all pages of a site."""
_REPEATED_CLASSES: Final = frozenset({"breadcrumb", "breadcrumbs", "nav", "navbar", "pagination", "sphinxsidebar"})
_SPACED: Final = frozenset({"dt", "ol", "p", "pre", "table", "ul"})
"""Blocks with a blank line before them, where a chunk may end."""
_CONTINUED: Final = frozenset({("dt", "dt"), ("dd", "p")})
"""A term stays with its definition."""
_LEVELS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_SPACE: Final = re.compile(r"\s+")
_SITE: Final = re.compile(r"\s+[-–—|·:«»•]\s+\S")
"""Separates the title of a page from the name of the site."""


def read(text: str, name: str) -> Document:
    reader = _Reader(text)
    for token in _tokens(text):
        reader.take(token)
    sections = [Section(section.headings, section.lines) for section in sectioned(reader.content())]
    heading = next((section.headings[0] for section in sections if section.headings), "")
    return Document(_title(" ".join("".join(reader.title).split())[:200], heading), sections)


def _title(title: str, heading: str) -> str:
    """The title without the site's name, which follows the heading of the page."""
    is_named = bool(heading) and title.startswith(heading) and _SITE.match(title, len(heading)) is not None
    return heading if is_named else title or heading


class _Reader:
    """Converts tokens to lines. Never fails: anything that is not HTML is text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._counted = 1, 0
        """Line number of the current position."""
        self.lines: list[Line] = []
        self.title: list[str] = []
        self._parts: list[str] = []
        self._prefix = ""
        self._start = 1
        self._block = ""
        """The block that was opened last."""
        self._silent = ""
        """The outermost element that is skipped, and how often it is nested in itself."""
        self._silent_depth = 0
        self._main = ""
        """The element of the main content, and how often it is nested in itself."""
        self._main_depth = 0
        self._main_lines: list[Line] = []
        self._main_start = 0
        self._in_title = False
        self._preformatted = 0
        self._link: tuple[str, int] | None = None
        """Target of the open link, and the index of its first part."""

    def take(self, token: _Token) -> None:
        self._line += self._text.count("\n", self._counted, token.position)
        self._counted = token.position
        if not token.tag:
            self._data(token.content)
        elif self._silent or token.tag in _SILENT or _is_repeated(token):
            self._skip(token)
        else:
            if token.opens:
                self._open(token)
            if token.closes:
                self._close(token.tag)
            if token.tag == self._main:
                self._main_depth += token.opens - token.closes
                if self._main_depth <= 0:
                    self._leave_main()

    def content(self) -> list[Line]:
        """The lines of the main content; all lines if the page marks none, or an empty one."""
        self._leave_main()
        return self._main_lines if any(line.text for line in self._main_lines) else self.lines

    def _leave_main(self) -> None:
        self.break_line()
        if self._main:
            self._main_lines += self.lines[self._main_start :]
            self._main = ""

    def _skip(self, token: _Token) -> None:
        if not self._silent and token.opens:
            self._silent = token.tag
        if token.tag == self._silent:
            self._silent_depth += token.opens - token.closes
            if self._silent_depth <= 0:
                self._silent, self._silent_depth = "", 0

    def _open(self, token: _Token) -> None:
        tag = token.tag
        if tag == "title":
            self._in_title = not self.title
        elif tag in _BLOCKS:
            self._open_block(token)
        elif tag == "a":
            self._link = _attribute(token, "href"), len(self._parts)
        elif tag == "code" and not self._preformatted:
            self._parts.append("`")

    def _open_block(self, token: _Token) -> None:
        tag = token.tag
        self.break_line()
        if not self._main and (tag == "main" or _attribute(token, "role") == "main"):
            self._main, self._main_depth, self._main_start = tag, 0, len(self.lines)
        if tag in _LEVELS or (tag in _SPACED and (self._block, tag) not in _CONTINUED):
            self._blank()
        self._block = tag
        if tag == "pre":
            self.lines.append(Line(self._line, "```"))
            self._preformatted += 1
        self._prefix = _LEVELS.get(tag, "- " if tag == "li" else "")

    def _close(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _BLOCKS:
            self.break_line()
            if tag == "pre" and self._preformatted:
                self._preformatted -= 1
                self.lines.append(Line(self._line, "```"))
            if tag in _LEVELS or tag == "p":
                self._blank()
        elif tag == "a":
            self._close_link()
        elif tag == "code" and not self._preformatted:
            self._parts.append("`")

    def _close_link(self) -> None:
        """Write the link as [label](target), the form from which links are extracted; drop a permalink."""
        if self._link is None:
            return
        (href, start), self._link = self._link, None
        label = " ".join("".join(self._parts[start:]).split())
        target = href.strip()
        if target.startswith("#"):
            if not any(map(str.isalnum, label)):
                del self._parts[start:]
        elif label and target and not re.search(r"[\s()<>]", target) and not set(label) & set("[]`"):
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


# ---------------------------------------------------------------- tags and text

_TAG: Final = re.compile(r"</?([A-Za-z][^\s/>]{0,60})")
_TAG_STOP: Final = re.compile(r"[>\"']")
_ATTRIBUTE: Final = re.compile(r"""([^\s=/>"']+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+))?""")
_LONG_NUMBER: Final = re.compile(r"&#[0-9]{8,};?")
_RAW: Final = frozenset({"script", "style", "title", "textarea"})
"""Elements that contain text without tags up to their end tag."""


class _Token(NamedTuple):
    position: int
    tag: str
    """Name in lower case; empty for text."""
    content: str
    """Text, or the rest of a tag after its name."""
    opens: bool = True
    closes: bool = False
    """True for an end tag; `<br/>` opens and closes."""


def _attribute(tag: _Token, name: str) -> str:
    for match in _ATTRIBUTE.finditer(tag.content):
        if match[1].lower() == name:
            return _unescaped((match[2] or "").strip("\"'"))
    return ""


def _is_repeated(token: _Token) -> bool:
    """Whether the element is on all pages of its site."""
    if not token.opens or token.tag not in _BLOCKS:
        return False
    if "role" in token.content and _attribute(token, "role").lower() in _REPEATED_ROLES:
        return True
    return "class" in token.content and not _REPEATED_CLASSES.isdisjoint(_attribute(token, "class").lower().split())


def _unescaped(text: str) -> str:
    """Replace character references such as `&amp;`."""
    return unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


def _tokens(text: str) -> Iterator[_Token]:
    scanner = _Scanner(text)
    start = place = 0
    while (place := text.find("<", place)) >= 0:
        end, token = scanner.markup(place)
        if end == place:
            place += 1  # an ordinary character
            continue
        if start < place:
            yield _Token(start, "", _unescaped(text[start:place]))
        start = place = end
        if token is not None:
            yield token
            if token.tag in _RAW and not token.closes:
                start = place = scanner.raw_end(token.tag, end)
                if end < start:
                    yield _Token(end, "", text[end:start] if token.tag != "title" else _unescaped(text[end:start]))
    if start < len(text):
        yield _Token(start, "", _unescaped(text[start:]))


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._unclosed: set[str] = set()
        """Elements for which no further end tag exists."""
        self._quotes_hide = True
        """Whether quotes protect `>`; after an unclosed quote, every `>` ends a tag."""

    def markup(self, place: int) -> tuple[int, _Token | None]:
        """Return the end of the markup that starts at `place`, and its tag if any; `place` itself for text."""
        text = self._text
        if text.startswith("<!--", place):
            end = text.find("-->", place + 4)
            return (len(text) if end < 0 else end + 3), None
        if text.startswith(("<!", "<?"), place):
            end = text.find(">", place)
            return (len(text) if end < 0 else end + 1), None
        match = _TAG.match(text, place)
        if match is None:
            return place, None
        end = self._tag_end(match.end())
        if end < 0:
            return len(text), None  # an unclosed tag is dropped, as in browsers
        inside = text[match.end() : end]
        closes = text[place + 1] == "/"
        return end + 1, _Token(place, match[1].lower(), inside, not closes, closes or inside.endswith("/"))

    def raw_end(self, tag: str, place: int) -> int:
        """Return the start of the end tag."""
        match = None if tag in self._unclosed else re.compile(f"</{tag}", re.IGNORECASE).search(self._text, place)
        if match is None:
            self._unclosed.add(tag)
            return place if tag in ("title", "textarea") else len(self._text)
        return match.start()

    def _tag_end(self, place: int) -> int:
        """Return the position of the `>` of a tag outside quoted values; -1 if there is none."""
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
        """Whether a quote starts a value, which follows `=`."""
        before = place - 1
        while before > start and self._text[before].isspace():
            before -= 1
        return before >= start and self._text[before] == "="
