"""A YAML file as flat entries, each with its line: `a: {b: 1}` is the entry `a.b`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml


class Entry(NamedTuple):
    name: str
    value: Any
    line: int


class WrongYaml(Exception):
    """Not YAML, or not a tree of named values. Never quotes the file, which may hold a secret."""

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        self.problem = problem
        super().__init__(f"line {line}: {problem}")


def read(text: str) -> list[Entry]:
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        return [] if root is None else list(_entries(loader, root, ""))
    except yaml.MarkedYAMLError as wrong:
        line = wrong.problem_mark.line + 1 if wrong.problem_mark else 1
        raise WrongYaml(line, wrong.problem or "this is not YAML") from wrong
    finally:
        loader.dispose()


def _entries(loader: yaml.SafeLoader, node: yaml.Node, prefix: str) -> Iterator[Entry]:
    if not isinstance(node, yaml.MappingNode):
        raise WrongYaml(_line(node), "names with values are expected here")
    seen: set[str] = set()
    for key, value in node.value:
        name = prefix + _name(key)
        if name in seen:
            raise WrongYaml(_line(key), f"{name} is there twice")
        seen.add(name)
        yield from _value(loader, name, value, _line(key))


def _value(loader: yaml.SafeLoader, name: str, value: yaml.Node, line: int) -> Iterator[Entry]:
    if isinstance(value, yaml.MappingNode):
        yield from _entries(loader, value, f"{name}.")
    else:
        yield Entry(name, loader.construct_object(value, deep=True), line)


def _name(key: yaml.Node) -> str:
    if not isinstance(key, yaml.ScalarNode) or "." in key.value:
        raise WrongYaml(_line(key), "a name is one word")
    return key.value


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
