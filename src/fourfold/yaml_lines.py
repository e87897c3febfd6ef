"""Safe reading of untrusted YAML in linear time, as a value or as flat entries with line numbers.

Aliases, which can expand exponentially, and deep nesting are rejected. Every failure is a WrongYaml with its line.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

import yaml

_MAXIMUM_DEPTH: Final = 32
_LARGEST_INTEGER: Final = 2**63 - 1


class Entry(NamedTuple):
    name: str
    value: Any
    line: int


class WrongYaml(Exception):
    """Not YAML, or not a tree of named values. The message never quotes the file, which may contain a secret."""

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        self.problem = problem
        super().__init__(f"line {line}: {problem}")


def read(text: str) -> list[Entry]:
    """Return flat entries: `a: {b: 1}` is the entry `a.b`."""
    with _loader(text) as loader:
        root = loader.get_single_node()
        return [] if root is None else list(_entries(loader, root, ""))


def value(text: str) -> object:
    """Return the value; integers too large for a store become strings."""
    with _loader(text) as loader:
        return loader.get_single_data()


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        self._depth = 0
        super().__init__(text)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise WrongYaml(self._next_line(), "aliases are not supported")
        self._depth += 1
        if self._depth > _MAXIMUM_DEPTH:
            raise WrongYaml(self._next_line(), f"more than {_MAXIMUM_DEPTH} levels deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _next_line(self) -> int:
        event = cast("Any", self.peek_event())
        return event.start_mark.line + 1

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            node_value = cast("Any", super().construct_object(node, deep))
        except (yaml.YAMLError, WrongYaml):
            raise
        except Exception as error:  # PyYAML raises any type: KeyError for `!!bool x`, IndexError for `!!int ""` ...
            kind = node.tag.rpartition(":")[2]
            raise WrongYaml(_line(node), f"this is not a valid {kind}") from error
        return node.value if type(node_value) is int and abs(node_value) > _LARGEST_INTEGER else node_value


@contextmanager
def _loader(text: str) -> Generator[_Loader]:
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        yield loader
    except yaml.MarkedYAMLError as wrong:
        line = wrong.problem_mark.line + 1 if wrong.problem_mark else 1
        raise WrongYaml(line, wrong.problem or "this is not YAML") from wrong
    except yaml.YAMLError as wrong:
        position = getattr(wrong, "position", 0)
        raise WrongYaml(text.count("\n", 0, position) + 1, "a character that YAML does not allow") from wrong
    finally:
        if loader is not None:
            loader.dispose()


def _entries(loader: _Loader, node: yaml.Node, prefix: str) -> Iterator[Entry]:
    if not isinstance(node, yaml.MappingNode):
        raise WrongYaml(_line(node), "names with values are expected here")
    seen: set[str] = set()
    for key, value in node.value:
        name = prefix + _name(key)
        if name in seen:
            raise WrongYaml(_line(key), f"{name} occurs twice")
        seen.add(name)
        yield from _value(loader, name, value, _line(key))


def _value(loader: _Loader, name: str, value: yaml.Node, line: int) -> Iterator[Entry]:
    if isinstance(value, yaml.MappingNode):
        yield from _entries(loader, value, f"{name}.")
    else:
        yield Entry(name, loader.construct_object(value, deep=True), line)


def _name(key: yaml.Node) -> str:
    if not isinstance(key, yaml.ScalarNode) or "." in key.value:
        raise WrongYaml(_line(key), "a name must be one word without dots")
    return key.value


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
