"""Hashtags in lines of Markdown: words that somebody wrote as a tag, and nothing else that begins with `#`.

Not a tag: what stands in code, HTML, link targets and URLs, colours, issue numbers, headings without a blank, and
preprocessor lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from fourfold.ingest.document import Line

_BODY: Final = re.compile(r"[^\W_][\w/-]{0,60}")
_COLOUR: Final = re.compile(r"(?:[0-9a-f]{3,4}){1,2}", re.IGNORECASE)
_AFTER: Final = ".,;:!?)"
_MARKUP: Final = re.compile(r"<[A-Za-z/!][^<>]*>")
_BACKTICKS: Final = re.compile(r"`+")
_DEFINITION: Final = re.compile(r"\s*\[[^\]]*\]:\s")
_INDENTED: Final = re.compile(r"(?: {4}|\t)\s*(?![-*+>] |\d+[.)] )")
"""Code by its indentation; a deeper item of a list is not."""
_UNSPACED_HEADING: Final = re.compile(r"#{2,6}\w|#[A-Z]")
_DIRECTIVES: Final = frozenset(
    (
        "define",
        "elif",
        "else",
        "endif",
        "error",
        "if",
        "ifdef",
        "ifndef",
        "import",
        "include",
        "line",
        "pragma",
        "undef",
    )
)


class Hashtags:
    def __init__(self, lines: Sequence[Line]) -> None:
        self._headings_lack_blanks = any(_UNSPACED_HEADING.match(line.text) for line in lines)
        """Then a line that begins with `#word` is a heading, too."""

    def of(self, text: str) -> Iterator[str]:
        """The tags of a line outside of fenced code."""
        if _INDENTED.match(text) or _DEFINITION.match(text):
            return
        words = _without_code(_MARKUP.sub(" ", text)).split()
        if words and words[0][0] == "#" and not self._may_begin(words):
            words = words[1:]
        for word in words:
            if word[0] == "#" and _is_tag(body := word[1:].rstrip(_AFTER)):
                yield body

    def _may_begin(self, words: Sequence[str]) -> bool:
        """Whether the first word of a line is a tag: it stands with others, or is not spelled like a heading."""
        if len(words) > 1 and all(word[0] == "#" for word in words):
            return True
        return not self._headings_lack_blanks


def _without_code(text: str) -> str:
    if "`" not in text:
        return text
    parts = _BACKTICKS.sub("`", text).split("`")
    behind_unpaired = parts[-1:] if len(parts) % 2 == 0 else []
    return " ".join((*parts[::2], *behind_unpaired))


def _is_tag(body: str) -> bool:
    return (
        _BODY.fullmatch(body) is not None
        and not body.replace("-", "").replace("/", "").isdigit()
        and _COLOUR.fullmatch(body) is None
        and body not in _DIRECTIVES
    )
