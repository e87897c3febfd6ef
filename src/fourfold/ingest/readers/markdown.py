"""Markdown with front matter and hashtags (as in Obsidian), and Jupyter notebooks, whose texts are Markdown."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from fourfold import limits
from fourfold.ingest.document import Document, Line, Section, TagUse, Unreadable, numbered
from fourfold.model import Json

# ---------------------------------------------------------------- Markdown

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX: Final = re.compile(r" {0,3}(#{1,6})[ \t]+")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_NO_HEADING: Final = re.compile(r"[ \t]*(?:[-*+>|#]|\d+[.)][ \t])|[ \t]*$| {4}")
_FRONT_CHARACTERS: Final = 64 * 1024
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
    """Split lines before every heading outside fenced code; sections have the headings above and the #tags in them."""
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    current: list[Line] = []
    tags: list[TagUse] = []

    def finish() -> None:
        if any(line.text.strip() for line in current):
            sections.append(Section(tuple(title for _, title in path), list(current), tags=tuple(tags)))
        current.clear()
        tags.clear()

    hashtags = _Hashtags(lines)
    fence = ""
    for index, line in enumerate(lines):
        text = line.text
        if text and not text.isspace():
            fence, fenced = _fenced(fence, text)
            heading = None if fenced else _heading(lines, index)
            if heading is not None:
                finish()
                while path and path[-1][0] >= heading[0]:
                    path.pop()
                path.append(heading)
            elif not fenced and "#" in text:
                tags += [TagUse(line.number, tag) for tag in islice(hashtags.of(text), limits.TAGS)]
        current.append(line)
    finish()
    return sections


def _fenced(fence: str, line: str) -> tuple[str, bool]:
    """The fence that is open after this line, and whether the line belongs to fenced code."""
    marks = _FENCE.match(line) if "```" in line or "~~~" in line else None
    if not fence:
        return (marks[1], True) if marks else ("", False)
    closes = marks is not None and marks[1].startswith(fence) and not line.strip().strip(fence[0])
    return ("" if closes else fence), True


def _heading(lines: Sequence[Line], index: int) -> tuple[int, str] | None:
    """(level, title) of a heading that starts at this line: # like this, or underlined."""
    text = lines[index].text
    if "#" in text and (match := _ATX.match(text)):
        title = plain(_without_closing_marks(text[match.end() :]))
        return (len(match[1]), title) if title else None
    if index + 1 < len(lines) and len(text) < 200:
        below = _UNDERLINE.match(lines[index + 1].text)
        if below and not _NO_HEADING.match(text) and _can_start(lines, index):
            return _LEVELS[below[1][0]], plain(text)
    return None


def _can_start(lines: Sequence[Line], index: int) -> bool:
    """Whether an underlined heading can start here: at the top, below a blank line, or below another heading."""
    return index == 0 or not lines[index - 1].text.strip() or _ATX.match(lines[index - 1].text) is not None


def _without_closing_marks(heading: str) -> str:
    """Remove the final marks of `# Title ##`, but not of `# C#`."""
    text = heading.rstrip()
    bare = text.rstrip("#")
    return bare if bare != text and (not bare or bare[-1] in " \t") else text


_HEADING_CHARACTERS: Final = 1000
"""Maximum length of a heading; the rest is ignored."""
_LINKED: Final = re.compile(
    r"!?\[([^\[\]\n]{0,300})\]\([^()\n]{0,400}\)|\[\[(?:[^\[\]|\n]{0,300}\|)?([^\[\]|\n]{1,300})\]\]"
)


def plain(heading: str) -> str:
    """Remove the marks of links, code and emphasis from a heading."""
    text = _LINKED.sub(lambda match: match[1] or match[2] or "", heading[:_HEADING_CHARACTERS])
    return " ".join(text.replace("`", "").strip("*_ ").split())[:200]


def first_title(sections: Sequence[Section]) -> str:
    """Return the first heading if its level is 1, else an empty string."""
    opening = next((section for section in sections[:2] if section.headings), None)
    heading = None if opening is None else _heading(opening.lines, 0)
    return heading[1] if heading is not None and heading[0] == 1 else ""


# ---------------------------------------------------------------- front matter


class _Front(NamedTuple):
    values: Mapping[str, Json] = {}
    lines: int = 0
    """Number of lines of the front matter."""
    note: str = ""


def _front_matter(lines: Sequence[Line]) -> _Front:
    """Read the YAML between --- and --- at the top; if it is not a mapping, it stays part of the text."""
    from fourfold.yaml_lines import WrongYaml

    if not lines or lines[0].text.rstrip() != "---":
        return _Front()
    size = 0
    for index, line in enumerate(lines[1:], start=1):
        size += len(line.text) + 1
        if size > _FRONT_CHARACTERS:
            break
        if line.text.rstrip() in ("---", "..."):
            try:
                return _Front(_yaml("\n".join(part.text for part in lines[1:index])), index + 1)
            except WrongYaml as wrong:
                return _Front(note=f"indexed without its front matter ({wrong.problem})")
    return _Front()


