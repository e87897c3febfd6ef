"""What a Markdown text points to, and the headings that divide it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast
from urllib.parse import unquote

from fourfold.limits import NAME_BYTES
from fourfold.model import Json
from fourfold.text.entities import title_names

_CODE = "code"
_HEADINGS = 64
_ALIASES = 64

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?=[ \t])")
_CLOSING_HASHES = re.compile(r"[ \t]#+$")
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`).{1,300}?(?<!`)\1(?!`)")
_LINK = re.compile(
    r"\[\[(?P<page>[^\[\]|#\n]{0,400})(?:#(?P<part>[^\[\]|\n]{1,400}))?(?:\|[^\[\]\n]{0,400})?\]\]"
    r"|(?<!!)\[(?P<label>[^\[\]\n]{1,400})\]\([ \t]*<?(?P<target>[^()<>\s]{1,1000})"
)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def links(text: str) -> list[str]:
    """The names that the Markdown links and [[wiki links]] of a text point to, each once, in order.

    A page may be known by its file name or by its title, so a link to a file gives both: the name of the file without
    folder and suffix, and the label. Links to the outside world give nothing, nor does code.
    """
    if "](" not in text and "[[" not in text:
        return []
    prose = _INLINE_CODE.sub("", "\n".join(_prose(text)))
    names = (name for found in _LINK.finditer(prose) for name in _names(found))
    return list(dict.fromkeys(filter(None, map(str.strip, names))))


def _names(found: re.Match[str]) -> Iterator[str]:
    if found["target"] is None:
        page = found["page"] or found["part"] or ""
        yield page.removesuffix(".md")
        yield _file_name(page)
    elif not _ELSEWHERE.match(found["target"]):
        page, _, part = unquote(found["target"]).partition("#")
        yield _file_name(page) if page else part
        yield found["label"].strip("*_")


def _file_name(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and stem and suffix.isalnum() else name


def headings(text: str) -> list[str]:
    """The ATX headings (`# like this`) of a Markdown text, in order, without those inside fenced code."""
    if "#" not in text:
        return []
    found = ((line, _HEADING.match(line)) for line in _prose(text))
    titles = (_CLOSING_HASHES.sub("", line[match.end() :].strip()).strip() for line, match in found if match)
    return [title for title in titles if title.strip("#")]


def has_headings(kind: str | None) -> bool:
    """Whether a line `# like this` of an item is a heading; in code it is a comment."""
    return kind != _CODE


def own_names(title: str, text: str, metadata: Mapping[str, Json], kind: str | None) -> list[str]:
    """What an item is known by: its title, the headings of its text, and the aliases that its metadata list."""
    aliases: object = metadata.get("aliases")
    listed = cast("list[object]", aliases) if isinstance(aliases, list) else []
    named = [alias for alias in listed[:_ALIASES] if isinstance(alias, str) and len(alias.encode()) <= NAME_BYTES]
    headed = headings(text)[:_HEADINGS] if has_headings(kind) else []
    return [name for each in (title, *named, *headed) for name in title_names(each)]


def _prose(text: str) -> Iterator[str]:
    """The lines of a text outside of fenced code. A fence that never closes runs to the end."""
    fence = ""
    for line in text.split("\n"):
        marks = _FENCE.match(line)
        if not fence and marks:
            fence = marks[1]
        elif not fence:
            yield line
        elif marks and marks[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
