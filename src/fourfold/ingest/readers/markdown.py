"""Markdown as sections, with the front matter and tags that Obsidian and others write."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from fourfold import limits
from fourfold.ingest.document import Document, Line, Section, TagUse, numbered
from fourfold.ingest.readers.hashtags import Hashtags
from fourfold.model import Json

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX: Final = re.compile(r" {0,3}(#{1,6})[ \t]+")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_NO_HEADING: Final = re.compile(r"[ \t]*(?:[-*+>|#]|\d+[.)][ \t])|[ \t]*$| {4}")
_FRONT: Final = 64 * 1024
_LEVELS: Final = {"=": 1, "-": 2}


def read(text: str, name: str) -> Document:
    lines = numbered(text)
    matter = _front_matter(lines)
    front = matter.values
    sections = sectioned(lines[matter.lines :])
    return Document(
        title=_text(front.get("title")) or first_title(sections),
        sections=sections,
        tags=_few([*_listed(front.get("tags")), *_listed(front.get("tag"))]),
        aliases=_few([*_listed(front.get("aliases"), ","), *_listed(front.get("alias"), ",")]),
        metadata={name: value for name, value in front.items() if name not in _TAKEN},
        note=matter.note,
    )


_TAKEN: Final = frozenset({"title", "tags", "tag", "aliases", "alias"})


# ---------------------------------------------------------------- sections


def sectioned(lines: Sequence[Line]) -> list[Section]:
    """Cut before every heading outside of fenced code; each with the headings above it, and the #tags in it."""
    sections: list[Section] = []
    way: list[tuple[int, str]] = []
    current: list[Line] = []
    tags: list[TagUse] = []

    def finish() -> None:
        if any(line.text.strip() for line in current):
            sections.append(Section(tuple(title for _, title in way), list(current), tags=tuple(tags)))
        current.clear()
        tags.clear()

    hashtags = Hashtags(lines)
    fence = ""
    for place, line in enumerate(lines):
        text = line.text
        if text and not text.isspace():
            fence, fenced = _fenced(fence, text)
            heading = None if fenced else _heading(lines, place)
            if heading is not None:
                finish()
                while way and way[-1][0] >= heading[0]:
                    way.pop()
                way.append(heading)
            elif not fenced and "#" in text:
                tags += [TagUse(line.number, tag) for tag in islice(hashtags.of(text), limits.TAGS)]
        current.append(line)
    finish()
    return sections


def _fenced(fence: str, line: str) -> tuple[str, bool]:
    """The fence that is open behind this line, and whether the line belongs to fenced code."""
    marks = _FENCE.match(line) if "```" in line or "~~~" in line else None
    if not fence:
        return (marks[1], True) if marks else ("", False)
    closes = marks is not None and marks[1].startswith(fence) and not line.strip().strip(fence[0])
    return ("" if closes else fence), True


def _heading(lines: Sequence[Line], place: int) -> tuple[int, str] | None:
    """(level, title) of a heading that begins here: # like this, or underlined."""
    text = lines[place].text
    if "#" in text and (found := _ATX.match(text)):
        title = plain(_without_closing_marks(text[found.end() :]))
        return (len(found[1]), title) if title else None
    if place + 1 < len(lines) and len(text) < 200:
        below = _UNDERLINE.match(lines[place + 1].text)
        if below and not _NO_HEADING.match(text) and _may_begin(lines, place):
            return _LEVELS[below[1][0]], plain(text)
    return None


def _may_begin(lines: Sequence[Line], place: int) -> bool:
    """Whether a heading may stand here: at the top, below a blank line, or below another heading."""
    return place == 0 or not lines[place - 1].text.strip() or _ATX.match(lines[place - 1].text) is not None


def _without_closing_marks(heading: str) -> str:
    """`# Title ##` is the title alone, `# C#` is not."""
    text = heading.rstrip()
    bare = text.rstrip("#")
    return bare if bare != text and (not bare or bare[-1] in " \t") else text


_HEADING_CHARACTERS: Final = 1000
"""Of a longer heading, only the beginning is looked at."""
_LINKED: Final = re.compile(
    r"!?\[([^\[\]\n]{0,300})\]\([^()\n]{0,400}\)|\[\[(?:[^\[\]|\n]{0,300}\|)?([^\[\]|\n]{1,300})\]\]"
)


def plain(heading: str) -> str:
    """A heading without the marks of links, code and emphasis."""
    text = _LINKED.sub(lambda found: found[1] or found[2] or "", heading[:_HEADING_CHARACTERS])
    return " ".join(text.replace("`", "").strip("*_ ").split())[:200]


def first_title(sections: Sequence[Section]) -> str:
    """The heading of first level, if it comes first."""
    opening = next((section for section in sections[:2] if section.headings), None)
    heading = None if opening is None else _heading(opening.lines, 0)
    return heading[1] if heading is not None and heading[0] == 1 else ""


# ---------------------------------------------------------------- front matter


class _Front(NamedTuple):
    values: Mapping[str, Json] = {}
    lines: int = 0
    """How many lines it takes."""
    note: str = ""


def _front_matter(lines: Sequence[Line]) -> _Front:
    """What stands between --- and --- at the top. Where that is not names with values, it is text like any other."""
    from fourfold.yaml_lines import WrongYaml

    if not lines or lines[0].text.rstrip() != "---":
        return _Front()
    size = 0
    for place, line in enumerate(lines[1:], start=1):
        size += len(line.text) + 1
        if size > _FRONT:
            break
        if line.text.rstrip() in ("---", "..."):
            try:
                return _Front(_yaml("\n".join(part.text for part in lines[1:place])), place + 1)
            except WrongYaml as wrong:
                return _Front(note=f"indexed without its front matter ({wrong.problem})")
    return _Front()


def _yaml(text: str) -> dict[str, Json]:
    """Names with plain values. Raises WrongYaml, also for what is YAML, but not names with values."""
    from fourfold.yaml_lines import WrongYaml, value

    found = value(text)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise WrongYaml(1, "names with values are expected")
    named = cast("dict[object, object]", found)
    return {str(name)[:100]: _json(value) for name, value in named.items()}


def _json(value: object, depth: int = 0) -> Json:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case datetime.date():
            return value.isoformat()
        case list() if depth < 5:
            return [_json(part, depth + 1) for part in cast("list[object]", value)]
        case dict() if depth < 5:
            return {str(name): _json(part, depth + 1) for name, part in cast("Mapping[object, object]", value).items()}
        case _:
            return str(value)


def _text(value: Any) -> str:
    return " ".join(str(value).split())[:200] if isinstance(value, str | int | float) else ""


def _listed(value: Any, between: str = ", ") -> list[str]:
    """A list, or one string with commas or spaces between."""
    parts = cast("list[object]", value) if isinstance(value, list) else []
    if isinstance(value, str):
        parts = list(re.split(f"[{between}]+", value))
    named = (" ".join(str(part).split()).lstrip("#") for part in parts if isinstance(part, str | int | float))
    return [name for name in named if name]


def _few(names: Sequence[str]) -> tuple[str, ...]:
    """Each once, as far as an item may have them."""
    short = (name for name in names if len(name.encode("utf-8", "replace")) <= limits.NAME_BYTES)
    return tuple(dict.fromkeys(short))[: limits.TAGS]
