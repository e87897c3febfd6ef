"""Source code as sections: functions and classes, where a parser knows the language; else paragraphs."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence

from fourfold.ingest.chunk import CHUNK
from fourfold.ingest.document import Document, Line, Section, numbered
from fourfold.ingest.formats import suffix
from fourfold.ingest.readers import syntax
from fourfold.ingest.readers.definitions import Part, around

_PARSED = 1 << 20
"""Longer code is cut at lines: it was written by a program."""


def read(text: str, name: str) -> Document:
    lines = numbered(text)
    parts = _parts(text, suffix(name)) if len(text) <= _PARSED else []
    return Document("", _sections(lines, parts))


def _parts(text: str, ending: str) -> list[Part]:
    if ending in ("py", "pyi", "pyw"):
        return _python(text)
    return syntax.parts(text, ending)


def _sections(lines: Sequence[Line], parts: Sequence[Part]) -> list[Section]:
    """The parts, and what stands between them."""
    sections: list[Section] = []
    done = 0
    for part in sorted(parts, key=lambda part: part.first):
        if part.first <= done:
            continue
        start = _with_comment(lines, part.first, done)
        sections += [
            Section((), list(lines[done : start - 1])),
            Section(part.names, list(lines[start - 1 : part.last])),
        ]
        done = part.last
    sections.append(Section((), list(lines[done:])))
    return [section for section in sections if any(line.text.strip() for line in section.lines)]


def _with_comment(lines: Sequence[Line], first: int, done: int) -> int:
    """Where the comment or the attributes above a definition begin."""
    while first - 1 > done and lines[first - 2].text.lstrip().startswith(("# ", "#[", "//", "/*", "*", "@")):
        first -= 1
    return first


def _python(text: str) -> list[Part]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    sizes = [len(line) + 1 for line in text.split("\n")]
    return [part for node in tree.body for part in _definitions(node, (), sizes)]


def _definitions(node: ast.AST, above: tuple[str, ...], sizes: Sequence[int]) -> list[Part]:
    """A function or class as a whole; a long class as its methods, and what stands before them."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    names = (*above, node.name)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    last = node.end_lineno or node.lineno
    if isinstance(node, ast.ClassDef) and sum(sizes[first - 1 : last]) > CHUNK:
        inner = [part for child in node.body for part in _definitions(child, names, sizes)]
        return around(Part(names, first, last), inner)
    return [Part(names, first, last)]
