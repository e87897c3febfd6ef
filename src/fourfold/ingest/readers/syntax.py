"""Functions and classes of languages that tree-sitter parses (extra `files`); nothing for others, or without it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final

from fourfold.ingest.chunk import CHUNK
from fourfold.ingest.readers.definitions import Part, around

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
_DEEPEST: Final = 12


def parts(text: str, ending: str) -> list[Part]:
    parser = _parser(ending)
    if parser is None:
        return []
    tree = parser.parse(text.encode())
    return [part for node in tree.root_node.children for part in _definitions(node, (), 0)]


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
    """A definition as a whole; one that is longer than a chunk as those in it."""
    if node.type not in _DEFINITIONS:
        if node.type in _WRAPPERS and depth < _DEEPEST:
            for child in node.children:
                yield from _definitions(child, above, depth + 1)
        return
    name = _name(node)
    names = (*above, name) if name else above
    whole = Part(names, node.start_point[0] + 1, node.end_point[0] + 1)
    inner = [part for child in _inside(node) for part in _definitions(child, names, depth + 1)]
    long = node.end_byte - node.start_byte > CHUNK and depth < _DEEPEST
    yield from around(whole, [part for part in inner if part.first > whole.first]) if long and inner else [whole]


def _inside(node: Any) -> list[Any]:
    body = node.child_by_field_name("body")
    return list(body.children) if body is not None else [child for child in node.children if child.type in _DEFINITIONS]


def _name(node: Any) -> str:
    """Its own, or that of what it wraps or points to."""
    for field in ("name", "declarator", "declaration", "type"):
        found = node.child_by_field_name(field)
        if found is not None:
            named = found.child_by_field_name("name") or found.child_by_field_name("declarator")
            return _name(found) if named is not None else _said(found)
    inner = next((child for child in node.children if child.child_by_field_name("name") is not None), None)
    return _name(inner) if inner is not None else ""


def _said(node: Any) -> str:
    text = (node.text or b"").decode("utf-8", "replace")
    return text if len(text) <= 100 and "\n" not in text else ""
