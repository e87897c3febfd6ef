"""Source code: a section for each function and class if there is a parser for the language, else plain text."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from fourfold.ingest.document import Document, Line, Section, numbered
from fourfold.ingest.formats import suffix

_PARSED_CHARACTERS = 1 << 20
"""Maximum size of code that is parsed; longer code is generated, and split by lines."""
_LONG_CHARACTERS: Final = 700
"""A longer class is split into its methods: it would hardly fit into a chunk."""


class Part(NamedTuple):
    """A definition: its name and those around it, its first and last line, from 1."""

    names: tuple[str, ...]
    first: int
    last: int


def read(text: str, name: str) -> Document:
    lines = numbered(text)
    parts = _parts(text, suffix(name)) if len(text) <= _PARSED_CHARACTERS else []
    return Document("", _sections(lines, parts))


def _parts(text: str, ending: str) -> list[Part]:
    if ending in ("py", "pyi", "pyw"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
        sizes = [len(line) + 1 for line in text.split("\n")]
        return [part for node in tree.body for part in _python_definitions(node, (), sizes)]
    parser = _parser(ending)
    if parser is None:
        return []
    tree = parser.parse(text.encode())
    return [part for node in tree.root_node.children for part in _definitions(node, (), 0)]


def _sections(lines: Sequence[Line], parts: Sequence[Part]) -> list[Section]:
    """Sections for the parts and for the lines between them."""
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
    """First line of the comment or the attributes above a definition."""
    while first - 1 > done and lines[first - 2].text.lstrip().startswith(("# ", "#[", "//", "/*", "*", "@")):
        first -= 1
    return first


def _python_definitions(node: ast.AST, above: tuple[str, ...], sizes: Sequence[int]) -> list[Part]:
    """A function or class as a whole; a long class as its methods and the lines between them."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    names = (*above, node.name)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    last = node.end_lineno or node.lineno
    if isinstance(node, ast.ClassDef) and sum(sizes[first - 1 : last]) > _LONG_CHARACTERS:
        inner = [part for child in node.body for part in _python_definitions(child, names, sizes)]
        return _around(Part(names, first, last), inner)
    return [Part(names, first, last)]


def _around(whole: Part, inner: Sequence[Part]) -> list[Part]:
    """The inner parts, and the lines of the whole between them under its own name."""
    parts: list[Part] = []
    done = whole.first - 1
    for part in inner:
        if part.first > done + 1:
            parts.append(Part(whole.names, done + 1, part.first - 1))
        parts.append(part)
        done = part.last
    return [*parts, Part(whole.names, done + 1, whole.last)] if done < whole.last else parts


# ---------------------------------------------------------------- languages that tree-sitter parses (extra `files`)

_LANGUAGES: Final = {
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), ("tree_sitter_javascript", "language")),
    "ts": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rs": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    **dict.fromkeys(("c", "h"), ("tree_sitter_c", "language")),
    **dict.fromkeys(("cc", "cpp", "cxx", "hh", "hpp", "hxx"), ("tree_sitter_cpp", "language")),
}
_DEFINITION_NAMES = """
    abstract_class_declaration class_declaration class_specifier constructor_declaration enum_declaration enum_item
    enum_specifier export_statement function_declaration function_definition function_item
    generator_function_declaration impl_item interface_declaration lexical_declaration method_declaration
    method_definition mod_item namespace_definition record_declaration struct_item struct_specifier trait_item
    type_alias_declaration type_declaration
"""
_WRAPPER_NAMES = """
    class_body declaration_list interface_body enum_body template_declaration linkage_specification
    field_declaration_list preproc_ifdef preproc_if export_statement
"""
_DEFINITIONS: Final = frozenset(_DEFINITION_NAMES.split())
_WRAPPERS: Final = frozenset(_WRAPPER_NAMES.split())
_MAXIMUM_DEPTH: Final = 12


@cache
def _parser(ending: str) -> Any:
    if ending not in _LANGUAGES:
        return None
    module, function = _LANGUAGES[ending]
    try:
        core, grammar = import_module("tree_sitter"), import_module(module)
    except ImportError:
        return None
    return core.Parser(core.Language(getattr(grammar, function)()))


def _definitions(node: Any, above: tuple[str, ...], depth: int) -> Iterator[Part]:
    """A definition as a whole; one that is longer than a chunk as the definitions in it."""
    if node.type not in _DEFINITIONS:
        if node.type in _WRAPPERS and depth < _MAXIMUM_DEPTH:
            for child in node.children:
                yield from _definitions(child, above, depth + 1)
        return
    name = _name(node)
    names = (*above, name) if name else above
    whole = Part(names, node.start_point[0] + 1, node.end_point[0] + 1)
    inner = [part for child in _children(node) for part in _definitions(child, names, depth + 1)]
    long = node.end_byte - node.start_byte > _LONG_CHARACTERS and depth < _MAXIMUM_DEPTH
    yield from _around(whole, [part for part in inner if part.first > whole.first]) if long and inner else [whole]


def _children(node: Any) -> list[Any]:
    body = node.child_by_field_name("body")
    return list(body.children) if body is not None else [child for child in node.children if child.type in _DEFINITIONS]


def _name(node: Any) -> str:
    """Name of a node, or of the node it wraps or refers to."""
    for field in ("name", "declarator", "declaration", "type"):
        part = node.child_by_field_name(field)
        if part is not None:
            named = part.child_by_field_name("name") or part.child_by_field_name("declarator")
            return _name(part) if named is not None else _short_text(part)
    inner = next((child for child in node.children if child.child_by_field_name("name") is not None), None)
    return _name(inner) if inner is not None else ""


def _short_text(node: Any) -> str:
    text = (node.text or b"").decode("utf-8", "replace")
    return text if len(text) <= 100 and "\n" not in text else ""