def _yaml(text: str) -> dict[str, Json]:
    """Parse YAML that is a mapping; raise WrongYaml if it is not."""
    from fourfold.yaml_lines import WrongYaml, value

    content = value(text)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise WrongYaml(1, "it is not a mapping")
    named = cast("dict[object, object]", content)
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
    """Names from a list, or from a string with commas or spaces between them."""
    parts = cast("list[object]", value) if isinstance(value, list) else []
    if isinstance(value, str):
        parts = list(re.split(f"[{between}]+", value))
    named = (" ".join(str(part).split()).lstrip("#") for part in parts if isinstance(part, str | int | float))
    return [name for name in named if name]


def _few(names: Sequence[str]) -> tuple[str, ...]:
    """The distinct names, within the limits of an item."""
    short = (name for name in names if len(name.encode("utf-8", "replace")) <= limits.NAME_BYTES)
    return tuple(dict.fromkeys(short))[: limits.TAGS]


# ---------------------------------------------------------------- hashtags: not in code, HTML, link targets and URLs;
# neither colours, issue numbers, headings without a blank, nor preprocessor lines

_BODY: Final = re.compile(r"[^\W_][\w/-]{0,60}")
_COLOUR: Final = re.compile(r"(?:[0-9a-f]{3,4}){1,2}", re.IGNORECASE)
_FINAL_PUNCTUATION: Final = ".,;:!?)"
_MARKUP: Final = re.compile(r"<[A-Za-z/!][^<>]*>")
_BACKTICKS: Final = re.compile(r"`+")
_DEFINITION: Final = re.compile(r"\s*\[[^\]]*\]:\s")
_INDENTED: Final = re.compile(r"(?: {4}|\t)\s*(?![-*+>] |\d+[.)] )")
"""Indented code, but not nested list items."""
_UNSPACED_HEADING: Final = re.compile(r"#{2,6}\w|#[A-Z]")
_DIRECTIVE_NAMES: Final = "define elif else endif error if ifdef ifndef import include line pragma undef"
_DIRECTIVES: Final = frozenset(_DIRECTIVE_NAMES.split())


class _Hashtags:
    def __init__(self, lines: Sequence[Line]) -> None:
        self._headings_lack_blanks = any(_UNSPACED_HEADING.match(line.text) for line in lines)
        """If so, a line that starts with `#word` is a heading as well."""

    def of(self, text: str) -> Iterator[str]:
        """Yield the tags of a line outside fenced code."""
        if _INDENTED.match(text) or _DEFINITION.match(text):
            return
        words = _without_code(_MARKUP.sub(" ", text)).split()
        if words and words[0][0] == "#" and not self._starts_with_tag(words):
            words = words[1:]
        for word in words:
            if word[0] == "#" and _is_tag(body := word[1:].rstrip(_FINAL_PUNCTUATION)):
                yield body

    def _starts_with_tag(self, words: Sequence[str]) -> bool:
        """Whether the first word of a line is a tag: all words are tags, or headings are spelled differently."""
        if len(words) > 1 and all(word[0] == "#" for word in words):
            return True
        return not self._headings_lack_blanks


def _without_code(text: str) -> str:
    if "`" not in text:
        return text
    parts = _BACKTICKS.sub("`", text).split("`")
    after_unpaired = parts[-1:] if len(parts) % 2 == 0 else []
    return " ".join((*parts[::2], *after_unpaired))


def _is_tag(body: str) -> bool:
    return (
        _BODY.fullmatch(body) is not None
        and not body.replace("-", "").replace("/", "").isdigit()
        and _COLOUR.fullmatch(body) is None
        and body not in _DIRECTIVES
    )


# ---------------------------------------------------------------- notebooks

_OUTPUT_CHARACTERS: Final = 2000
"""Maximum size of each output."""


def read_notebook(text: str, name: str) -> Document:
    """Read a notebook; line numbers are those of cells."""
    notebook: object = json.loads(text)
    cells = cast("dict[str, object]", notebook).get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise Unreadable("a notebook without cells (only format 4 is supported)")
    lines = [
        Line(number, line)
        for number, cell in enumerate(cast("list[object]", cells), start=1)
        if isinstance(cell, dict)
        for line in (*_cell(cast("dict[str, Any]", cell)), "")
    ]
    sections = sectioned(lines)
    return Document(first_title(sections), sections, unit="cell")


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = _joined(cell.get("source"))
    if cell.get("cell_type") != "code":
        yield from source.split("\n")
        return
    if source.strip():
        yield from ("```", *source.split("\n"), "```")
    for output in cell.get("outputs") or ():
        if printed := _printed(output)[:_OUTPUT_CHARACTERS].strip():
            yield from ("```", *printed.split("\n"), "```")


def _printed(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    fields = cast("dict[str, Any]", output)
    data = fields.get("data")
    plain = cast("dict[str, Any]", data).get("text/plain") if isinstance(data, dict) else None
    return _joined(fields.get("text") or plain)


def _joined(source: object) -> str:
    """Join a string that may be given as a list of parts."""
    parts = cast("list[object]", source) if isinstance(source, list) else [source]
    return "".join(part for part in parts if isinstance(part, str)).replace("\r\n", "\n")
